"""`python -m evaluation resq`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.terminal import out, say, table_of, writable
from unis.runtime.files import write_atomically

if TYPE_CHECKING:
    from evaluation.resq.comparison import Evaluation
    from evaluation.resq.results import Resq

_MODE = 0o644


def resq(
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Output directory for results.json and report.html.")
    ] = Path("build/resq"),
) -> None:
    """Compare the placement of promises with the numbers of the ResQ paper, and place 20,000.

    Places the paper's three workloads in several ways. The exact method and the paper's greedy one.
    The paper's baselines: a predictor, elastic scaling, packing that ignores contention. Shared
    cores, each simulated under UNiS' scheduler. Online, as `unis admit` does. An independent
    verifier checks each placement. The profiles are those that the paper prints; missing values are
    assumed (docs/slo.md).

    Also places UNiS' own functions by profiles of the cache model, and simulates all functions of a
    server in one modelled cache. This part needs Valgrind.

    Needs `make build`, but neither root nor a server. Takes four minutes, the first time half a
    minute more. Writes results.json and report.html, which shows the servers.

    Example: uv run python -m evaluation resq -o build/resq
    """
    from evaluation.resq.comparison import evaluate
    from evaluation.resq.report import admission, broken_promises, kept, scale, sockets

    file, page = writable(output / "results.json"), writable(output / "report.html")
    found = evaluate(say)
    write_atomically(file, found.results.model_dump_json(indent=1) + "\n", _MODE)
    write_atomically(page, _page(found), _MODE)
    _print_methods(found.results)
    _print_violations(found.results)
    _print_shared(found.results)
    out.print(scale(found.results), markup=False)
    out.print(admission(found.results), markup=False)
    out.print(sockets(found.results), markup=False)
    _print_caches(found.results)
    wrong = broken_promises(found.results)
    out.print(kept(wrong), style="green" if not wrong else "red")
    out.print(f"{file}\n{page}", markup=False, style="bold")
    if wrong:
        raise typer.Exit(1)


def _page(found: Evaluation) -> str:
    from evaluation.resq.report import resq_page
    from unis.report.placement_rows import rows, rows_of_shared

    return resq_page(
        found.results,
        {name: rows(*placed) for name, placed in found.exact.items()},
        {
            name: rows_of_shared(*placed)
            for name, placed in found.shared.items()
            if "seed 1" in name
        },
    )


def _print_methods(results: Resq) -> None:
    from evaluation.resq.report import METHODS

    columns = [column for name in results.placement for column in (name, "paper")]
    table = table_of("Servers", "method", columns)
    for method in METHODS:
        cells: list[str] = []
        for placed in results.placement.values():
            cells += [str(getattr(placed, method.key)), str(placed.paper.get(method.paper, "–"))]
        table.add_row(method.label, *cells)
    seconds = [
        cell for placed in results.placement.values() for cell in (f"{placed.seconds:.2f}", "")
    ]
    table.add_row("seconds of the exact method", *seconds)
    out.print(table)


def _print_violations(results: Resq) -> None:
    columns = [column for name in results.placement for column in (name, "paper")]
    title = "Promises broken by more than 5 % by packing that ignores contention, %"
    table = table_of(title, "cache", columns)
    for label, key in (
        ("shared", "agnostic_shared_violated"),
        ("in equal parts", "agnostic_split_violated"),
    ):
        cells: list[str] = []
        for placed in results.placement.values():
            cells += [f"{getattr(placed, key):.1f}", str(placed.paper[key])]
        table.add_row(label, *cells)
    out.print(table)


def _print_caches(results: Resq) -> None:
    from evaluation.resq.report import CACHE_COLUMNS, cache_rows, caches

    out.print(caches(results), markup=False)
    rows = cache_rows(results)
    if rows:
        table = table_of("In that cache", CACHE_COLUMNS[0], CACHE_COLUMNS[1:])
        for row in rows:
            table.add_row(*row)
        out.print(table)


def _print_shared(results: Resq) -> None:
    parts = table_of(
        "Cores shared, promises of 10 to 60 % of a core", "workload",
        ("one core each", "shared", "bound", "saved", "simulated", "not kept", "p95 ÷ promise"),
    )  # fmt: skip
    for name, share in results.shared.items():
        parts.add_row(
            name, str(share.exact), str(share.shared), str(share.bound), f"{share.fewer:.1%}",
            str(share.simulated), str(share.late_or_short), f"{share.closest:.0%}",
        )  # fmt: skip
    out.print(parts)
