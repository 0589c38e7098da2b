"""`unis profile chain`: windows in which packets are followed, in turn with windows in which
nothing is traced.
"""

import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from unis.counted.beside import Beside, BesideSettings
from unis.engine import names
from unis.engine.client import EngineClient
from unis.engine.histogram import Latency
from unis.errors import UnisError
from unis.measure.disturbance import Disturbance
from unis.measure.paired import interval
from unis.measure.summary import MachineSummary
from unis.measure.windows import PACED_OVERLOAD_PPS, Arm, Offered, Span, measure, overload
from unis.parts.accounting import (
    BLOCKED,
    COPY,
    PROCESSING,
    QUEUEING,
    RECEIVE,
    RUN_DELAY,
    SEND,
    SINK,
    SOURCE,
    Account,
    Packet,
)
from unis.parts.following import Followed, follow, threads_of
from unis.parts.passages import KEPT, PassageLog, passage_logs
from unis.parts.progress import told_rounds
from unis.parts.result import (
    ChainParts,
    RoundParts,
    TracingCost,
    WaySpan,
    WindowParts,
    closed,
    place_parts,
    residual_interval,
    together,
    typical,
    without_looking,
)
from unis.parts.route import route
from unis.parts.threads import Copies
from unis.parts.tracer import ThreadWatch, tracing
from unis.plan.model import Plan
from unis.v1 import engine_pb2 as pb

_NOT_OF = {SOURCE: {RECEIVE, PROCESSING}, SINK: {PROCESSING, SEND}}
_PAIRS = 6  # of windows that say what passes while packets are followed
_PROBES = 3  # windows that say what passes at most
_SETTLE = 0.15  # seconds, at least
# In latencies of a typical packet: before a window, and of a window; with bounds, seconds.
_TO_SETTLE, _LONGEST_TO_SETTLE = 3.0, 1.0
_IN_A_WINDOW, _LONGEST = 20.0, 3.0
_SLACK = 20.0  # seconds beyond which a tracer ends by itself
# Threads are watched for so many median latencies from when a packet was due. To watch them costs:
# so the next is followed so many after it, if that leaves enough packets.
_WATCHED = 4.0
_APART = 5.0
_MARGIN = 100e-6  # seconds
_MOST_SLOW = 0.25  # share of the packets of a window that may take longer
_LEAST = 200  # packets of a window
_KEPT = KEPT // 4  # packets of a window of which each program keeps all passages


@dataclass(frozen=True)
class PartsSettings:
    """What the command line says."""

    rounds: int
    window: float  # seconds
    per_second: float  # packets to follow, at most
    load: float  # share of what passes at most
    beside: BesideSettings = field(default_factory=BesideSettings)


@dataclass(frozen=True)
class _SamplingRate:
    """Seconds: of each period the first packet is followed, and threads are watched at first."""

    period: float
    open: float

    @classmethod
    def of(cls, settings: PartsSettings, window: float, latency: float) -> "_SamplingRate":
        """`latency` of a typical packet and length of a window, seconds."""
        shortest = max(1 / settings.per_second, window / _KEPT)
        longest = max(shortest, window / _LEAST)
        period = min(max(shortest, _APART * latency), longest)
        return cls(period, min(period, _WATCHED * latency + _MARGIN))

    def lacks(self, found: Account) -> bool:
        """Whether too many packets took longer."""
        return self.open < self.period and len(found.slow) > _MOST_SLOW * (
            len(found.slow) + len(found.packets)
        )


@dataclass(frozen=True)
class _Traced:
    reply: pb.MeasureReply
    found: Followed

    @functools.cached_property
    def parts(self) -> WindowParts:
        return typical(self.found.account)


@dataclass(frozen=True)
class _Round:
    pps: float  # that was offered
    plain: pb.MeasureReply
    once: _Traced
    twice: _Traced  # all that follows packets was done twice
    copies: Mapping[str, float]  # ns a packet, by function


class PartsProfiler:
    """Profiles a chain that is up."""

    def __init__(
        self,
        plan: Plan,
        client: EngineClient,
        settings: PartsSettings,
        engine: int,
        cpus: int,
        report: Callable[[str], None],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`engine`: PID of unisd. `cpus`: of the machine. `check` is called before each window, and
        raises if the run has ended.
        """
        self._plan = plan
        self._client = client
        self._settings = settings
        self._cpus = cpus
        self._report = report
        self._check = check
        stats = client.stats()
        self._mark = stats.packet_mark
        self._policy = names.policy_name(stats.policy)
        # That of the run, which may have been started with another one than its file has.
        chosen = stats.controller
        self._controller = names.controller_name(chosen) if chosen else plan.controller
        self._route = route(plan, {each.name: each.pid for each in stats.functions}, engine)
        self._logs: Mapping[str, PassageLog] = {}
        self._missing: list[str] = []
        self._watches = True  # threads
        self._copied_to = self._route.copied_to
        self._overload = overload(plan).pps
        self._choose_windows(0)
        self._beside = Beside(plan, client, settings.beside, report)

    def profile(self) -> ChainParts:
        """UnisError: nothing came through, or it cannot be followed."""
        with passage_logs(self._route.programs) as logs:
            self._logs = logs
            return self._profile()

    def _profile(self) -> ChainParts:
        most = self._most_pps()
        pps = self._load_pps(most)
        self._choose_windows(self._latency(pps))
        if self._span.window > self._settings.window:
            self._report(f"packets take long: windows of {self._span.window:.1f} s")
            self._choose_windows(self._latency(pps))
        self._report(
            f"{most / 1e3:,.1f} kpps pass at most; "
            f"{1 / self._sampled.period:,.0f} packets a second "
            f"are followed at {pps / 1e3:,.1f} kpps"
        )
        self._try_tracers()
        rounds = [
            self._round(self._load_pps(most), at)
            for at in told_rounds(self._settings.rounds, self._report)
        ]
        pps = statistics.median(each.pps for each in rounds)
        self._beside.own_windows(
            lambda: self._window(pps), len(rounds), self._span.settle, self._span.window
        )
        return self._result(rounds, pps, most)

    # ------------------------------------------------------------------ windows

    def _window(self, pps: float) -> pb.MeasureReply:
        self._check()
        arm = Arm(self._policy, offered=Offered(pps, "constant"))
        return measure(self._client, arm, self._span, self._controller)

    def _latency(self, pps: float) -> float:
        """Seconds. Afterwards the threads that have packets are known."""
        reply, _ = self._traced(pps, 1, threads=())
        return _median_ns(reply) / 1e9

    def _choose_windows(self, latency: float) -> None:
        """`latency` of a typical packet, seconds."""
        self._span = Span(
            min(max(_SETTLE, _TO_SETTLE * latency), _LONGEST_TO_SETTLE),
            max(self._settings.window, min(_IN_A_WINDOW * latency, _LONGEST)),
        )
        self._sampled = _SamplingRate.of(self._settings, self._span.window, latency)

    def _watch(self, sets: int, *, threads: Sequence[int], copies: bool = False) -> ThreadWatch:
        return ThreadWatch(
            threads=threads,
            delay=self._span.settle,
            period=self._sampled.period,
            open=self._sampled.open,
            longest=self._span.settle + self._span.window + _SLACK,
            copies=copies,
            sets=sets,
        )

    def _try_tracers(self) -> None:
        """What the kernel does not tell is said, and all else works."""
        for copies, what in [
            (False, "run delay and blocked"),
            (True, "copy"),
        ]:
            if copies and not self._copied_to:
                continue
            try:
                with tracing(self._watch(1, threads=threads_of(self._logs), copies=copies)):
                    pass
            except UnisError as error:
                self._missing.append(f"{what}, which the other parts contain: {error}")
                if copies:
                    self._copied_to = ()
                else:
                    self._watches = False

    def _traced(
        self, pps: float, sets: int, threads: Sequence[int] | None = None
    ) -> tuple[pb.MeasureReply, Followed]:
        if threads is None:
            threads = threads_of(self._logs) if self._watches else ()
        watch = self._watch(sets, threads=threads)
        functions = self._route.functions
        return follow(self._logs, functions, self._mark, watch, lambda: self._window(pps))

    def _followed(self, pps: float, sets: int) -> _Traced:
        reply, found = self._traced(pps, sets)
        while self._sampled.lacks(found.account):
            self._sampled = _SamplingRate.of(
                self._settings, self._span.window, 2 * self._sampled.open / _WATCHED
            )
            reply, found = self._traced(pps, sets)
        found.check()
        return _Traced(reply, found)

    def _load_pps(self, most: float) -> float:
        """Of the next windows. On links in memory a source that keeps distances can be slower than
        the chain, and its speed changes with the machine's: near its limit packets wait for it.
        """
        if not self._overload:
            paced = _pps(self._window(PACED_OVERLOAD_PPS))
            if not paced:
                raise _nothing_passes()
            most = min(most, paced)
        self._client.settle()  # what the overload left behind
        return self._settings.load * most

    def _most_pps(self) -> float:
        found = [_pps(self._window(self._overload)) for _ in range(_PROBES)]
        if not (most := statistics.median(found)):
            raise _nothing_passes()
        return most

    def _round(self, pps: float, at: int) -> _Round:
        """Each of the three is first in turn."""
        plain: pb.MeasureReply | None = None
        followed: dict[int, _Traced] = {}
        for turn in range(3):
            if sets := (at + turn) % 3:
                followed[sets] = self._followed(pps, sets)
            else:
                with self._beside.counting(_SETTLE, self._settings.window):
                    plain = self._window(pps)
        if plain is None:
            raise RuntimeError("a round has an untraced window")
        return _Round(pps, plain, followed[1], followed[2], self._copies(pps))

    def _copies(self, pps: float) -> Mapping[str, float]:
        """In windows of their own: to see each packet copied costs more than to follow a few."""
        if not self._copied_to:
            return {}
        once, twice = (self._copies_of(pps, sets) for sets in (1, 2))
        return {
            name: max(0.0, 2 * once[name] - twice[name])
            for name in self._copied_to
            if name in once and name in twice
        }

    def _copies_of(self, pps: float, sets: int) -> Mapping[str, float]:
        with tracing(self._watch(sets, threads=threads_of(self._logs), copies=True)) as traced:
            self._window(pps)
        told = traced.recording().copies
        found = {}
        for name in self._copied_to:
            threads = [told.get(tid, Copies(0, 0)) for tid in self._logs[name].threads]
            if packets := sum(each.packets for each in threads):
                found[name] = sum(each.ns for each in threads) / packets
        return found

    def _cost(self, rounds: list[_Round], looking: WindowParts) -> TracingCost:
        self._report("measuring what tracing costs the chain at overload")
        ratios = []
        for _ in range(_PAIRS):
            plain = self._window(self._overload)
            traced, _ = self._traced(self._overload, 1)
            ratios.append(_pps(traced) / (_pps(plain) or 1))
        self._client.settle()
        latencies = [_median_ns(each.once.reply) / _median_ns(each.plain) for each in rounds]
        return TracingCost(
            latency=statistics.median(latencies),
            throughput=statistics.median(ratios),
            throughput_interval=interval(ratios),
            ns_per_packet=looking.ns + statistics.median(each.once.parts.own for each in rounds),
        )

    # ------------------------------------------------------------------ what it comes to

    def _measured(self, place: str) -> set[str]:
        found = {QUEUEING, RECEIVE, PROCESSING, SEND}
        if self._watches:
            found |= {RUN_DELAY, BLOCKED}
        if place in self._copied_to:
            found.add(COPY)
        return found - _NOT_OF.get(place, set())

    def _result(self, rounds: list[_Round], pps: float, most: float) -> ChainParts:
        parts = [
            RoundParts(_median_ns(each.plain), each.once.parts, each.twice.parts, each.copies)
            for each in rounds
        ]
        told, looking = without_looking(parts)
        cost = self._cost(rounds, looking)
        functions, edges = (
            [place_parts(name, told, self._measured(name)) for name in places]
            for places in (self._route.functions, (SOURCE, SINK))
        )
        latency, sum_ns = closed(told)
        followed = [one for each in rounds for one in (each.once, each.twice)]
        return ChainParts(
            machine=MachineSummary.this(self._cpus),
            chain=self._plan.chains[0].name,
            policy=self._policy,
            load_kpps=pps / 1e3,
            most_kpps=most / 1e3,
            per_second=1 / self._sampled.period,
            rounds=len(rounds),
            window=self._span.window,
            functions=functions,
            edges=edges,
            median_latency_ns=latency,
            traced_latency_ns=statistics.median(_median_ns(each.once.reply) for each in rounds),
            explained_ns=sum_ns,
            traced_explained_ns=statistics.median(
                each.once.parts.ns + each.once.parts.own for each in rounds
            ),
            residual=(latency - sum_ns) / latency,
            residual_interval=residual_interval(parts),
            tracing_cost=cost,
            packets=sum(len(each.found.account.packets) for each in followed),
            left_out=together(each.found.account.left_out for each in followed),
            lost_events=sum(each.found.lost for each in followed),
            disturbed=Disturbance.of([each.plain for each in rounds]),
            counted=self._beside.counted(),
            hot=self._beside.hot,
            missing=[*self._missing, *self._beside.missing],
            way=_way(rounds[-1].once.found.account.packets),
        )


def _way(packets: Sequence[Packet]) -> list[WaySpan]:
    """That of the one whose latency is the median."""
    packet = sorted(packets, key=lambda each: each.ns)[len(packets) // 2]
    begin = packet.spans[0].begin
    return [
        WaySpan(
            place=span.place, part=span.part, begin_ns=span.begin - begin, end_ns=span.end - begin
        )
        for span in packet.spans
        if span.end > span.begin
    ]


def _pps(reply: pb.MeasureReply) -> float:
    return reply.delivered / reply.window_ns * 1e9


def _median_ns(reply: pb.MeasureReply) -> float:
    median = Latency([reply.latency]).percentile_us(50)
    if median is None:
        raise _nothing_passes()
    return median * 1000


def _nothing_passes() -> UnisError:
    return UnisError("no packet comes through the chain", bad_input=False)
