"""Numbers in README and docs that come from a run of `unis bench paper` are those of its results.

`0.98 to 1.00 <!-- fig4a handover ratio_to_cooperative -->`: the least and the most of the medians
of a figure's rows for an arm, over all lengths, of the cost named last if one is named. One number
alone: all are that. `docs/results.json` holds the run, its machine and commit.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.test_docs import DOCS, ROOT
from tools.keep_results import KEPT, kept
from unis.report.evaluation import Results

RESULTS = Results.model_validate_json(KEPT.read_text())
_CLAIM = re.compile(
    r"(?P<least>\d[\d.,]*\d|\d)(?:\s+to\s+(?P<most>\d[\d.,]*\d|\d))?\s*"
    r"<!--\s*(?P<figure>\w+)\s+(?P<arm>[^>]*?)\s+(?P<field>\w+)(?:\s+of\s+(?P<cost>\w+))?\s*-->"
)


def claims() -> Iterator[tuple[Path, re.Match[str]]]:
    for document in DOCS:
        for found in _CLAIM.finditer(document.read_text()):
            yield document, found


def numbers(figure: str, arm: str, field: str, cost: str | None) -> list[float]:
    if figure == "simulator":
        return [float(getattr(RESULTS.simulator, field))]
    rows = [
        row
        for row in RESULTS.rows
        if (row.experiment, row.arm) == (figure, arm) and cost in (None, row.cost)
    ]
    values = [getattr(row, field) for row in rows]
    return [getattr(value, "median", value) for value in values if value is not None]


def problem(found: re.Match[str]) -> str | None:
    values = numbers(found["figure"], found["arm"], found["field"], found["cost"])
    if not values:
        return f"no row has {found.group()}"
    for written, of in (
        (found["least"], min(values)),
        (found["most"] or found["least"], max(values)),
    ):
        digits = len(written.partition(".")[2])
        if f"{of:,.{digits}f}" != written:
            return f"{found.group()}: the results have {min(values):.4g} to {max(values):.4g}"
    return None


@pytest.mark.parametrize(
    ("document", "found"), list(claims()), ids=lambda part: getattr(part, "name", "claim")
)
def test_a_number_is_that_of_the_results(document: Path, found: re.Match[str]) -> None:
    assert problem(found) is None, f"{document.relative_to(ROOT)}: {problem(found)}"


def test_there_are_claims_in_the_readme_and_where_figures_are_explained() -> None:
    named = {document.name for document, _ in claims()}
    assert {"README.md", "measuring.md"} <= named
    marks = sum(document.read_text().count("<!--") for document in DOCS)
    assert marks == len([*claims()]), "a mark is not written as this file says"


def test_a_wrong_number_is_found() -> None:
    row = next(row for row in RESULTS.rows if row.experiment == "fig7" and row.arm == "handover")
    assert row.ratio_to_cooperative
    wrong = row.ratio_to_cooperative.median + 1
    found = _CLAIM.search(f"{wrong:.2f} <!-- fig7 handover ratio_to_cooperative -->")
    assert found
    assert problem(found)
    found = _CLAIM.search("1.00 <!-- fig7 nobody ratio_to_cooperative of mixed -->")
    assert found
    assert problem(found) == f"no row has {found.group()}"


def test_what_is_kept_tells_where_and_of_what_it_is() -> None:
    assert RESULTS.machine.cpu_model
    assert RESULTS.commit
    told = (ROOT / "docs" / "measuring.md").read_text()
    assert RESULTS.commit.partition("-dirty")[0] in told
    assert RESULTS.machine.kernel in told
    assert KEPT.read_text() == kept(RESULTS)
    assert json.loads(KEPT.read_text())["settings"]["extent"] in ("quick", "full")
