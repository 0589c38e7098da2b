"""`unis demo`: one chain, arms in alternating windows, and a report of what happened."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from unis import built
from unis.bench.cooperative import YIELD_EVERY, best_distance
from unis.chain.load import LoadedChain, load
from unis.chain.model import PcapSource
from unis.measure import order
from unis.measure.summary import MachineSummary, Summary, summarise
from unis.measure.windows import Arm, Rounds, Span, alternate, in_turn, measure, rr_slice, spans
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.plan.programs import capture_problem
from unis.report.page import report_page
from unis.runtime.account import account_line
from unis.runtime.errors import LaunchError
from unis.runtime.interrupts import interrupts
from unis.runtime.planning import plan_chain
from unis.runtime.run import Options, Run
from unis.runtime.running import running
from unis.v1 import engine_pb2 as pb

_TRACE_SECONDS = 0.02
_COOPERATIVE = Arm("cooperative")


@dataclass(frozen=True)
class DemoOptions:
    """What the command line says."""

    pcap: Path | None
    rounds: int  # at least; whole squares are measured
    window: float  # seconds
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class DemoResult:
    """What was found, and a page that shows it."""

    summary: Summary
    page: str


@dataclass(frozen=True)
class _DemoMeasurements:
    rounds: Rounds
    yield_every: int  # of co-operative: the best of those tried; 0: it is not there
    traces: dict[str, pb.TraceReply]
    costs_ns: dict[str, float]
    account: pb.Account


def demo_chain(pcap: Path | None) -> LoadedChain:
    """examples/demo.yaml, with a capture in place of its traffic if one is given."""
    chain = load(built.examples_directory() / "demo.yaml")
    if pcap is None:
        return chain
    if problem := capture_problem(pcap):
        raise LaunchError(problem)
    source = PcapSource(kind="pcap", file=str(pcap.resolve()))
    traffic = chain.file.traffic.model_copy(update={"source": source})
    file = chain.file.model_copy(update={"traffic": traffic})
    return LoadedChain(chain.path, file, chain.document)


def run_demo(
    options: DemoOptions, report: Callable[[str], None], show: Callable[[Rounds, int], None]
) -> DemoResult:
    """Brings the chain up, measures, takes it down, makes the report.

    `show` is called after each window with those that there are, and the rounds to come in all.
    """
    machine = Machine.this()
    plan = plan_chain(demo_chain(options.pcap))
    spans_of = spans(options.arms, plan, options.window)

    # The scheduler of some arms keeps the costs that it starts with.
    fresh = Options(costs="anew")
    with interrupts() as switch, running(plan, fresh, report, switch) as run:
        measured = _measure(run, options, spans_of, show)
    summary = summarise(
        measured.rounds, [str(arm) for arm in options.arms], measured.account, measured.costs_ns,
        MachineSummary.this(len(machine.cpus)), _settings(plan, options, measured),
        _tuning(plan, measured.yield_every),
    )  # fmt: skip
    return DemoResult(summary, _page(plan, summary, measured))


def _measure(
    run: Run,
    options: DemoOptions,
    spans_of: Mapping[Arm, Span],
    show: Callable[[Rounds, int], None],
) -> _DemoMeasurements:
    controller = run.plan.controller
    best = _best_yield_every(run, options) if _COOPERATIVE in options.arms else 0
    tuned = {_COOPERATIVE: replace(_COOPERATIVE, yield_every=best, name=str(_COOPERATIVE))}
    arms = [tuned.get(arm, arm) for arm in options.arms]
    spans_of = {tuned.get(arm, arm): span for arm, span in spans_of.items()}
    count = order.balanced_rounds(len(arms), options.rounds)

    def on_window(rounds: Rounds, _arm: Arm) -> None:
        run.check()
        show(rounds, count)

    rounds = alternate(run.client, order.rounds(arms, count), spans_of, controller, on_window)
    run.tell("recording who ran when")
    traces = {}
    for arm in arms:
        measure(run.client, arm, spans_of[arm], controller)  # changes to it and lets it settle
        traces[str(arm)] = run.client.trace(_TRACE_SECONDS)
    measure(run.client, arms[0], spans_of[arms[0]], controller)
    run.tell("pausing the source and counting every packet")
    account = run.client.settle()
    run.tell(f"the report's account: {account_line(account)}")
    run.check()
    return _DemoMeasurements(
        rounds, best, traces, {name: cost.ns for name, cost in run.costs.items()}, account
    )


def _best_yield_every(run: Run, options: DemoOptions) -> int:
    tried = ", ".join(map(str, YIELD_EVERY))
    run.tell(f"trying after how many bursts co-operative functions should yield: {tried}")
    return best_distance(lambda arms, rounds: in_turn(run, arms, rounds, options.window))[0]


def _settings(
    plan: Plan, options: DemoOptions, measured: _DemoMeasurements
) -> dict[str, str | int | float]:
    source = plan.traffic.source
    what = source.file if isinstance(source, PcapSource) else source.model_dump_json()
    return {
        "chain": _path(plan),
        "CPUs of functions": ", ".join(map(str, sorted(plan.cpus))),
        "traffic": f"{what}, rate {plan.traffic.rate}",
        "ring": plan.links[0].slots,
        "γ": plan.gamma.value,
        "θmin": plan.scheduler.theta_min,
        "T µs": plan.scheduler.interval_us,
        "rounds": len(measured.rounds),
        "window s": options.window,
        "rr slice ms": rr_slice(plan) * 1000,
        "costs measured": "once, at the start",
        "co-operative functions yield every": measured.yield_every,
    }


def _tuning(plan: Plan, yield_every: int) -> dict[str, str]:
    tried = ", ".join(map(str, YIELD_EVERY))
    return {
        "rr": f"slices of {rr_slice(plan) * 1000:g} ms",
        "cooperative": f"a yield every {yield_every} bursts, the best of {tried}",
    }


def _path(plan: Plan) -> str:
    return " → ".join(hop.function for hop in plan.chains[0].hops)


def _page(plan: Plan, summary: Summary, measured: _DemoMeasurements) -> str:
    return report_page(
        f"{_path(plan)} on one CPU",
        summary,
        measured.rounds,
        measured.traces,
        _TRACE_SECONDS * 1000,
        [function.name for function in plan.functions],
    )
