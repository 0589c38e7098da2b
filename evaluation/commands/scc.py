"""`python -m evaluation scc`, which is `unis bench scc` too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from evaluation.commands.shared import VERDICT_STYLES, find_fetched_programs
from unis.cli.bench_options import ratio_cells, us_text, words_of
from unis.cli.terminal import out, say, table_of, writable, write_result

if TYPE_CHECKING:
    from evaluation.scc.results import SccResults
    from evaluation.scc.rows import SccRatio, SccRow


def scc(
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Fewer lengths, arms and sizes. Takes up to twenty-four minutes."
        ),
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(
            help="Experiments, comma-separated: policy (Figs. 9 and 10, Table 6), order, batch "
            "(Fig. 8, Table 7), queue, testpmd, ovs (Fig. 9), contention (Table 8), profiler "
            "(Tables 2 to 5 and 8, Figs. 3 to 5, known delays). Default: all."
        ),
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option(
            help="Chain lengths of policy, ovs and profiler, comma-separated, as in 1,4,8."
        ),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(
            min=2, help="Rounds of windows. Fewer than 6: no verdicts but on order and batch."
        ),
    ] = 6,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Output directory for pictures and results.json.")
    ] = Path("build/scc"),
) -> None:
    """Repeat the evaluation of the SCC paper on this machine, with UNiS beside it.

    Chains of functions on kernel devices, all on one CPU, under the policies of the kernel and
    under hand-over: latency and throughput at half of what functions pass that wait for packets,
    in overload, and for policy at half of what functions pass that poll; queue and testpmd, whose
    functions cannot wait, have the latter and overload. Arms of the paper stand
    beside its figures, and claims of UNiS have a verdict. Windows alternate. Writes results.json
    after each step, and at last a picture of each experiment. Contention is measured by the
    windows of policy. `profiler` shows what the paper's profiler does, by `unis profile chain`, and
    whether known delays are found in their parts (11 minutes with --quick). Needs root, hugepages,
    and two CPUs that do nothing else.

    Example: unis bench scc --quick -o build/scc
    """
    from evaluation.paper.source import Source
    from evaluation.scc.experiments import EXPERIMENTS, SccBench, SccSettings
    from evaluation.scc.results import results_of
    from unis.measure.summary import MachineSummary
    from unis.plan.machine import Machine
    from unis.report import check_plots

    settings = SccSettings(
        quick=quick,
        only=words_of(only, EXPERIMENTS, "--only") if only else EXPERIMENTS,
        rounds=rounds,
        lengths=_lengths_of(lengths),
    )
    check_plots()
    from evaluation.scc.figures import draw
    from evaluation.scc.profiler.pictures import draw_profiler

    file = writable(output / "results.json")
    machine = Machine.this()
    summary, commit = MachineSummary.this(len(machine.cpus)), Source.this().commit
    find_fetched_programs()
    bench = SccBench(settings, machine, say)
    say(f"{len(bench.steps)} steps, about {bench.seconds / 60:.0f} min")
    results = results_of(bench.found, settings, summary, commit)
    for found in bench.measure():
        results = results_of(found, settings, summary, commit)
        write_result(file, results.model_dump_json(indent=1) + "\n")
    _print(results)
    pictures = [*draw(results.rows, output), *draw_profiler(results.profiler, output)]
    out.print(file, *pictures, sep="  ", markup=False, style="bold")
    if bench.found.failed:
        raise typer.Exit(1)


def _lengths_of(text: str | None) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")] if text else []
    if not all(word.isdecimal() and 1 <= int(word) <= 8 for word in words):
        raise typer.BadParameter(f"`{text}`: write 1 to 8, as 1,4,8", param_hint="--lengths")
    return tuple(sorted({int(word) for word in words}))


def _print(results: SccResults) -> None:
    from evaluation.scc.claims import NOT_ASKED
    from evaluation.scc.profiler.tables import print_profiler

    for experiment in dict.fromkeys(row.experiment for row in results.rows):
        rows = [row for row in results.rows if row.experiment == experiment]
        if experiment == "contention":
            _print_contention(rows)
        else:
            _print_latency(experiment, rows)
        for sentence in results.remarks[experiment]:
            out.print(f"Of the paper: {sentence}", markup=False, style="dim")
    if not results.profiler.empty:
        print_profiler(results.profiler)
        for sentence in results.remarks["profiler"]:
            out.print(f"Of the paper: {sentence}", markup=False, style="dim")
    if results.fits:
        _print_fits(results)
    if results.kernel_settings:
        table = table_of("Table 6: what the kernel says of the functions", "arm", ("read back",))
        for arm, told in results.kernel_settings.items():
            table.add_row(arm, "; ".join(told))
        out.print(table)
    numbers = ("bound", "measured", "95 %")
    table = table_of("What UNiS claims", "claim", numbers, ("verdict",))
    for claim in results.claims:
        if claim.why == NOT_ASKED:
            continue
        table.add_row(
            claim.claim, claim.bounds, *_ratio_cells(claim.ratio),
            Text(str(claim), VERDICT_STYLES.get(claim.verdict, "dim")),
        )  # fmt: skip
    out.print(table)
    for part, reason in results.left_out.items():
        out.print(f"{part}: {reason}", markup=False, style="dim")
    if results.disturbed:
        out.print(results.disturbed, markup=False, style="yellow")


def _ratio_cells(ratio: SccRatio | None) -> tuple[str, str]:
    median, interval = ratio_cells(ratio)
    if ratio and ratio.confidence < 0.95:
        interval += f" (of {ratio.confidence:.0%})"
    return median, interval


def _passed(row: SccRow) -> str:
    told = f"{row.kpps:.1f} ÷ {row.offered_kpps:.1f}"
    if row.passed is None or row.load == "overload":
        return told
    return f"{told}, {row.passed:.0%}" + (", saturated" if row.saturated else "")


def _out_of_order(row: SccRow) -> str:
    if row.order is None or row.out_of_order is None:
        return ""
    return f" ({row.out_of_order:.0%} out of order)"


def _print_latency(experiment: str, rows: list[SccRow]) -> None:
    from evaluation.scc.rows import arm_of, spec_of

    columns = "kpps ÷ offered|p5 µs|p50|p95|p99|kpps ÷ default|95 %|p50 ÷ default|95 %|paper"
    table = table_of(
        f"{experiment}; default: {rows[0].default}", "chain, load, arm", columns.split("|")
    )
    before = None
    for row in rows:
        title = f"{spec_of(row).name}, {row.load}"
        if title != before:
            table.add_row(Text(title, "bold"))
        table.add_row(
            f"  {arm_of(row).name}{_out_of_order(row)}",
            _passed(row),
            *(us_text(row.latency_us[key]) for key in ("p5", "p50", "p95", "p99")),
            *_ratio_cells(row.ratio_to_default["kpps"]),
            *_ratio_cells(row.ratio_to_default["p50"]),
            str(row.paper) if row.paper else "–",
        )
        before = title
    out.print(table)


def _print_contention(rows: list[SccRow]) -> None:
    from evaluation.scc.rows import arm_of, spec_of

    table = table_of(
        "contention, in overload", "chain", ("arm", "run delay ÷ run", "wait ÷ run", "paper")
    )
    before = None
    for row in (row for row in rows if row.load == "overload"):
        title = spec_of(row).name
        table.add_row(
            "" if title == before else title,
            arm_of(row).name,
            *("–" if each is None else f"{each:.2f}" for each in (row.contention, row.wait)),
            str(row.paper) if row.paper else "–",
        )
        before = title
    out.print(table)


def _print_fits(results: SccResults) -> None:
    table = table_of(
        "Median latency over chain length, from two functions on", "chain, arm",
        ("load", "µs a function", "µs at 0", "paper"),
    )  # fmt: skip
    for fit in results.fits:
        batch = f" batch {fit.batch}" if fit.batch is not None else ""
        table.add_row(
            f"{fit.link} {fit.driver}{batch}: {fit.arm}", fit.load,
            f"{fit.slope_us:,.1f}", f"{fit.intercept_us:,.1f}", str(fit.paper or "–"),
        )  # fmt: skip
    out.print(table)
