"""`python -m evaluation model`, which is `unis bench model` too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from evaluation.commands.shared import VERDICT_STYLES, find_fetched_programs
from unis.cli.bench_options import words_of
from unis.cli.terminal import out, say, table_of, writable, write_result

if TYPE_CHECKING:
    from evaluation.model.results import ModelResults

_STOLEN = 0.005  # of the time, that is told


def model(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer rounds. Takes under five minutes.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(
            help="Kinds of links, comma-separated: ring, memif, vhost, veth, ovs. Default: all."
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=2, help="Rounds of windows. Fewer than 6: no verdict. Default: 24, --quick: 9."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Output directory for pictures and results.json.")
    ] = Path("build/model"),
) -> None:
    """Compare the capacity model with this machine: predicted and measured maximum throughput.

    Fits the parameters of each kind of link to few chains: what a function takes to receive and to
    send, what its work takes, what source and sink take. The model (`unis model`) then predicts
    chains of other lengths, costs and frame sizes. All chains of a kind are up at once, and their
    windows alternate: predictions and measurements of one round are compared. `overload` shows
    throughput past saturation, up to twice what a chain passes at most, under hand-over and under
    the kernel's `other`. What links pass that drop in hardware is the model's, and says so.
    Writes results.json after each step, and at last two pictures and a machine file for each kind
    of link, which `unis model CHAIN --machine` reads. Needs root, hugepages, and two
    CPUs that do nothing else. Exit code 1 if the errors are larger than they may be.

    Example: unis bench model --quick -o build/model
    """
    from evaluation.model.bench import ModelMeasurement, ModelSettings
    from evaluation.model.chains import KINDS
    from evaluation.model.fit import LinkTerms, machine_file
    from evaluation.model.results import results_of
    from evaluation.model.windows import SPAN
    from evaluation.paper.source import Source
    from unis.capacity.here import this_machine
    from unis.measure.summary import MachineSummary
    from unis.plan.machine import Machine
    from unis.report import check_plots

    rounds = rounds or (9 if quick else 24)
    settings = ModelSettings(
        kinds=words_of(only, KINDS, "--only") if only else KINDS,
        rounds=rounds,
        overload_rounds=min(rounds, 5 if quick else 12),
    )
    check_plots()
    from evaluation.model.figures import draw_model

    file = writable(output / "results.json")
    machine = Machine.this()
    summary, commit = MachineSummary.this(len(machine.cpus)), Source.this().commit
    find_fetched_programs()
    bench = ModelMeasurement(settings, machine, say)
    say(f"about {bench.seconds / 60:.0f} min")
    results = None
    for found in bench.measure():
        results = results_of(
            summary, commit, quick=quick, rounds=rounds, window_s=SPAN.window,
            parameters=found.parameters, rows=found.rows, overload=found.overload,
            left_out=found.left_out,
            stolen=sum(found.stolen) / len(found.stolen) if found.stolen else 0.0,
        )  # fmt: skip
        write_result(file, results.model_dump_json(indent=1) + "\n")
    if results is None:
        return
    _print(results)
    cpus = this_machine().cpus
    for of in results.parameters:
        text = machine_file(of.link, LinkTerms(**of.terms), of.free_ns, cpus)
        write_result(output / f"machine-{of.link}.yaml", text)
    pictures = draw_model(results.rows, results.overload, output)
    out.print(file, *pictures, sep="  ", markup=False, style="bold")
    if bench.found.failed or results.verdict.verdict == "does not hold":
        raise typer.Exit(1)


def _print(results: ModelResults) -> None:
    _print_parameters(results)
    columns = ("predicted Mpps", "measured", "error", "95 %")
    for fits, title in ((True, "Chains that fit the parameters"), (False, "Chains that test")):
        table = table_of(title, "link, chain (cycles of each function)", columns, ("bottleneck",))
        for row in results.rows:
            if row.fits == fits:
                table.add_row(
                    f"{row.link}, {row.chain}, {row.size} B",
                    f"{row.predicted_pps / 1e6:.3f}",
                    f"{row.measured_pps / 1e6:.3f}",
                    Text(f"{row.error:+.1%}", "yellow" if row.wrong and not fits else ""),
                    f"{row.ratio.lo - 1:+.1%} to {row.ratio.hi - 1:+.1%}",
                    row.bottleneck,
                )
        out.print(table)
    for row in results.rows:
        if row.wrong and not row.fits:
            told = f"{row.link}, {row.chain}, {row.size} B: {row.wrong}"
            out.print(told, markup=False, style="yellow", soft_wrap=True)
    _print_overload(results)
    _print_verdict(results)


def _print_parameters(results: ModelResults) -> None:
    names = (
        "hop", "byte", "crossing", "crossing_byte", "clock", "switch", "turn", "source", "sink",
        "carry", "long",
    )  # fmt: skip
    table = table_of(
        "Parameters, measured (medians): ns a packet; clock: × the estimated work; turn: packets",
        "link", names,
    )  # fmt: skip
    for of in results.parameters:
        table.add_row(of.link, *(_number(of.terms[name]) for name in names))
    out.print(table)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _print_overload(results: ModelResults) -> None:
    if not results.overload:
        return
    loads = sorted({point.load for point in results.overload})
    table = table_of(
        "Overload: passed ÷ what the policy passes at most, by load ÷ the same", "link, policy",
        ["at most ÷ hand-over", *(f"{load:g}" for load in loads)],
    )  # fmt: skip
    for link, policy in dict.fromkeys((point.link, point.policy) for point in results.overload):
        by_load = {
            point.load: point
            for point in results.overload
            if (point.link, point.policy) == (link, policy)
        }
        table.add_row(
            f"{link}, {policy}",
            f"{by_load[loads[0]].most.median:.2g}",
            *(f"{by_load[load].passed.median:.2f}" if load in by_load else "–" for load in loads),
        )
    table.add_row(
        "drops in hardware (model, not measured)",
        "",
        *(f"{results.hardware[load]:.2f}" for load in loads),
    )
    out.print(table)


def _print_verdict(results: ModelResults) -> None:
    verdict = results.verdict
    if verdict.median_error is not None and verdict.worst_error is not None:
        told = (
            f"{verdict.chains} chains: median error {verdict.median_error:.1%}, worst "
            f"{verdict.worst_error:.1%} ({verdict.worst_chain})"
        )
        out.print(told, markup=False, soft_wrap=True)
    said = f"median below 10 %, none above 25 %: {verdict.verdict}"
    out.print(
        f"{said}: {verdict.why}" if verdict.why else said, markup=False,
        style=VERDICT_STYLES.get(verdict.verdict, "dim"),
    )  # fmt: skip
    for part, reason in results.left_out.items():
        out.print(f"{part}: {reason}", markup=False, style="dim", soft_wrap=True)
    if results.stolen >= _STOLEN:
        out.print(
            f"Disturbed: a hypervisor gave {results.stolen:.1%} of the CPUs' time to others.",
            markup=False, style="yellow",
        )  # fmt: skip
