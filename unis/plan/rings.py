"""How long the rings of a chain are where its file does not say.

A function runs until its turn has filled γ of its egress, so the longer the rings, the less of the
CPU is lost to switches: of a turn of `packets` at `cost` each, switch / (switch + packets · cost).
Beyond the length at which little is left to win, more costs memory, latency when they are full, and
the cache. Under hand-over a turn may be shorter: how long is found while the functions run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unis.chain.model import ChainFile
from unis.chain.sizes import mean_cost, shares

_LOST = (
    0.03  # of the time of the chain's cheapest function, in switches: no ring is longer for less
)
_LEAST, _MOST = 1024, 16384  # slots
_MOST_HANDED_OVER = 4096  # slots, under hand-over: longer turns leave the cache
_ASSUMED_NS = 50.0  # a packet, of a function that nobody has measured: short ones want long rings
# A switch as it was measured on virtual machines, where that of this one is not known.
_SWITCH_NS = {"priority": 10e3, "signal": 40e3, "cgroup": 100e3, "handover": 2e3}
_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_LINES = 192  # bytes of a packet that a function touches: its mbuf's two cache lines, its headers
_UNKNOWN_CACHE = 8 << 20  # bytes


@dataclass(frozen=True)
class Known:
    """What was measured on this machine before."""

    costs: Mapping[str, float] = field(default_factory=dict)  # ns a packet, by function
    switch_ns: float | None = None  # of the controller of the file
    cache_bytes: int | None = None  # of the last level


@dataclass(frozen=True)
class RingChoice:
    """Slots of each ring of a chain, and why so many."""

    slots: int
    why: str


def choices(file: ChainFile, known: Known, there: Mapping[str, int]) -> dict[str, RingChoice]:
    """By chain. Those of chains that are `there` keep their length, where the file states none."""
    return {name: _choice(file, name, known, there.get(name)) for name in file.chains}


def _choice(file: ChainFile, name: str, known: Known, there: int | None) -> RingChoice:
    stated = file.chains[name].ring
    if stated != "auto":
        return RingChoice(stated, "stated")
    if there is not None:
        return RingChoice(there, "as it was when the chain was brought up")
    costs = {function: _cost(file, function, known) for function in file.path(name)}
    cheapest = min(costs, key=lambda function: costs[function] or _ASSUMED_NS)
    cost = costs[cheapest] or _ASSUMED_NS
    controller = file.scheduler.controller
    switch = known.switch_ns or _SWITCH_NS[controller]
    gamma = file.scheduler.gamma
    wanted = _power_of_two(switch * (1 - _LOST) / _LOST / cost / gamma)
    room = _fitting(known.cache_bytes or _UNKNOWN_CACHE, len(file.path(name)))
    most = _MOST_HANDED_OVER if controller == "handover" else _MOST
    slots = max(_LEAST, min(wanted, room, most))
    lost = switch / (switch + slots * gamma * cost)
    words = [
        f"{cheapest} needs {cost:.0f} ns a packet"
        + ("" if costs[cheapest] else ", assumed as it was not measured yet"),
        f"a switch {switch / 1000:.1f} µs" + ("" if known.switch_ns else ", assumed"),
        f"so {lost:.1%} of its time is lost in switches",
    ]
    if slots < wanted:
        words.append("more would not stay in the cache" if slots == room else "no more than that")
    return RingChoice(slots, "; ".join(words))


def _cost(file: ChainFile, function: str, known: Known) -> float | None:
    stated = file.functions[function].cost_ns
    if stated is not None:
        return mean_cost(stated, shares(file.traffic)) or None
    return known.costs.get(function)


def _power_of_two(least: float) -> int:
    return 1 << max(0, int(-(-least // 1)) - 1).bit_length()


def _fitting(cache_bytes: int, functions: int) -> int:
    """Slots so that what is in all rings of the chain stays in half of the cache."""
    most = cache_bytes / 2 / (_LINES * (functions + 1))
    return 1 << (max(1, int(most)).bit_length() - 1)


def last_level_cache(root: Path = _CACHE) -> int | None:
    """Bytes; None where the kernel does not tell."""
    sizes = [_bytes(file) for file in root.glob("index*/size")]
    return max(sizes, default=0) or None


def _bytes(file: Path) -> int:
    try:
        text = file.read_text().strip()
        units: Iterable[tuple[str, int]] = (("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30))
        for unit, factor in units:
            if text.endswith(unit):
                return int(text[:-1]) * factor
        return int(text)
    except (OSError, ValueError):
        return 0
