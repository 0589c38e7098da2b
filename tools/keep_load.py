"""Keeps results of `unis bench load` for the docs: `python -m tools.keep_load RESULTS COMMIT`.

They go to docs/load.json, with the commit they are of. The blocks between `<!-- load CHAIN -->` and
`<!-- end of load -->` in docs are written anew from that file: a table, and what follows from it.
tests/python/test_load.py holds the blocks against the file.
"""

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from unis.bench.beside import ALONE, BesideRow
from unis.bench.load import (
    CHAINS,
    LOADS,
    OPENVSWITCH,
    PMD_MAXSLEEP,
    POLLING,
    SLEEPING,
    LoadResult,
    LoadRow,
)
from unis.runtime.files import write_atomically

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "load.json"
DOCUMENTS = (ROOT / "docs" / "scheduler.md", ROOT / "docs" / "measuring.md")
_BLOCK = re.compile(r"<!-- load (\w+) -->\n.*?<!-- end of load -->", re.DOTALL)
_HALF = 0.5
_NONE = "–"
_LEAST_RUNS = 5


class Kept(BaseModel):
    """Results, and which code they are of."""

    commit: str
    date: str
    result: LoadResult


def renewed(text: str, kept: Kept) -> str:
    """A document with the blocks of these results; KeyError for a chain that was not measured."""

    def block(found: re.Match[str]) -> str:
        lines = "\n".join(_block(found[1], kept))
        return f"<!-- load {found[1]} -->\n{lines}\n<!-- end of load -->"

    return _BLOCK.sub(block, text)


def _block(chain: str, kept: Kept) -> Iterator[str]:
    rows = {(row.load, row.policy): row for row in kept.result.rows if row.chain == chain}
    if not rows:
        raise KeyError(chain)
    loads = sorted({load for load, _ in rows})
    first = rows[loads[-1], POLLING]
    settings = kept.result.settings
    yield (
        f"`unis bench load` at {kept.commit}, {kept.date}; at most {first.most_mpps:.3g} Mpps; "
        f"{settings.runs} bring-ups, {first.windows} windows of {settings.window:g} s."
    )
    yield ""
    yield from (_peers if chain == OPENVSWITCH else _delays)(loads, rows)
    if beside := [row for row in kept.result.beside if row.chain == chain]:
        yield ""
        yield from _neighbours(beside)


def _delays(loads: list[float], rows: dict[tuple[float, str], LoadRow]) -> Iterator[str]:
    yield (
        "| load, % | functions' CPU, % (bring-ups) | platform's, % | p50, µs, polling | sleeping | "
        "p95, polling | sleeping | p95 added (quartiles) | p99, polling | sleeping | "
        "lost, %, polling | sleeping |"
    )
    yield "|" + "---|" * 12
    for load in loads:
        polls, sleeps = rows[load, POLLING], rows[load, SLEEPING]
        cells = [
            f"{100 * load:g}",
            _spread(sleeps),
            f"{100 * sleeps.cpu_platform:.0f}",
            *(_us(row, at) for at in ("p50", "p95") for row in (polls, sleeps)),
            _added(sleeps),
            *(_us(row, "p99") for row in (polls, sleeps)),
            *(f"{100 * row.lost:.2f}" for row in (polls, sleeps)),
        ]
        yield _line(cells)
    some = [rows[load, SLEEPING] for load in loads if 0 < load <= _HALF]
    more = max(100 * (row.cpu_functions - row.load) for row in some)
    worst = max(100 * (max(row.cpu_functions_by_run) - row.load) for row in some)
    p95 = max(row.added_us["p95"].median for row in some if row.added_us["p95"])
    yield ""
    yield (
        f"Up to half the load the functions take at most {more:.0f} points of their CPU more than "
        f"the load, in the worst bring-up {worst:.0f}. p95 is at most {p95:.0f} µs higher than "
        "with functions that poll."
    )


def _peers(loads: list[float], rows: dict[tuple[float, str], LoadRow]) -> Iterator[str]:
    yield (
        "| load, % | its CPU, %, UNiS | `pmd-maxsleep` | platform's, UNiS | `pmd-maxsleep` | CPU "
        "time a packet, ratio (95 %) | p50, µs, UNiS | `pmd-maxsleep` | p95, UNiS | `pmd-maxsleep` "
        "| lost, %, UNiS | `pmd-maxsleep` |"
    )
    yield "|" + "---|" * 12
    for load in loads:
        ours, theirs = rows[load, SLEEPING], rows[load, PMD_MAXSLEEP]
        found = ours.ratio_to_pmd_maxsleep
        both = (ours, theirs)
        cells = [
            f"{100 * load:g}",
            *(f"{100 * row.cpu_functions:.0f}" for row in both),
            *(f"{100 * row.cpu_platform:.0f}" for row in both),
            f"{found.median:.2f} ({found.lo:.2f} to {found.hi:.2f})" if found and load else _NONE,
            *(_us(row, at) for at in ("p50", "p95") for row in both),
            *(f"{100 * row.lost:.2f}" for row in both),
        ]
        yield _line(cells)


def _neighbours(rows: list[BesideRow]) -> Iterator[str]:
    yield (
        f"Beside a process that computes on the functions' CPU, at {100 * rows[0].load:g} % of the "
        f"load, in the last bring-up ({rows[0].windows} windows of {rows[0].window:g} s):"
    )
    yield ""
    yield "| process | functions' CPU, % | its CPU, % | p50, µs | p95 | p99 | lost, % |"
    yield "|" + "---|" * 7
    for row in rows:
        cells = [
            "none" if row.beside == ALONE else row.beside,
            f"{100 * row.cpu_functions:.0f}",
            _NONE if row.cpu_beside is None else f"{100 * row.cpu_beside:.0f}",
            *(_number(row.latency_us[at]) for at in ("p50", "p95", "p99")),
            f"{100 * row.lost:.2f}",
        ]
        yield _line(cells)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _spread(row: LoadRow) -> str:
    least, most = min(row.cpu_functions_by_run), max(row.cpu_functions_by_run)
    return f"{100 * row.cpu_functions:.0f} ({100 * least:.0f} to {100 * most:.0f})"


def _us(row: LoadRow, percentile: str) -> str:
    return _number(row.latency_us[percentile])


def _number(us: float | None) -> str:
    return _NONE if us is None else f"{us:,.0f}"


def _added(row: LoadRow) -> str:
    added = row.added_us["p95"]
    return f"{added.median:.0f} ({added.q1:.0f} to {added.q3:.0f})" if added else _NONE


def _with_five_digits(number: str) -> float:
    return float(f"{float(number):.5g}")


def kept_of(results: Path, commit: str) -> Kept:
    """What a file of results says; ValueError where it is not all that docs speak of."""
    result = LoadResult.model_validate_json(results.read_text())
    if missing := {*CHAINS} - {row.chain for row in result.rows}:
        raise ValueError(f"without {', '.join(sorted(missing))}: measure all chains")
    if (*result.settings.loads,) != LOADS or result.settings.runs < _LEAST_RUNS:
        raise ValueError(f"it takes all loads and {_LEAST_RUNS} bring-ups")
    date = datetime.fromtimestamp(results.stat().st_mtime, UTC).date()
    kept = Kept(commit=commit, date=str(date), result=result)
    text = kept.model_dump_json()
    return Kept.model_validate(json.loads(text, parse_float=_with_five_digits))


def main() -> None:
    """Keeps the results of the file that the command line names: all is written, or nothing."""
    if len(sys.argv) != 3:
        sys.exit("usage: python -m tools.keep_load RESULTS COMMIT, which was measured")
    try:
        kept = kept_of(Path(sys.argv[1]), sys.argv[2])
    except (OSError, ValueError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
    texts = {document: renewed(document.read_text(), kept) for document in DOCUMENTS}
    texts[KEPT] = kept.model_dump_json(indent=1) + "\n"
    for document, text in texts.items():
        write_atomically(document, text, 0o644)


if __name__ == "__main__":
    main()
