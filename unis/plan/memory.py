"""Hugepages that a run needs, and those of them that the engine takes at its start.

More than it took then every process of its group must agree to, and one that is stopped does not
answer. So the engine's are reckoned generously: its packets, as it counts them itself (PacketsFor()
in engine/run/deployment.cc), and room for the rest.
"""

from collections.abc import Iterable, Sequence

from unis import links, workload
from unis.links.kind import LinkPlan
from unis.plan.model import FunctionPlan

_PACKETS, _PACKETS_OF_FUNCTION = 4 * 512 + 4096, 4 * 64 + 2 * 512
_SPARE = 1.5  # for what is added while the run lives
_BUFFER_BYTES = 2432 + 16  # of a packet, and of its place in the pool
# For tables of functions, and for what those leave that are killed, some 200 kB each time.
_ROOM_MB = 128
_LEAST_MB = 256  # which suffices for chains of the usual size


def engine_mb(
    wires: Iterable[LinkPlan], functions: Sequence[FunctionPlan], port_packets: int = 0
) -> int:
    """The engine's part; source and sink hold `port_packets` in queues of ports."""
    wires = list(wires)
    packets = _PACKETS + _PACKETS_OF_FUNCTION * len(functions) + port_packets
    packets += sum(links.KINDS[link.kind].packets(link) for link in wires)
    taken = packets * _SPARE * _BUFFER_BYTES
    taken += sum(links.KINDS[link.kind].memory_bytes(link) for link in wires)
    # A command may make a pool of its own in the engine's group too.
    commands = [one for one in functions if one.group == "engine" and one.is_command]
    pools = len(commands) * workload.KINDS["own"].hugepages_mb
    return max(_LEAST_MB, -(-int(taken) // (1 << 20)) + _ROOM_MB) + pools


def own_mb(functions: Iterable[FunctionPlan]) -> int:
    """What functions take beside the engine, for themselves."""
    return sum(workload.KINDS[function.group].hugepages_mb for function in functions)
