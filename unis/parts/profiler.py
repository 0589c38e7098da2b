"""`unis profile chain`: windows in which packets are followed, in turn with windows in which
nothing is traced.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from unis.counted.beside import Beside, BesideSettings
from unis.engine import names
from unis.engine.client import EngineClient
from unis.engine.histogram import Latency
from unis.errors import UnisError
from unis.measure.disturbance import Disturbance
from unis.measure.paired import interval
from unis.measure.summary import MachineSummary
from unis.measure.windows import Arm, Offered, Span, measure
from unis.parts.accounting import SINK, SOURCE, Account, account
from unis.parts.result import (
    ChainParts,
    TracingCost,
    WindowParts,
    place_parts,
    together,
    typical,
    with_calls,
    without_probes,
)
from unis.parts.route import route
from unis.parts.tracer import tracing
from unis.plan.model import Plan
from unis.v1 import engine_pb2 as pb

_OVERLOAD_PPS = 5e6  # more than passes on kernel devices
_PROBES = 3  # windows that say what passes at most
_SETTLE = 0.15  # seconds
# Windows of a round beside the untraced one: whether system calls are seen, and sets of probes.
_TRACED = ((False, 1), (False, 2), (True, 1), (True, 2))
_SLACK = 20.0  # seconds beyond which a tracer ends by itself


@dataclass(frozen=True)
class PartsSettings:
    """What the command line says."""

    rounds: int
    window: float  # seconds
    one_in: int
    load: float  # share of what passes at most
    beside: BesideSettings = field(default_factory=BesideSettings)


@dataclass(frozen=True)
class _Traced:
    reply: pb.MeasureReply
    account: Account
    parts: WindowParts


@dataclass(frozen=True)
class _Round:
    plain: pb.MeasureReply
    traced: dict[tuple[bool, int], _Traced]  # by whether calls were seen, and sets of probes

    @property
    def once(self) -> _Traced:
        return self.traced[False, 1]

    @property
    def probes_ns(self) -> float:
        """What they cost, those of calls left out."""
        return self.traced[False, 2].parts.ns - self.once.parts.ns

    @property
    def parts(self) -> WindowParts:
        whole, calls = (
            without_probes(self.traced[seen, 1].parts, self.traced[seen, 2].parts)
            for seen in (False, True)
        )
        return with_calls(whole, calls)

    @property
    def residual(self) -> float:
        latency = _median_ns(self.plain)
        return (latency - self.parts.ns) / latency


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
        threads = {function.name: function.tid for function in stats.functions}
        self._route = route(plan, threads, engine)
        self._beside = Beside(plan, client, settings.beside, report)

    def profile(self) -> ChainParts:
        """UnisError: nothing came through, or it cannot be traced."""
        most = self._most_pps()
        pps = self._settings.load * most
        self._client.settle()  # what the overload left behind
        self._report(
            f"{most / 1e3:,.1f} kpps pass at most; packets are followed at {pps / 1e3:,.1f}"
        )
        rounds = [self._round(pps, at) for at in range(self._settings.rounds)]
        self._beside.own_windows(lambda: self._window(pps), self._settings.rounds)
        cost = self._cost(rounds)
        return self._result(rounds, pps, most, cost)

    # ------------------------------------------------------------------ windows

    def _window(self, pps: float) -> pb.MeasureReply:
        self._check()
        arm = Arm(self._policy, offered=Offered(pps, "constant"))
        span = Span(_SETTLE, self._settings.window)
        return measure(self._client, arm, span, self._controller)

    def _traced(
        self, pps: float, sets: int = 1, *, calls: bool = False
    ) -> tuple[pb.MeasureReply, Account]:
        longest = _SETTLE + self._settings.window + _SLACK
        one_in = self._settings.one_in
        with tracing(self._route, self._mark, one_in, longest, sets, calls=calls) as traced:
            reply = self._window(pps)
        return reply, account(traced.recording(), self._route, calls=calls)

    def _followed(self, pps: float, sets: int, *, calls: bool) -> _Traced:
        reply, found = self._traced(pps, sets, calls=calls)
        if not found.packets:
            why = ", ".join(f"{count} {reason}" for reason, count in found.left_out.most_common())
            raise UnisError(
                f"no packet could be followed from end to end ({why or 'none was seen'})",
                bad_input=False,
            )
        return _Traced(reply, found, typical(found.packets))

    def _most_pps(self) -> float:
        found = [_pps(self._window(_OVERLOAD_PPS)) for _ in range(_PROBES)]
        if not (most := statistics.median(found)):
            raise UnisError("no packet comes through the chain", bad_input=False)
        return most

    def _round(self, pps: float, at: int) -> _Round:
        """Each of the five is first in turn."""
        plain: pb.MeasureReply | None = None
        traced: dict[tuple[bool, int], _Traced] = {}
        for turn in range(len(_TRACED) + 1):
            number = (at + turn) % (len(_TRACED) + 1)
            if number < len(_TRACED):
                calls, sets = _TRACED[number]
                traced[calls, sets] = self._followed(pps, sets, calls=calls)
            else:
                with self._beside.counting():
                    plain = self._window(pps)
        if plain is None:
            raise RuntimeError("a round has an untraced window")
        return _Round(plain, traced)

    def _cost(self, rounds: list[_Round]) -> TracingCost:
        ratios = []
        for _ in range(_PROBES):
            plain = self._window(_OVERLOAD_PPS)
            traced, _ = self._traced(_OVERLOAD_PPS)
            ratios.append(_pps(traced) / (_pps(plain) or 1))
        self._client.settle()
        latencies = [_median_ns(each.once.reply) / _median_ns(each.plain) for each in rounds]
        costs = [each.probes_ns for each in rounds]
        return TracingCost(
            latency=statistics.median(latencies),
            throughput=statistics.median(ratios),
            ns_per_packet=statistics.median(costs),
        )

    # ------------------------------------------------------------------ what it comes to

    def _result(
        self, rounds: list[_Round], pps: float, most: float, cost: TracingCost
    ) -> ChainParts:
        windows = [each.parts for each in rounds]
        functions = [place_parts(stage.name, windows) for stage in self._route.stages]
        edges = [place_parts(SOURCE, windows), place_parts(SINK, windows)]
        residuals = [each.residual for each in rounds]
        accounts = [traced.account for each in rounds for traced in each.traced.values()]
        return ChainParts(
            machine=MachineSummary.this(self._cpus),
            chain=self._plan.chains[0].name,
            policy=self._policy,
            load_kpps=pps / 1e3,
            most_kpps=most / 1e3,
            one_in=self._settings.one_in,
            rounds=len(rounds),
            window=self._settings.window,
            functions=functions,
            edges=edges,
            median_latency_ns=statistics.median(_median_ns(each.plain) for each in rounds),
            traced_latency_ns=statistics.median(_median_ns(each.once.reply) for each in rounds),
            explained_ns=sum(each.ns for each in [*functions, *edges]),
            traced_explained_ns=statistics.median(each.once.parts.ns for each in rounds),
            residual=statistics.median(residuals),
            residual_interval=interval(residuals),
            tracing_cost=cost,
            packets=sum(len(each.packets) for each in accounts),
            left_out=together(each.left_out for each in accounts),
            lost_events=sum(each.lost_events for each in accounts),
            disturbed=Disturbance.of([each.plain for each in rounds]),
            counted=self._beside.counted(),
            hot=self._beside.hot,
            missing=self._beside.missing,
        )


def _pps(reply: pb.MeasureReply) -> float:
    return reply.delivered / reply.window_ns * 1e9


def _median_ns(reply: pb.MeasureReply) -> float:
    median = Latency([reply.latency]).percentile_us(50)
    if median is None:
        raise UnisError("no packet comes through the chain", bad_input=False)
    return median * 1000
