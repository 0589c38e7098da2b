"""Placements as pictures: in the terminal, in pages, and what is in them."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from evaluation.resq.comparison import paper_workload, part_workload
from evaluation.resq.methods import PAPER, models
from evaluation.resq.report import METHODS, broken_promises, resq_page
from evaluation.resq.results import (
    Admission,
    Answers,
    CacheArm,
    InCaches,
    LargePlacement,
    Placed,
    Resq,
    Shared,
    Sockets,
)
from tests.python.test_report import Page
from unis import built
from unis.cli.app import app
from unis.report.colours import of_functions
from unis.report.placement_rows import ANY, Row, by_ways, functions_of, rows, rows_of_shared
from unis.report.servers import drawing, picture
from unis.slo.exact import exact
from unis.slo.placement import Instance, PlacedMachine, Placement
from unis.slo.profile import Profile, Server, Slo, Workload
from unis.slo.shared import shared

EXAMPLES = built.clone() / "examples" / "slo"


def machine(*instances: tuple[str, int]) -> PlacedMachine:
    made = PlacedMachine("a")
    for name, ways in instances:
        made.add(Instance(name, 0, ways))
    return made


def small() -> tuple[Workload, Placement]:
    profile = Profile("<nf>", 1.0, (0.5, 1.0), ((1.0, 10.0),))
    other = Profile("other", 1.0, (1.0,), ((1.0, 10.0),))
    slos = (Slo("s", profile, 0.5, 10.0), Slo("t", profile, 0.5, 10.0), Slo("u", other, 0.5, 10.0))
    workload = Workload("w", slos, (Server("a", 5, 3, 6),))
    machines = [machine(("s", 2), ("u", 1)), machine(("u", 1), ("t", 2)), machine(("u", 4))]
    return workload, Placement(machines)


def test_a_row_is_a_kind_of_server_and_promises_do_not_matter_functions_do() -> None:
    first, second = rows(*small())
    assert (first.count, second.count) == (2, 1)
    assert [(block.first, block.ways) for block in first.blocks] == [
        (0, (("<nf>", 2),)), (2, (("other", 1),)),
    ]  # fmt: skip
    assert (first.free_ways, second.free_ways, len(first.used), first.cores) == (3, 2, 2, 3)
    assert functions_of([first, second]) == ["<nf>", "other"]


def test_by_ways_alone_more_servers_are_alike() -> None:
    every = rows(*small())
    alike = by_ways([*every, Row("a", 3, 6, 3, every[1].blocks, every[1].used)])
    assert [(row.count, functions_of([row])) for row in alike] == [(4, [ANY]), (2, [ANY])]


@pytest.mark.parametrize("name", [*PAPER])
def test_rows_are_the_whole_placement(name: str) -> None:
    workload = paper_workload(name)
    placed = exact(workload)
    found = rows(workload, placed)
    assert sum(row.count for row in found) == len(placed.machines)
    ways = sum(row.count * (row.ways - row.free_ways) for row in found)
    assert ways == sum(of.ways for of in placed.machines)
    assert sum(row.count for row in by_ways(found)) == len(placed.machines)


def test_shared_cores_are_drawn_with_their_loads() -> None:
    workload = part_workload("sensitive")
    workload = replace(workload, slos=workload.slos[::4])
    placed = shared(workload)
    found = rows_of_shared(workload, placed)
    assert sum(row.count for row in found) == len(placed.machines)
    drawn = sorted(round(used.load or 0, 2) for row in found for used in row.used * row.count)
    loads = sorted(round(core.load, 2) for of in placed.machines for core in of.cores)
    assert drawn == pytest.approx(loads, abs=0.011)
    # A block for each class of service, as wide as its mask.
    widths = sorted(block.width for row in found for block in row.blocks * row.count)
    masks = [{part.mask for core in of.cores for part in core.parts} for of in placed.machines]
    assert widths == sorted(mask.bit_count() for of in masks for mask in of)


def boxes(svg: str) -> list[tuple[float, float, float]]:
    """(x, width, right edge of the picture) of each rectangle."""
    root = ElementTree.fromstring(svg)  # noqa: S314  our own
    right = float(root.attrib["viewBox"].split()[2])
    return [
        (float(one.attrib["x"]), float(one.attrib["width"]), right) for one in root.iter("rect")
    ]


@pytest.mark.parametrize("cores", [1, 9, 12, 13, 26, 64])
def test_nothing_is_drawn_outside_the_picture(cores: int) -> None:
    profile = Profile("nf", 1.0, (1.0,), ((1.0, 10.0),))
    slos = (Slo("s", profile, 0.5, 10.0),)
    servers = (Server("a", 5, cores, 32), Server("of-another-kind-with-a-name", 5, 2, 4))
    other = PlacedMachine("of-another-kind-with-a-name")
    other.add(Instance("s", 0, 4))
    full = machine(*[("s", 1)] * min(cores, 32))
    found = rows(Workload("w", slos, servers), Placement([full, other]))
    svg = str(picture(found, {"nf": "#101010"}, "servers"))
    assert all(x >= 0 and x + width <= right for x, width, right in boxes(svg))
    assert svg.count("<title>nf: 1 way</title>") == min(cores, 32)
    assert 'class="on light"' in svg  # on a dark colour


def test_a_picture_escapes_and_stops() -> None:
    found = rows(*small())
    svg = str(picture(found, of_functions(functions_of(found)), 'a "label"'))
    assert "<nf>" not in svg
    assert "&lt;nf&gt;: 2 ways" in svg
    many = drawing(found * 20, of_functions(functions_of(found)), "many")
    assert many.count == 60
    assert "And 24 more servers, of 16 other kinds." in many.more


def resq_results() -> Resq:
    placement = {
        name: Placed(
            promises=200, greedy=45, exact=35, bound=35, seconds=0.1, greedy_seconds=0.1, wrong=0,
            off=0,
            predictor=116, predictor_named=150, predictor_second=101, dynamic=45,
            dynamic_headroom=45, dynamic_violated=0, agnostic=23, agnostic_shared_violated=99.5,
            agnostic_split_violated=100, agnostic_shared_short=85.5, agnostic_split_short=50,
            paper=dict(PAPER[name]),
        )
        for name in PAPER
    }  # fmt: skip
    of = Shared(exact=23, shared=15, bound=None, wrong=0, seconds=1, fewer=0.35, simulated=200,
                late_or_short=0, closest=0.77)  # fmt: skip
    scale = LargePlacement(slos=1, servers=1, machines=1, bound=1, seconds=1.0, gap=0.0, wrong=0)
    sockets = Sockets(promises=1, greedy=2, exact=1, bound=1, seconds=0.1, wrong=0)
    arms = {
        "masks": CacheArm(servers=13, played=6, broken={"nat": 0}, broken_when_off=0,
                          lost={"nat": 0.0004}),
        "no masks": CacheArm(servers=12, played=6, broken={"nat": 20, "fw": 15},
                             broken_when_off=40, lost={"nat": 0.138, "fw": 0.0}),
    }  # fmt: skip
    caches = InCaches(promises=100, bound=13, wrong=0, kept_apart="masks", arms=arms)
    one_by_one = Admission(workloads=1, promises=1, median=1.0, worst=1.0, wrong=0)
    answers = Answers(
        slos=1, servers=1, machines=1, median_ms=0.1, p99_ms=0.2, worst_ms=0.3, prices_ms=1.0
    )
    return Resq(
        placement=placement, models=models(), shared={"sensitive": of}, scale=scale,
        admission=one_by_one, answers=answers, sockets={"a": sockets}, caches=caches,
    )  # fmt: skip


def test_the_page_of_the_evaluation_is_whole_and_needs_nothing_else() -> None:
    results = resq_results()
    found = rows(*small())
    text = resq_page(results, {"sensitive": found}, {"sensitive": found})
    page = Page(text)
    assert not page.open
    assert page.tags.count("svg") == 4
    assert {reference[1:] for reference in page.references} <= set(page.ids)
    assert not {"script", "link", "iframe", "img"} & set(page.tags)
    assert "prefers-color-scheme: dark" in text
    for method in METHODS:
        assert method.label in page.text
    for said in (
        "116",
        "128",
        "Every promise is kept",
        "32 ns",
        "sensitive: 3 servers",
        "100 promises of our own functions",
        "nat 13.8",
    ):
        assert said in page.text
    results.shared["sensitive"].late_or_short = 2
    assert broken_promises(results) == 2
    assert results.caches
    results.caches.arms["no masks"].broken_when_off = 41  # nobody promised that
    assert broken_promises(results) == 2
    results.caches.arms["masks"].broken_when_off = 1
    assert broken_promises(results) == 3
    results.caches = None
    assert "2 promises are not kept." in Page(resq_page(results, {}, {})).text


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("file", "options", "drawn"),
    [
        ("paper-sensitive.yaml", (), "<title>stats: 5 ways"),
        ("paper-sensitive.yaml", ("--greedy",), "stats"),
        ("shared.yaml", ("--shared",), "<title>load "),
    ],
)
def test_a_plan_is_drawn(tmp_path: Path, file: str, options: tuple[str, ...], drawn: str) -> None:
    page = tmp_path / "new" / "plan.html"
    code, said = run("plan", str(EXAMPLES / file), *options, "--report", str(page))
    assert code == 0
    text = page.read_text()
    assert not Page(text).open
    assert drawn in text
    summary = next(line for line in said.splitlines() if " servers, " in line)
    assert summary in Page(text).text


def test_a_page_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    at = tmp_path / "file" / "plan.html"
    code, said = run("plan", str(EXAMPLES / "shared.yaml"), "--shared", "--report", str(at))
    assert code != 0
    assert "cannot write" in said


def test_the_terminal_shows_rows_of_ways() -> None:
    code, said = run("plan", str(EXAMPLES / "paper-sensitive.yaml"))
    assert code == 0
    assert re.search(r"xeon +13 +9 of 9 +ddddd│ddddd│c│c│c│c│c│c│c│·", said)
    assert "a lpm, b mazunat, c snort, d stats" in said
    code, said = run("plan", str(EXAMPLES / "shared.yaml"), "--shared")
    assert "% of each core" in said
