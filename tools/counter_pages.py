"""docs/counters.md, and the tables of docs/columns.md, from the declarations of unis.counters.

`make docs` writes them; a test holds them current.
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from unis.counters import columns
from unis.counters.columns import Column
from unis.counters.declared import METRICS
from unis.counters.metric import CountedField, Metric
from unis.counters.runs import RUNS

# Of a section of docs/columns.md: what `unis ps` shows of it, and `unis top`.
TABLES: dict[str, tuple[tuple[Column, ...], tuple[Column, ...]]] = {
    "functions": (columns.PS_FUNCTIONS, columns.top_functions(states=False)),
    "time": (columns.PS_TIME, columns.STATES),
    "chains": (columns.PS_EDGES, (*columns.TOP_CHAINS, *columns.TOP_EDGES)),
    "cpus": ((), columns.TOP_CPUS),
    "platform": ((), columns.TOP_PLATFORM),
}
_WHOSE_ROW = (columns.FUNCTION, columns.CPU, columns.CHAIN)  # explained with the functions
_ABOUT = """# Counters

What UNiS counts. `unis serve` tells it to [Prometheus](metrics.md) under the names of the first
column. `unis ps` and `unis top` show it in [columns](columns.md), and with `--json` they print the
fields of the third column. `make docs` writes this page from the declarations in
[unis/counters](../unis/counters/declared.py).

Every sample but that of `unis_build_info` has the label `run` as well. A counter only grows. It
starts at 0 with the engine, and that of a function with the function's process; restarts count
from the start of the run. A metric in seconds has a field in nanoseconds, whose name ends in `_ns`.

## Of runs

Also where the engine does not answer. The fields are those of `unis ps --json`.

"""
_HEAD = "| name | kind | field | what it says |\n|---|---|---|---|\n"
_ENGINE = (
    "\n## Of the engine\n\nThe fields are those of `stats` there, and of `unis top --json`.\n\n"
)


def counters() -> str:
    """The text of docs/counters.md."""
    return "".join([_ABOUT, *_table(RUNS), _ENGINE, *_table(METRICS)])


def _table(metrics: Iterable[Metric]) -> list[str]:
    return [_HEAD, *(row for metric in metrics for row in _rows(metric))]


def _rows(metric: Metric) -> Iterable[str]:
    name = f"`{metric.name}`"
    if metric.labels:
        name += f" by {', '.join(f'`{label}`' for label in metric.labels)}"
    several = len({reading.help for reading in metric.readings}) > 1
    if several:
        yield f"| {name} | {metric.kind} | | {metric.help} |\n"
    seen: dict[str, list[str]] = {}
    for reading in metric.readings:
        seen.setdefault(_own(reading) + reading.help, []).append(f"`{reading.path}`")
    if not seen:  # no other command has it
        yield f"| {name} | {metric.kind} | | {metric.help} |\n"
    for says, paths in seen.items():
        begin = "| | " if several else f"| {name} | {metric.kind} "
        yield f"{begin}| {', '.join(paths)} | {says} |\n"


def _own(reading: CountedField) -> str:
    return "".join(f'`{label}="{value}"`: ' for label, value in reading.labels.items())


def table(section: str) -> str:
    """One table of docs/columns.md. Columns that say the same share a row."""
    told: dict[str, dict[str, list[str]]] = {}  # titles, by what they say and by command
    for command, shown in zip(("ps", "top"), TABLES[section], strict=True):
        for column in shown:
            whose = section != "functions" and column in _WHOSE_ROW
            if not whose and not (section == "functions" and column in columns.STATES):
                told.setdefault(column.says, {}).setdefault(command, []).append(column.title)
    rows = [f"| {_titles(of)} | {says} |\n" for says, of in told.items()]
    return "".join(["| column | command | what it says |\n|---|---|---|\n", *rows])


def _titles(told: dict[str, list[str]]) -> str:
    """Of columns that say the same, by command: their titles, and the commands."""
    pairs = [(f"`{title}`", command) for command, titles in told.items() for title in titles]
    titles = ", ".join(dict.fromkeys(title for title, _ in pairs))
    commands = [command for _, command in pairs]
    if len(told) > 1 and len({title for title, _ in pairs}) < len(pairs):
        return f"{titles} | both"
    shown = commands if len(told) > 1 else commands[:1]
    return f"{titles} | {', '.join(f'`{command}`' for command in shown)}"


def with_tables(page: str) -> str:
    """docs/columns.md with its tables as they must be."""
    return re.sub(
        r"(<!-- columns (\w+) -->\n).*?(<!-- end of columns -->\n)",
        lambda found: f"{found[1]}{table(found[2])}{found[3]}",
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "counters.md").write_text(counters())
    page = folder / "columns.md"
    page.write_text(with_tables(page.read_text()))
