"""Numbers in README and docs that come from a run of `evaluation paper` are those of its results.

How they are marked: tools/keep_results.py.
"""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation.paper.evaluation import FIGURES
from evaluation.paper.report import counts
from evaluation.paper.results import Agreement, Figure, Results, SimulatedPoint
from tests.python.test_docs import DOCS, ROOT
from tests.python.test_paper_source import a_row
from tools import keep_results
from tools.keep_results import (
    CLAIM,
    DOCUMENTS,
    KEPT,
    NotKeptError,
    keep,
    kept,
    numbers_of,
    renewed,
    why_not,
)
from unis.measure.paired import Ratio
from unis.measure.summary import MachineSummary


@functools.cache
def the_results() -> Results:
    return Results.model_validate_json(KEPT.read_text())


def claims() -> Iterator[tuple[Path, re.Match[str]]]:
    for document in DOCUMENTS:
        for found in CLAIM.finditer(document.read_text()):
            yield document, found


@pytest.mark.parametrize(
    ("document", "found"), list(claims()), ids=lambda part: getattr(part, "name", "claim")
)
def test_a_number_is_that_of_the_results(document: Path, found: re.Match[str]) -> None:
    told = numbers_of(the_results(), found)
    assert found["numbers"] == told, f"{document.relative_to(ROOT)}: {found.group()}"


def test_there_are_claims_in_the_readme_and_where_figures_are_explained() -> None:
    named = {document.name for document, _ in claims()}
    assert {"README.md", "measuring.md"} <= named
    texts = (
        re.sub(
            r"<!-- ((load|columns|scc) \w+|end of (load|columns|scc profiler)) -->",
            "",
            each.read_text(),
        )
        for each in DOCS
    )
    marks = sum(text.count("<!--") for text in texts)
    assert marks == len([*claims()]), "a mark is not written as this file says, or not where"


def test_what_is_kept_is_a_whole_run_and_the_documents_tell_of_what() -> None:
    results = the_results()
    assert [*why_not(results)] == []
    assert results.settings["extent"] == "full"
    assert [figure.key for figure in results.figures] == [*FIGURES]
    assert KEPT.read_text() == kept(results)
    told = (ROOT / "docs" / "measuring.md").read_text()
    of_figures = counts(results.figures)
    for of in (results.commit, results.machine.cpu_model, results.machine.kernel, of_figures):
        assert of
        assert of in told


# ---------------------------------------------------------------------- the tool


def ratio(median: float) -> Ratio:
    return Ratio(median=median, lo=median, hi=median)


def a_figure(key: str) -> Figure:
    return Figure(
        key=key, name=key, title="", paper="", ours="", rule="", verdict="agrees", why="",
        source=[], plots=[],
    )  # fmt: skip


RESULTS = Results(
    machine=MachineSummary(cpu_model="a CPU", cpus=2, kernel="7.0-new", dpdk="22.11"),
    commit="fedcba987654",
    settings={"extent": "full", "figures": "all"},
    figures=[*map(a_figure, FIGURES)],
    rows=[
        a_row(arm="handover", cost="light", ratio_to_cooperative=ratio(0.912)),
        a_row(arm="handover", cost="medium", ratio_to_cooperative=ratio(0.988)),
        a_row(arm="handover", ratio_to_cooperative=ratio(2.0), source="simulated"),
        a_row(arm="rr", cost="light", drops=1234.0),
    ],
    simulator=Agreement.of(
        [
            SimulatedPoint(
                figure="fig7", cost="mixed", length=2, arm="handover", measured=1.0,
                simulated=1.25, switch_us=us, chain_factor=1,
            )
            for us in (6.0, 9.5)
        ]
    ),
    disturbed=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        ("0.1 <!-- fig7 handover ratio_to_cooperative -->", "0.9 to 1.0"),
        ("0.10 to 1 <!-- fig7 handover ratio_to_cooperative -->", "0.91 to 0.99"),
        ("0.100 <!-- fig7 handover ratio_to_cooperative of medium -->", "0.988"),
        ("1 to 2 <!-- fig7 rr drops -->", "1,234"),
        ("7.0 <!-- simulator - switch_us -->", "6.0 to 9.5"),
        ("7.00 <!-- simulator - median_error -->", "0.25"),
    ],
)
def test_what_a_claim_is_of(claim: str, told: str) -> None:
    found = CLAIM.fullmatch(claim)
    assert found
    assert numbers_of(RESULTS, found) == told
    text = f"It is {claim}, so."
    assert renewed(text, RESULTS) == text.replace(found["numbers"], told)
    assert renewed(renewed(text, RESULTS), RESULTS) == renewed(text, RESULTS)


WRONG = [
    ("<!-- fig7 nobody ratio_to_cooperative -->", "no row has"),
    ("<!-- fig7 handover ratio_to_cooperative of heavy -->", "no row has"),
    ("<!-- fig7 rr ratio_to_fused -->", "no row of 1 <!-- fig7 rr ratio_to_fused --> has a value"),
    ("<!-- fig7 rr ratio_to_nobody -->", "rows have no `ratio_to_nobody`"),
    ("<!-- simulator - nothing -->", "rows have no `nothing`"),
    ("<!-- fig7 rr policy -->", "`policy` is no number"),
    ("<!-- fig7 rr latency_us -->", "`latency_us` is no number"),
]


@pytest.mark.parametrize(("mark", "told"), WRONG)
def test_a_claim_of_nothing_is_a_sentence(mark: str, told: str) -> None:
    with pytest.raises(NotKeptError, match=told):
        renewed(f"1 {mark}", RESULTS)


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone's documents, of an earlier run."""
    (tmp_path / "docs").mkdir()
    readme, page = tmp_path / "README.md", tmp_path / "docs" / "measuring.md"
    readme.write_text("0.10 to 0.20 <!-- fig7 handover ratio_to_cooperative --> of all")
    page.write_text("commit 0123456789ab, Linux 6.0-old: 0.10 <!-- simulator - worst_error -->")
    before = RESULTS.model_dump(mode="json") | {"commit": "0123456789ab-dirty"}
    before["machine"]["kernel"] = "6.0-old"
    (tmp_path / "docs" / "results.json").write_text(json.dumps(before))
    monkeypatch.setattr(keep_results, "ROOT", tmp_path)
    monkeypatch.setattr(keep_results, "KEPT", tmp_path / "docs" / "results.json")
    monkeypatch.setattr(keep_results, "DOCUMENTS", (readme, page))
    return tmp_path


def written(docs: Path, **more: object) -> Path:
    file = docs / "new.json"
    file.write_text(RESULTS.model_copy(update=more).model_dump_json())
    return file


def content(docs: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in docs.rglob("*") if file.is_file()}


def test_results_are_kept_with_their_plots_and_the_documents_follow(docs: Path) -> None:
    plot = {"kind": "lines", "title": "t", "x": "a", "y": "b", "series": {"s": [{"x": 1, "y": 2}]}}
    first = RESULTS.figures[0].model_dump() | {"plots": [plot]}
    figures = [Figure.model_validate(first), *RESULTS.figures[1:]]
    keep(written(docs, figures=figures))
    text = content(docs)
    mark = "<!-- fig7 handover ratio_to_cooperative -->"
    assert text["README.md"] == f"0.91 to 0.99 {mark} of all"
    assert text["measuring.md"] == (
        "commit fedcba987654, Linux 7.0-new: 0.25 <!-- simulator - worst_error -->"
    )
    now = Results.model_validate_json(text["results.json"])
    assert now.commit == "fedcba987654"
    assert now.figures == figures
    assert text["results.json"].count("\n") > len(FIGURES) + len(RESULTS.rows)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"commit": "fedcba987654-dirty"}, "of `fedcba987654-dirty`, which is no commit as it is"),
        ({"commit": "unknown, version 0.1"}, "of `unknown, version 0.1`, which is no commit"),
        ({"settings": {"extent": "quick", "figures": "all"}}, "of a run that is `quick`, not full"),
        ({"settings": {"extent": "full", "figures": ["fig7"]}}, "of some figures only"),
        ({"figures": RESULTS.figures[1:]}, f"without {next(iter(FIGURES))}"),
        ({"rows": []}, "README.md: no row has 0.10 to 0.20 <!-- fig7 handover"),
    ],
)
def test_of_what_is_not_kept_nothing_is_written(
    docs: Path, more: dict[str, object], told: str
) -> None:
    file = written(docs, **more)
    before = content(docs)
    with pytest.raises(NotKeptError, match=re.escape(told)):
        keep(file)
    assert content(docs) == before


def test_the_last_document_keeps_the_first_from_being_written(docs: Path) -> None:
    page = docs / "docs" / "measuring.md"
    page.write_text("0.1 <!-- simulator - nothing -->")
    file = written(docs)
    before = content(docs)
    with pytest.raises(NotKeptError, match=r"docs/measuring.md: rows have no `nothing`"):
        keep(file)
    assert content(docs) == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "Usage: "),
        (["a", "b"], "Usage: "),
        (["--help"], "Usage: "),
        (["/no/such"], "cannot read /no/such: No such file or directory"),
        ([__file__], "has no results: "),
        (["/bin/true"], "has no results: "),
    ],
)
def test_the_tool_ends_with_a_sentence(words: list[str], told: str) -> None:
    with pytest.raises(SystemExit) as ended:
        keep_results.main(words)
    assert told in str(ended.value)
