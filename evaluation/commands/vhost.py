"""`python -m evaluation vhost`, which is `unis bench vhost` too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.bench_options import lengths_of, print_disturbed
from unis.cli.options import between
from unis.cli.terminal import out, print_line, say, table_of, writable, write_result

if TYPE_CHECKING:
    from evaluation.vhost import VhostResults, VhostRow


def vhost(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer rounds: two minutes, not five.")
    ] = False,
    lengths: Annotated[
        str, typer.Option(help="Numbers of programs in a chain, comma-separated.")
    ] = "1,2,4",
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="Rounds of each bring-up. Default: 16, --quick: 8."),
    ] = None,
    window: Annotated[float, between(0.02, 60, "Length of a window, seconds.")] = 0.3,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Output directory for results.json.")
    ] = Path("build/vhost"),
) -> None:
    """Compare vhost-user with memif: what chains of DPDK's unmodified testpmd pass at most.

    Two chains of as many programs are up at once, one on each kind of link. The source sends
    through one of them at a time, and windows of one round are compared. The chains of each length
    are brought up several times, because what a chain passes depends on where its memory lies.
    Needs root, hugepages, two CPUs that do nothing else, and testpmd (`tools/third-party testpmd`).
    Exit code 1 if one testpmd on vhost surely passes less than 0.9 of what it passes on memif, and
    0 if the windows cannot tell. On vhost UNiS' plug-in chooses DPDK's packet pool `stack`.

    Example: unis bench vhost --quick -o build/vhost
    """
    from evaluation import vhost as bench
    from unis.measure.order import balanced_rounds
    from unis.plan.machine import Machine

    settings = bench.VhostSettings(
        lengths=[*dict.fromkeys(lengths_of(lengths, "--lengths"))],
        blocks=3 if quick else 6,
        rounds=balanced_rounds(len(bench.KINDS), rounds or (8 if quick else 16)),
        window=window,
    )
    file = writable(output / "results.json")
    result = bench.measure(settings, Machine.this(), say)
    write_result(file, result.model_dump_json(indent=1) + "\n")
    _print(result)
    out.print(file, markup=False, style="bold")
    if any(row.kept is False for row in result.rows if row.length == 1):
        raise typer.Exit(1)


def _print(result: VhostResults) -> None:
    table = table_of(
        f"testpmd, frames of 64 B, {result.rounds} rounds of two windows of {result.window_s:g} s "
        f"in {result.blocks} bring-ups",
        "programs",
        ("memif Mpps", "vhost", "vhost ÷ memif", "q1–q3", "95 %"),
    )
    for row in result.rows:
        table.add_row(str(row.length), *_cells(row))
    out.print(table)
    print_disturbed([result.disturbed])
    for row in result.rows:
        print_line(*_verdict(row))


def _cells(row: VhostRow) -> list[str]:
    cells = [f"{row.mpps[kind].median:.3f}" for kind in ("memif", "vhost")]
    if row.ratio is None or row.ratio_quartiles is None:
        return cells
    spread = row.ratio_quartiles
    return [
        *cells,
        f"{row.ratio.median:.2f}",
        f"{spread.q1:.2f}–{spread.q3:.2f}",
        f"{row.ratio.lo:.2f}–{row.ratio.hi:.2f}",
    ]


def _verdict(row: VhostRow) -> tuple[str, str]:
    what = f"{row.length} testpmd on vhost"
    match row.kept:
        case True:
            return f"{what}: at least 0.9 of memif", "green"
        case False:
            return f"{what}: less than 0.9 of memif", "red"
    return f"{what}: 0.9 of memif or less, these windows cannot tell", "yellow"
