"""What the documents say is so: pages of commands, features and their proofs, links."""

import ast
import functools
import re
from pathlib import Path

import pytest

from tools import cli_pages
from unis import links
from unis.engine import names
from unis.v1 import engine_pb2 as pb

ROOT = Path(__file__).resolve().parents[2]
DOCS = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
STATES = {"works", "computed", "emulated", "planned"}
BENCH = " (`make bench`)"


def features() -> list[list[str]]:
    text = (ROOT / "docs" / "features.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if row[0] != "feature"]


@functools.cache
def compiled() -> frozenset[Path]:
    """Sources that a meson.build names."""
    return frozenset(
        (build.parent / name).resolve()
        for part in ("engine", "functions", "models", "ports")
        for build in (ROOT / part).rglob("meson.build")
        for name in re.findall(r"'([^']+\.cc)'", build.read_text())
    )


@functools.cache
def marks_of(file: Path) -> dict[str, bool]:
    """Each test of a file in Python, and whether only `make bench` runs it."""
    return {
        node.name: any("mark.benchmark" in ast.unparse(mark) for mark in node.decorator_list)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
    }


def proof_problem(proof: str, *, bench: bool = False) -> str | None:
    """Why a proof is none; `bench`: the row says that only `make bench` runs it."""
    name, _, test = proof.partition("::")
    file = ROOT / name
    if not file.is_file():
        return f"no file {name}"
    if file.suffix == ".cc":
        return None if file in compiled() and file.stem.endswith("_test") else f"{name} is no test"
    marked = marks_of(file).get(test) if file.suffix == ".py" else None
    if marked is None:
        return f"no test {test} in {name}"
    if marked != bench:
        return f"{test} is{'' if marked else ' not'} marked benchmark"
    return None


def test_pages_of_commands_are_current() -> None:
    written = {file.name: file.read_text() for file in (ROOT / "docs" / "cli").glob("*.md")}
    assert written == cli_pages.pages(), "run `make docs`"


def test_a_page_of_a_command_shows_what_is_required() -> None:
    page = cli_pages.pages()["trace.md"]
    assert "unis trace [NAME] --output FILE [OPTIONS]" in page
    assert "| required |" in page


@pytest.mark.parametrize("row", features(), ids=lambda row: row[0][:40])
def test_a_feature_has_its_proof(row: list[str]) -> None:
    _, state, proof = row
    assert state in STATES
    assert bool(proof) == (state != "planned")
    proofs = proof.removesuffix(BENCH).split(", ") if proof else []
    for each in proofs:
        assert re.fullmatch("`[^`]+`", each), each
        assert proof_problem(each.strip("`"), bench=proof.endswith(BENCH)) is None


def test_a_proof_that_is_not_there_is_seen() -> None:
    for missing in (
        "unis account",
        "examples/demo.yaml",
        "engine/run/run.cc",
        "tests/e2e/test_run.py",
        "tests/e2e/test_run.py::test_nonsense",
    ):
        assert proof_problem(missing)
    paper = "tests/e2e/test_benches.py::test_paper"
    assert proof_problem(paper) == "test_paper is marked benchmark"
    assert proof_problem(paper, bench=True) is None
    assert proof_problem("tests/e2e/test_run.py::test_it_switches", bench=True)


def test_a_proof_that_nothing_compiles_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = "engine/scheduler/budget_test.cc"
    assert proof_problem(proof) is None
    monkeypatch.setattr(f"{__name__}.compiled", frozenset)
    assert proof_problem(proof) == f"{proof} is no test"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def anchors(text: str) -> set[str]:
    """Of the headings of a page, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def test_anchors_are_those_of_headings_and_not_of_comments_in_code() -> None:
    text = "# A `b`\n\n```\n# no heading\n```\n\n## It's one: two-fold\n"
    assert anchors(text) == {"a-b", "its-one-two-fold"}


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_parts_of_examples_are_lines_of_them(page: Path) -> None:
    shown = re.findall(
        r"^Part of `(examples/[^`]+)`:\n\n```yaml\n(.*?)^```",
        page.read_text(),
        flags=re.MULTILINE | re.DOTALL,
    )
    for example, part in shown:
        rest = iter((ROOT / example).read_text().splitlines())
        for line in part.splitlines():
            assert line in rest, f"{example} has no such line there: {line}"  # in their order


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_anchors_of_links_exist(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text()):
        if "://" not in target:
            at = page.parent / target if target else page
            assert anchor in anchors(at.read_text()), f"{target}#{anchor}"


def test_the_chain_file_s_links_are_those_that_there_are() -> None:
    text = (ROOT / "docs" / "chain-file.md").read_text()
    for kind in links.KINDS.values():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{kind.name}`"))
        assert row.endswith(f"to {kind.most_slots} |")


def test_contributing_stays_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 45


def told_by_section() -> dict[str, list[list[str]]]:
    """Rows of the tables of columns.md, by the title of their section."""
    page = (ROOT / "docs" / "columns.md").read_text()
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    return {
        title: [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in text.splitlines()
            if line.startswith("| `")
        ]
        for title, text in sections.items()
    }


def test_each_state_is_explained() -> None:
    told = [row[0].strip("`") for row in told_by_section()["States"]]
    states = {names.state_name(state) for state in pb.FunctionState.values() if state}
    assert len(told) == len(states)
    assert {*told} == states
