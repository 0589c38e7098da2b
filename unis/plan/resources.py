"""What processes take of DPDK: numbers of lcores and devices, and hugepages.

**Numbers.** No two processes of the engine's DPDK group may share one. What stays in a run keeps
its own. A function with a group of its own needs none: EAL counts its lcores from 0.

**Hugepages** that the engine takes at its start. More than these later needs the consent of every
process of the group, and a stopped process does not answer. So the engine's part is generous: its
packets, as it counts them itself (PacketsFor() in engine/run/deployment.cc), and room for the rest.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from unis import links, workload
from unis.chain.model import ChainFile
from unis.links.kind import LinkPlan
from unis.plan.model import FunctionPlan, Plan

_LAST_NUMBER = re.compile(r"\d+$")
_PACKETS, _PACKETS_OF_FUNCTION = 4 * 512 + 4096, 4 * 64 + 2 * 512
_SPARE = 1.5  # for what is added while the run lives
_BUFFER_BYTES = 2432 + 16  # of a packet, and of its place in the pool
# For tables of functions, and for what killed ones leave: some 200 kB each time, and what other
# programs than ours have taken.
_ROOM_MB = 128
_LEAST_MB = 256  # which suffices for chains of the usual size


class Numbers:
    """Numbers of lcores, which have caches in the mempool, and of devices on rings."""

    def __init__(self, platform_cpus: int, file: ChainFile, there: Plan | None) -> None:
        before = {function.name: function for function in there.functions} if there else {}
        stays = {
            name: before[name]
            for name in file.functions
            if name in before and before[name].group == "engine"
        }
        self._lcores = {
            name: lcores(function)
            for name, function in stays.items()
            if len(lcores(function)) == file.functions[name].lcores
        }
        # 0 is unisd's main thread, then one for each CPU of the platform.
        self._used_lcores = {
            *range(1 + platform_cpus),
            *itertools.chain.from_iterable(self._lcores.values()),
        }
        self._devices = _devices(stays)
        self._used_devices = {*self._devices.values()}

    def lcore(self, function: str, count: int) -> int:
        """The first of so many in a row for a function."""
        if function in self._lcores:
            return self._lcores[function][0]
        wanted = (range(first, first + count) for first in itertools.count())
        found = next(row for row in wanted if self._used_lcores.isdisjoint(row))
        self._used_lcores.update(found)
        return found[0]

    def device(self, port: str) -> int:
        """The number of a port's device."""
        if port not in self._devices:
            self._devices[port] = next(
                at for at in itertools.count() if at not in self._used_devices
            )
            self._used_devices.add(self._devices[port])
        return self._devices[port]


def lcores(function: FunctionPlan) -> list[int]:
    """The ids of a function's lcores."""
    return [int(part.partition("@")[0]) for part in function.lcores.split(",")]


def _devices(functions: Mapping[str, FunctionPlan]) -> dict[str, int]:
    return {
        port.name: int(found[0])
        for function in functions.values()
        for port in function.ports
        if (found := _LAST_NUMBER.search(port.device_name))
    }


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
    commands = [
        function for function in functions if function.group == "engine" and function.is_command
    ]
    pools = len(commands) * workload.KINDS["own"].hugepages_mb
    return max(_LEAST_MB, -(-int(taken) // (1 << 20)) + _ROOM_MB) + pools


def own_mb(functions: Iterable[FunctionPlan]) -> int:
    """What functions take beside the engine, for themselves."""
    return sum(workload.KINDS[function.group].hugepages_mb for function in functions)
