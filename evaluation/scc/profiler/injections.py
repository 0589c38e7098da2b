"""Whether the parts are true: a known delay must be found in its part, and in no other."""

import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from evaluation.scc.arms import SccArm
from evaluation.scc.chains import ChainSpec
from evaluation.scc.profiler import disturb
from evaluation.scc.profiler.follow import FollowedWindow, Follower, follower_of
from evaluation.scc.profiler.found import Elsewhere, InjectedRow
from evaluation.scc.rows import SccRatio
from evaluation.scc.windows import Bench
from unis.measure.paired import Paired, interval
from unis.parts.accounting import BLOCKED, PROCESSING, QUEUEING, RUN_DELAY, SEND

_T = TypeVar("_T")
_PLAIN = ChainSpec(2)
# Of a class above what else runs on the machine.
_ARM = SccArm("fifo", "blocking")
_CYCLES = 200_000
_SLEEP_US = 500
_ODD_PPS = 1117  # so that packets come at all times of what is repeated
_BRING_UPS = 3  # of each of two chains
_CPU_TIME = "what the functions' CPU time a packet grew by, as the kernel tells"
_LOGGED = "the times that were logged, as they meet packets that come at any time"
FIRST, SECOND = "f1", "f2"


@dataclass(frozen=True)
class Injection:
    """One of them."""

    name: str
    how: str
    place: str
    parts: tuple[str, ...]  # where it belongs
    pps: float
    known_by: str
    by: Literal["bring-up", "hog", "stop", "filter"]
    of_second: tuple[str, ...] = ()  # by bring-up: arguments of the second function
    ns: float | None = None  # that are injected; None: measured


INJECTIONS = (
    Injection(
        "busy loop", f"{_CYCLES} cycles of work a packet", SECOND, (PROCESSING,), 2_000,
        _CPU_TIME, "bring-up", ("--cost", str(_CYCLES)),
    ),
    Injection(
        "sleep", f"{_SLEEP_US} µs between its two calls", SECOND, (BLOCKED,), 900,
        "the time that it asks the kernel for", "bring-up", ("--sleep", str(_SLEEP_US)),
        1000.0 * _SLEEP_US,
    ),
    Injection(
        "competing process", "another has the CPU for 2 of 2.4 ms", FIRST, (RUN_DELAY,), _ODD_PPS,
        _LOGGED, "hog",
    ),
    Injection(
        "slowed sender",
        f"filters of {disturb.FILTERS * disturb.INSTRUCTIONS} instructions on the device behind it",
        FIRST, (SEND,), 2_000, _CPU_TIME, "filter",
    ),
    Injection(
        "stopped reader", "a signal stops it for 5 of 6 ms", SECOND, (BLOCKED, QUEUEING), _ODD_PPS,
        _LOGGED, "stop",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Windows without and with the delay, in one round."""

    off: FollowedWindow
    on: FollowedWindow
    injected_ns: float
    block: int = 0  # two bring-ups of their own


class On(Protocol):
    """Brings a chain up."""

    def __call__(self, spec: ChainSpec, look: Callable[[Bench], _T], /) -> _T:
        """What `look` saw of it."""


class Injector:
    """Measures them."""

    def __init__(self, on: On, cpu: int, rounds: int, window: float) -> None:
        self._on = on
        self._cpu = cpu
        self._rounds = rounds
        self._window = window

    def pairs(self, injection: Injection) -> list[Pair]:
        """UnisError: it cannot be measured."""
        if injection.by == "bring-up":
            return [
                pair for block in range(_BRING_UPS) for pair in self._by_bring_up(injection, block)
            ]
        found: list[Pair] = []

        def look(bench: Bench) -> None:
            with follower_of(bench) as follower:
                by = {"hog": self._hogged, "stop": self._stopped, "filter": self._filtered}
                found.extend(by[injection.by](injection, bench, follower))

        self._on(_PLAIN, look)
        return found

    # ------------------------------------------------------------------ ways

    def _by_bring_up(self, injection: Injection, block: int) -> Iterator[Pair]:
        injected = ChainSpec(2, of_second=injection.of_second)
        measured: dict[ChainSpec, list[FollowedWindow]] = {}

        def look(bench: Bench) -> list[FollowedWindow]:
            with follower_of(bench) as follower:
                each = max(2, -(-self._rounds // _BRING_UPS))
                return [self._followed(injection, follower) for _ in range(each)]

        for spec in (_PLAIN, injected)[:: -1 if block % 2 else 1]:
            measured[spec] = self._on(spec, look)
        for off, on in zip(measured[_PLAIN], measured[injected], strict=True):
            ns = injection.ns if injection.ns is not None else on.cpu_ns - off.cpu_ns
            yield Pair(off, on, ns, block)

    def _hogged(self, injection: Injection, _: Bench, follower: Follower) -> Iterator[Pair]:
        return self._logged(injection, follower, lambda: disturb.hogged(self._cpu))

    def _stopped(self, injection: Injection, bench: Bench, follower: Follower) -> Iterator[Pair]:
        pid = bench.run.functions[injection.place].process.pid
        return self._logged(injection, follower, lambda: disturb.stopped(pid))

    def _logged(
        self,
        injection: Injection,
        follower: Follower,
        begin: Callable[[], contextlib.AbstractContextManager[disturb.Log]],
    ) -> Iterator[Pair]:
        for at in range(self._rounds):
            found: dict[bool, FollowedWindow] = {}
            log = disturb.Log()
            for is_on in (False, True)[:: -1 if at % 2 else 1]:
                if is_on:
                    with begin() as log:
                        found[is_on] = self._followed(injection, follower)
                else:
                    found[is_on] = self._followed(injection, follower)
            on = found[True]
            met = [
                each for each in log.intervals if on.began_ns < each[1] and each[0] < on.ended_ns
            ]
            yield Pair(found[False], on, disturb.typical_wait_ns(met))

    def _filtered(self, injection: Injection, bench: Bench, follower: Follower) -> Iterator[Pair]:
        with contextlib.closing(disturb.SlowDevice(disturb.device_before(bench, 1))) as device:
            for at in range(self._rounds):
                found: dict[bool, FollowedWindow] = {}
                for is_on in (False, True)[:: -1 if at % 2 else 1]:
                    device.slow(is_slow=is_on)
                    found[is_on] = self._followed(injection, follower)
                off, on = found[False], found[True]
                yield Pair(off, on, on.cpu_ns - off.cpu_ns)

    def _followed(self, injection: Injection, follower: Follower) -> FollowedWindow:
        return follower.window(_ARM, self._window, injection.pps)


# ------------------------------------------------------------------ what it comes to


def injected_row(injection: Injection, pairs: Sequence[Pair]) -> InjectedRow:
    """Of windows, at least one pair. What grew is compared round by round."""
    mine = {(injection.place, part) for part in injection.parts}
    keys = {key for pair in pairs for key in (*pair.off.parts.parts, *pair.on.parts.parts)}
    found = [sum(_growth(pair, key) for key in mine) for pair in pairs]
    others = {key: statistics.median(_growth(pair, key) for pair in pairs) for key in keys - mine}
    most = max(others, key=lambda key: abs(others[key]), default=None)
    return InjectedRow(
        name=injection.name,
        how=injection.how,
        place=injection.place,
        parts=[*injection.parts],
        injected_ns=statistics.median(pair.injected_ns for pair in pairs),
        known_by=injection.known_by,
        found_ns=statistics.median(found),
        share=_share(pairs, lambda pair: sum(_growth(pair, key) for key in mine)),
        elsewhere=Elsewhere(place=most[0], part=most[1], ns=others[most]) if most else None,
        elsewhere_share=_share(pairs, lambda pair: _growth(pair, most), signless=True)
        if most
        else None,
        latency_ns=statistics.median(pair.on.median_ns - pair.off.median_ns for pair in pairs),
    )


def _growth(pair: Pair, key: tuple[str, str]) -> float:
    return pair.on.parts.parts.get(key, 0.0) - pair.off.parts.parts.get(key, 0.0)


def _share(
    pairs: Sequence[Pair],
    grown: Callable[[Pair], float],
    *,
    signless: bool = False,
) -> SccRatio | None:
    """By the amount of each pair, so that the interval has what the amount is not known by. Null
    where nothing was injected.
    """
    if min(pair.injected_ns for pair in pairs) <= 0:
        return None
    blocks: dict[int, list[float]] = {}
    for pair in pairs:
        blocks.setdefault(pair.block, []).append(grown(pair) / pair.injected_ns)
    values = [value for block in blocks.values() for value in block]
    if len(blocks) == 1:
        median, (low, high) = statistics.median(values), interval(values)
    else:
        whole = Paired.of_blocks([(block, [1.0] * len(block)) for block in blocks.values()])
        if whole is None:
            return None
        median, low, high = whole.median, whole.low, whole.high
    if signless:
        median, low, high = _without_sign(median, low, high)
    return SccRatio(median=median, lo=low, hi=high, rounds=len(values), bring_ups=len(blocks))


def _without_sign(median: float, low: float, high: float) -> tuple[float, float, float]:
    """Of an interval."""
    least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return abs(median), least, max(abs(low), abs(high))
