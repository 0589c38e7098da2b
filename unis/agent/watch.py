"""What functions do: their threads, and the latency and misses of their packets since last looked.

A promise is that of a chain of a run on this machine, as `unis admit` names it.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from unis.engine.client import EngineClient, EngineError
from unis.engine.histogram import Latency
from unis.measure.counters import CACHE_MISSES, Counters, CountersError, counting
from unis.runtime.directory import all_runs
from unis.v1 import engine_pb2 as pb
from unis.v1.common_pb2 import LatencyHistogram


@dataclass(frozen=True)
class Member:
    """A function of a chain that runs."""

    run: str
    function: str
    cpu: int
    threads: frozenset[int]


@dataclass(frozen=True)
class ChainSample:
    """One chain, since it was last looked at."""

    threads: frozenset[int]
    p95_us: float | None = None  # None: no packet came, or it is looked at for the first time
    mpps: float | None = None
    lost: float = 0.0  # of the packets that came: dropped before it, for it did not take them
    misses_per_packet: float | None = None  # of the last-level cache; None: nothing counts them
    members: tuple[Member, ...] = ()
    pending: bool = False  # what it does to the cache is not known yet, and will be


class Watch(Protocol):
    """Where what is known of functions comes from."""

    def sample(self, chains: Mapping[str, str]) -> Mapping[str, ChainSample]:
        """Samples of the promises whose chain, a `RUN.CHAIN`, runs now."""


@dataclass
class _Before:
    latency: dict[int, int]
    delivered: int
    dropped: int
    time_ns: int
    misses: int | None


@dataclass
class RunWatch:
    """The chains of the runs on this machine, by what their engines count."""

    _before: dict[str, _Before] = field(default_factory=dict)
    _counters: dict[str, tuple[frozenset[int], contextlib.ExitStack, Counters | None]] = field(
        default_factory=dict
    )

    def sample(self, chains: Mapping[str, str]) -> Mapping[str, ChainSample]:
        """A run that cannot be asked now is as one that is not there."""
        promises: dict[str, dict[str, str]] = {}  # by run and chain
        for name, chain in chains.items():
            run, _, chain_name = chain.partition(".")
            promises.setdefault(run, {})[chain_name] = name
        found: dict[str, ChainSample] = {}
        for directory, state in all_runs():
            wanted = promises.get(state.name)
            if not wanted or not state.live():
                continue
            with contextlib.suppress(EngineError), EngineClient(directory.socket) as engine:
                stats = engine.stats(latency=True)
                for of_chain in stats.chains:
                    if promise := wanted.get(of_chain.name):
                        found[promise] = self._look(state.name, promise, of_chain, stats)
        for name in {*self._before} - {*found}:
            self._forget(name)
        return found

    def close(self) -> None:
        """Stops counting."""
        for name in [*self._before]:
            self._forget(name)

    def _look(self, run: str, name: str, chain: pb.ChainStats, stats: pb.Stats) -> ChainSample:
        members = tuple(
            Member(run, function.name, function.cpu, frozenset(_threads(function.pid)))
            for function in stats.functions
            if function.name in chain.functions
        )
        threads = frozenset(tid for member in members for tid in member.threads)
        now = _Before(
            dict(zip(chain.latency.value_ns, chain.latency.count, strict=True)),
            chain.delivered,
            chain.dropped_ingress_full,
            stats.time_ns,
            self._misses(name, threads),
        )
        before, self._before[name] = self._before.get(name), now
        if before is None or now.delivered < before.delivered or now.time_ns <= before.time_ns:
            return ChainSample(threads, members=members)
        came = _difference(now.latency, before.latency)
        packets = now.delivered - before.delivered
        misses = None
        if now.misses is not None and before.misses is not None and packets:
            misses = max(0, now.misses - before.misses) / packets
        mpps = packets / (now.time_ns - before.time_ns) * 1000
        dropped = now.dropped - before.dropped
        lost = dropped / (packets + dropped) if dropped > 0 else 0.0
        p95_us = Latency([came]).percentile_us(95)
        return ChainSample(threads, p95_us, mpps, lost, misses, members)

    def _misses(self, name: str, threads: frozenset[int]) -> int | None:
        """Since these threads were there; None where nothing counts them."""
        known = self._counters.get(name)
        fresh = known is None or known[0] != threads
        if fresh:
            if known:
                known[1].close()
            stack = contextlib.ExitStack()
            counters: Counters | None = None
            with contextlib.suppress(CountersError):
                numbered = {str(tid): tid for tid in sorted(threads)}
                counters = stack.enter_context(counting(numbered, [CACHE_MISSES]))
            known = self._counters[name] = (threads, stack, counters)
        if fresh and (before := self._before.get(name)):
            before.misses = None  # those were of other threads
        return sum(counts[0] for counts in known[2].read().values()) if known and known[2] else None

    def _forget(self, name: str) -> None:
        self._before.pop(name, None)
        if known := self._counters.pop(name, None):
            known[1].close()


def _threads(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from (int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir())


def _difference(now: Mapping[int, int], before: Mapping[int, int]) -> LatencyHistogram:
    left = {value: count - before.get(value, 0) for value, count in now.items()}
    more = sorted((value, count) for value, count in left.items() if count > 0)
    return LatencyHistogram(
        value_ns=[value for value, _ in more], count=[count for _, count in more]
    )
