"""Numbers in README and docs that come from a run of `unis bench paper` are those of its results.

How they are marked: tools/keep_results.py.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.test_docs import DOCS, ROOT
from tools.keep_results import CLAIM, KEPT, kept, numbers_of, renewed
from unis.report.evaluation import Results

RESULTS = Results.model_validate_json(KEPT.read_text())


def claims() -> Iterator[tuple[Path, re.Match[str]]]:
    for document in DOCS:
        for found in CLAIM.finditer(document.read_text()):
            yield document, found


def problem(found: re.Match[str]) -> str | None:
    told = numbers_of(RESULTS, found)
    if told is None:
        return f"no row has {found.group()}"
    return None if found["numbers"] == told else f"{found.group()}: the results have {told}"


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
    found = CLAIM.search(f"{wrong:.2f} <!-- fig7 handover ratio_to_cooperative -->")
    assert found
    assert problem(found)
    found = CLAIM.search("1.00 <!-- fig7 nobody ratio_to_cooperative of mixed -->")
    assert found
    assert problem(found) == f"no row has {found.group()}"


def test_other_results_renew_the_numbers_of_a_document() -> None:
    text = (
        "It is 0.1 to 0.2 <!-- fig4a handover ratio_to_cooperative -->, "
        "7 <!-- simulator - worst_error -->."
    )
    told = renewed(text, RESULTS)
    assert "0.1 to 0.2" not in told
    assert renewed(told, RESULTS) == told
    assert all(problem(found) is None for found in CLAIM.finditer(told))


def test_what_is_kept_tells_where_and_of_what_it_is() -> None:
    assert RESULTS.machine.cpu_model
    assert RESULTS.commit
    told = (ROOT / "docs" / "measuring.md").read_text()
    assert RESULTS.commit.partition("-dirty")[0] in told
    assert RESULTS.machine.kernel in told
    assert KEPT.read_text() == kept(RESULTS)
    assert json.loads(KEPT.read_text())["settings"]["extent"] in ("quick", "full")
