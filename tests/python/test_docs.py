"""What the documents say is so: pages of commands, features and their proofs, links."""

import re
from pathlib import Path

import pytest
from rich.console import Group
from rich.table import Table

from tools import cli_pages
from unis import links
from unis.cli import view
from unis.engine import names
from unis.v1 import engine_pb2 as pb

ROOT = Path(__file__).resolve().parents[2]
DOCS = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
STATES = {"works", "emulated", "planned"}


def features() -> list[list[str]]:
    text = (ROOT / "docs" / "features.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if row[0] != "feature"]


def proof_problem(proof: str) -> str | None:
    name, _, test = proof.partition("::")
    file = ROOT / name
    if not file.is_file():
        return f"no file {name}"
    if file.suffix == ".cc":
        return None if file.stem.endswith("_test") else f"{name} is no test"
    if not test or f"def {test}(" not in file.read_text():
        return f"no test {test} in {name}"
    return None


def test_pages_of_commands_are_current() -> None:
    written = {file.name: file.read_text() for file in (ROOT / "docs" / "cli").glob("*.md")}
    assert written == cli_pages.pages(), "run `make docs`"


@pytest.mark.parametrize("row", features(), ids=lambda row: row[0][:40])
def test_a_feature_has_its_proof(row: list[str]) -> None:
    _, state, proof = row
    assert state in STATES
    assert bool(proof) == (state != "planned")
    if proof:
        assert proof_problem(proof.strip("`")) is None


def test_a_proof_that_is_not_there_is_seen() -> None:
    for missing in (
        "unis account",
        "examples/demo.yaml",
        "engine/run/run.cc",
        "tests/e2e/test_run.py",
        "tests/e2e/test_run.py::test_nonsense",
    ):
        assert proof_problem(missing)


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


def test_each_state_and_column_is_explained() -> None:
    page = (ROOT / "docs" / "columns.md").read_text()
    explained = {word for row in re.findall(r"^\| (`.+?) \|", page, flags=re.MULTILINE)
                 for word in re.findall(r"`([^`]+)`", row)}  # fmt: skip
    states = {names.state_name(state) for state in pb.FunctionState.values() if state}
    assert states <= explained
    chain = pb.ChainStats(name="a", edges=[pb.EdgeStats(to="b"), pb.EdgeStats(to="c")])
    stats = pb.Stats(
        chains=[chain], cores=[pb.CoreStats()], components=[pb.ComponentStats()],
        functions=[pb.FunctionStats(paths=[pb.PathStats()])],
    )  # fmt: skip
    shown = view.live_view("", view.Rates(stats, stats), 200)
    assert isinstance(shown, Group)
    parts = [view.processes(stats, {}), view.edges(stats, {}), *shown.renderables]
    tables = [part for part in parts if isinstance(part, Table)]
    assert len(tables) == 7
    headings = {str(column.header) for table in tables for column in table.columns}
    assert headings - {""} <= explained
