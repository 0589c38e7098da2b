"""`unis demo`: one chain, four policies in alternating windows, and a report of what happened."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from unis import built
from unis.bench.summary import (
    BASELINE,
    Summary,
    latency_of,
    summarise,
    summarise_policy,
    this_machine,
)
from unis.bench.windows import SETTLE_SECONDS, Rounds, alternate, ratio_text
from unis.chain.load import LoadedChain, load
from unis.chain.machine import Machine, capture_problem
from unis.chain.model import PcapSource
from unis.engine import names
from unis.engine.client import EngineClient
from unis.launch.errors import LaunchError
from unis.launch.interrupts import interrupts
from unis.launch.launcher import Options, Run, running
from unis.report.page import headline, report_page
from unis.report.plots import colour
from unis.v1 import engine_pb2 as pb

POLICIES = ("unis", "cooperative", "rr", "other")
_TRACE_SECONDS = 0.02
_BAR = 32  # characters


@dataclass(frozen=True)
class DemoOptions:
    """What the command line says."""

    pcap: Path | None
    out: Path
    rounds: int
    window: float  # seconds


def demo_chain(pcap: Path | None, machine: Machine) -> LoadedChain:
    """examples/demo.yaml, with a capture in place of its traffic if one is given."""
    chain = load(built.clone() / "examples" / "demo.yaml", machine)
    if pcap is None:
        return chain
    if problem := capture_problem(pcap):
        raise LaunchError(problem)
    source = PcapSource(kind="pcap", file=str(pcap.resolve()))
    traffic = chain.file.traffic.model_copy(update={"source": source})
    return LoadedChain(chain.path, chain.file.model_copy(update={"traffic": traffic}))


def run_demo(options: DemoOptions, console: Console) -> Summary:
    """Brings the chain up, measures, takes it down, writes the report."""
    machine = Machine.this()
    chain = demo_chain(options.pcap, machine)

    def report(line: str) -> None:
        console.print(line, markup=False, style="dim")

    # Costs are measured anew: they are to be those of the machine as it is now.
    fresh = Options(use_cache=False)
    with interrupts() as switch, running(chain, machine, fresh, report, switch) as run:
        rounds = _measure(run, options, console)
        costs = {name: cost.ns for name, cost in run.costs.items()}
        report("recording who ran when")
        traces = {policy: _trace(run.client, policy) for policy in POLICIES}
        run.client.set_policy(names.policy("unis"))
        report("pausing the source and counting every packet")
        account = run.client.settle()
        run.check()
    summary = summarise(
        rounds, POLICIES, account, costs, this_machine(len(machine.cpus)),
        _settings(chain, options),
    )  # fmt: skip
    _write(options.out, chain, summary, rounds, traces)
    return summary


def _measure(run: Run, options: DemoOptions, console: Console) -> Rounds:
    with _live(console) as live:

        def show(rounds: Rounds, _policy: str) -> None:
            run.check()
            live.update(comparison(rounds, options.rounds), refresh=True)

        return alternate(
            run.client, POLICIES, options.rounds, options.window, show, run.estimate_again
        )


@contextmanager
def _live(console: Console) -> Iterator[Live]:
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield live


def _trace(client: EngineClient, policy: str) -> pb.TraceReply:
    client.measure(names.policy(policy), SETTLE_SECONDS, SETTLE_SECONDS)
    return client.trace(_TRACE_SECONDS)


def comparison(rounds: Rounds, total: int) -> RenderableType:
    """The live view: a bar for each policy."""
    seen = [policy for policy in POLICIES if any(policy in windows for windows in rounds)]
    summaries = {policy: summarise_policy(rounds, policy) for policy in seen}
    most = max((summary.mpps.median for summary in summaries.values()), default=0.0) or 1.0
    table = Table(box=None, pad_edge=False)
    for column in ("policy", "", "Mpps", f"÷ {BASELINE}", "p50 µs"):
        table.add_column(column, justify="left" if column in ("policy", "") else "right")
    for policy, summary in summaries.items():
        filled = round(summary.mpps.median / most * _BAR)
        ratio = summary.ratio_to_cooperative
        latency = summary.latency_us["p50"]
        table.add_row(
            policy,
            Text("█" * filled, colour(policy)) + Text("░" * (_BAR - filled), "bright_black"),
            f"{summary.mpps.median:.3f}",
            ratio_text(ratio.median) if ratio else "–",
            f"{latency:,.0f}" if latency is not None else "–",
        )
    done = len(rounds)
    return Group(Text(f"round {done} of {total}: windows of one run, policies in turn"), table)


def result_table(summary: Summary) -> Table:
    """The result on the terminal."""
    table = Table(box=None, pad_edge=False)
    table.add_column("policy")
    for column in ("Mpps", "q1–q3", f"÷ {BASELINE}", "dropped/s", "p5 µs", "p50", "p95", "p99"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, policy in summary.policies.items():
        ratio = policy.ratio_to_cooperative
        table.add_row(
            Text(name, "bold" if name == "unis" else ""),
            f"{policy.mpps.median:.3f}",
            f"{policy.mpps.q1:.3f}–{policy.mpps.q3:.3f}",
            ratio_text(ratio.median) if ratio else "–",
            f"{policy.drops.per_second:,.0f}",
            *("–" if us is None else f"{us:,.0f}" for us in policy.latency_us.values()),
        )
    return table


def _settings(chain: LoadedChain, options: DemoOptions) -> dict[str, str | int | float]:
    source = chain.file.traffic.source
    what = source.file if isinstance(source, PcapSource) else source.model_dump_json()
    scheduler = chain.file.scheduler
    return {
        "chain": " → ".join(function.name for function in chain.file.functions),
        "CPUs of functions": ", ".join(map(str, sorted(chain.file.cpus))),
        "traffic": f"{what}, rate {chain.file.traffic.rate}",
        "ring": chain.file.chains[0].ring,
        "γ": scheduler.gamma,
        "θmin": scheduler.theta_min_packets,
        "T µs": scheduler.interval_us,
        "rounds": options.rounds,
        "window s": options.window,
        "settling s": SETTLE_SECONDS,
        "co-operative functions yield every": chain.file.functions[0].yield_every,
    }


def _write(
    out: Path,
    chain: LoadedChain,
    summary: Summary,
    rounds: Rounds,
    traces: dict[str, pb.TraceReply],
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(summary.model_dump(), indent=2, ensure_ascii=False)
    (out / "summary.json").write_text(text + "\n")
    functions = [function.name for function in chain.file.functions]
    page = report_page(
        f"{' → '.join(functions)} on one CPU",
        summary,
        rounds,
        {policy: latency_of(rounds, policy) for policy in POLICIES},
        traces,
        _TRACE_SECONDS * 1000,
        functions,
    )
    (out / "report.html").write_text(page)


def print_result(summary: Summary, out: Path, console: Console) -> None:
    """The end of the demo."""
    console.print(result_table(summary))
    console.print()
    console.print(headline(summary), markup=False)
    if summary.accounted:
        console.print("Every packet is accounted for.")
    else:
        console.print("The account of packets is not exact.", style="red")
    console.print(f"{out / 'report.html'}  {out / 'summary.json'}", markup=False, style="bold")
