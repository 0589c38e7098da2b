"""Chains as graphs: what a file may say, and what becomes of it."""

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.python.planned import memifs_of, planned, small, told
from tests.python.strategies import Data, scaled
from unis.chain import consistency
from unis.chain.edges import MOST_WAYS, downstream_of_taps
from unis.chain.graph import ChainGraph, Edge, Graph
from unis.chain.load import LoadedChain, load
from unis.chain.model import ChainFile
from unis.chain.problem import ChainFileError
from unis.cli.app import app
from unis.cli.config_command import graph_lines
from unis.engine.limits import broken
from unis.simulate.scenario import CostOf, MachineCosts, remarks, scenario

Edges = list[Data]
CHECKS = settings(max_examples=scaled(150))
HEAD = """apiVersion: unis/v1
name: x
defaults: {cpu: 1}
functions:
  fw: {program: sh}
  nat: {program: sh}
  dpi: {program: sh}
  ids: {program: sh}
chains:
  web:
    graph:
"""
FIRST_EDGE = HEAD.count("\n") + 1  # its line
DIAMOND: Edges = [
    {"from": "ingress", "to": "fw"},
    {"from": "fw", "to": "nat", "port": 0},
    {"from": "fw", "to": "dpi", "port": 1},
    {"from": "nat", "to": "ids"},
    {"from": "dpi", "to": "ids"},
    {"from": "ids", "to": "egress"},
]


def with_graph(edges: Edges, program: Data | None = None) -> Data:
    names = {edge[key] for edge in edges for key in ("from", "to")} - {"ingress", "egress"}
    functions = {name: program or {"program": "sh"} for name in sorted(names)}
    return small(functions=functions, chains={"c": {"graph": edges}})


def graph_of(data: Data) -> ChainGraph:
    file = ChainFile.model_validate(data)
    assert consistency.problems(file) == []
    return Graph.of(file).chains["c"]


@st.composite
def graphs(draw: st.DrawFn) -> Edges:
    """Edges of a chain whose packets all come to egress, and copies to functions of their own."""
    names = [f"f{at}" for at in range(draw(st.integers(1, 7)))]
    ends: list[tuple[str, str]] = []
    for at, name in enumerate(names):
        ends.append((draw(st.sampled_from(["ingress", *names[:at]])), name))
    for at, name in enumerate(names):
        if name not in {origin for origin, _ in ends} or draw(st.booleans()):
            ends.append((name, draw(st.sampled_from([*names[at + 1 :], "egress"]))))
    ends = list(dict.fromkeys(ends))
    edges: Edges = []
    for origin in ["ingress", *names]:
        leaving = [to for begin, to in ends if begin == origin]
        ways = ["match", "weight", *(["port"] if origin != "ingress" and len(leaving) < 8 else [])]
        how = draw(st.sampled_from(ways)) if len(leaving) > 1 else ""
        for at, to in enumerate(leaving):
            edge: Data = {"from": origin, "to": to}
            if how == "port":
                edge["port"] = at
            elif how == "weight":
                edge["weight"] = draw(st.integers(1, 9))
            elif how == "match" and at:
                edge["match"] = [{"dst_port": at}]
            edges.append(edge)
    if draw(st.booleans()):
        edges.append({"from": "f0", "to": "watch", "mode": "tap"})
        if "port" in next(edge for edge in edges if edge["from"] == "f0"):
            edges[-1]["port"] = 0
    return list(draw(st.permutations(edges)))


def as_data(edge: Edge) -> Data:
    """An edge as the file has it."""
    stated: Data = {"port": edge.out_port, "in_port": edge.in_port, "weight": edge.weight}
    stated["mode"] = "tap" if edge.tap else None
    stated["match"] = [match.model_dump(exclude_none=True) for match in edge.match] or None
    kept = {key: value for key, value in stated.items() if value is not None}
    return {"from": edge.origin, "to": edge.to, **kept}


@CHECKS
@given(graphs())
def test_a_graph_is_its_edges_in_the_order_of_packets(edges: Edges) -> None:
    data = with_graph(edges)
    file = ChainFile.model_validate(data)
    if problems := consistency.problems(file):
        assert [f"{MOST_WAYS} at most may" in found.sentence for found in problems] == [True]
        return
    graph = Graph.of(file).chains["c"]
    plain = [as_data(edge) for edge in sorted(graph.edges, key=lambda edge: edge.rank)]
    key = lambda edge: (edge["from"], edge["to"])  # noqa: E731
    assert sorted(plain, key=key) == sorted(edges, key=key)
    seen = {"ingress"}
    for edge in graph.edges:
        assert {into.origin for into in graph.into(edge.origin)} <= seen
        seen.add(edge.origin)
    assert sorted(graph.functions) == sorted(data["functions"])
    assert graph_of(with_graph(plain)).edges == graph.edges
    for way in graph.ways:
        assert way[0].origin == "ingress"
        assert way[-1].to == "egress"
        assert all(one.to == other.origin for one, other in itertools.pairwise(way))
    copies = downstream_of_taps(file.chains["c"].graph or [])
    assert {edge for way in graph.ways for edge in way} == {
        edge for edge in graph.edges if not edge.tap and edge.origin not in copies
    }
    assert len(graph_lines(graph)) == len(graph.edges)


@CHECKS
@given(graphs(), st.data())
def test_an_edge_that_goes_back_makes_a_circle(edges: Edges, data: st.DataObject) -> None:
    chain = Graph.of(ChainFile.model_validate(with_graph(edges))).chains["c"]
    way = data.draw(st.sampled_from(chain.ways))
    passed = [edge.to for edge in way if edge.to != "egress"]
    to = data.draw(st.sampled_from(passed))
    last = passed[-1]
    if (last, to) in {(edge["from"], edge["to"]) for edge in edges}:
        return
    back = [*edges, {"from": last, "to": to, "weight": 1}]
    found = consistency.problems(ChainFile.model_validate(with_graph(back)))
    assert any("is a circle" in problem.sentence for problem in found)


@CHECKS
@given(st.integers(1, 6), st.randoms(use_true_random=False), st.booleans())
def test_a_graph_without_branches_is_a_path(length: int, random: Any, shared: bool) -> None:
    path = [f"f{at}" for at in range(length)]
    functions = {name: {"program": "sh"} for name in path}
    along = [
        {"from": origin, "to": to}
        for origin, to in zip(["ingress", *path], [*path, "egress"], strict=True)
    ]
    random.shuffle(along)
    more = {"back": {"reverse_of": "other"}, "other": {"path": path, "match": [{"dst_port": 1}]}}
    rest = {"other": more["other"]} if shared else {}
    chains = [{**rest, "c": how} for how in ({"path": path}, {"graph": along})]
    files = [small(functions=functions, chains=each) for each in chains]
    graphs = [Graph.of(ChainFile.model_validate(data)) for data in files]
    assert graphs[0] == graphs[1]
    assert graphs[1].chains["c"].is_path
    assert planned(files[0]) == planned(files[1])


@CHECKS
@given(graphs())
def test_every_packet_of_a_graph_has_a_way(edges: Edges) -> None:
    file = ChainFile.model_validate(with_graph(edges))
    if consistency.problems(file) or Graph.of(file).chains["c"].is_path:
        return
    plan = planned(with_graph(edges))
    graph = Graph.of(file).chains["c"]
    (chain,) = plan.chains
    assert chain.hops == ()
    ports = {function.name: function.ports for function in plan.functions}
    carried = {split.link: [branch.to for branch in split.branches] for split in chain.splits}
    filled, emptied = Counter[str](), Counter[str]()
    for edge, stated in zip(chain.edges, graph.edges, strict=True):
        first, last = edge.links[0], edge.links[-1]
        assert edge.origin == "" or ports[edge.origin][edge.out_port].tx == first
        assert edge.to == "" or ports[edge.to][edge.in_port].rx == last
        assert edge.links == (first,) or last in carried[first]
        assert edge.origin or chain.ingress == first
        beside = len(
            [one for one in graph.out_of(stated.origin) if one.out_port == stated.out_port]
        )
        assert len(carried.get(first, [first])) == beside
        emptied.update([last] if edge.to == "" else [])
    filled[chain.ingress] += 1
    for function in plan.functions:
        for port in function.ports:
            filled.update([port.tx] if port.tx else [])
            emptied.update([port.rx] if port.rx else [])
    filled.update({to for tos in carried.values() for to in tos})  # by the engine, however often
    emptied.update(carried.keys())
    emptied.update(chain.drains)
    assert filled == emptied == Counter(link.name for link in plan.links)
    watching = [name for name in graph.functions if not graph.out_of(name)]
    assert len(chain.drains) == len(watching)


@CHECKS
@given(graphs())
def test_commands_have_a_memif_at_each_end_of_a_graph_s_edges(edges: Edges) -> None:
    if consistency.problems(ChainFile.model_validate(with_graph(edges))):
        return
    try:
        plan = planned(with_graph(edges, {"command": ["sh"]}))
    except ChainFileError as error:
        assert "ports for its chains and 8 at most" in str(error)  # noqa: PT017
        return
    memifs = memifs_of(plan)
    ends = Counter(port.rx for function in plan.functions for port in function.ports)
    assert memifs.keys() == ends.keys()
    for name, memif in memifs.items():
        assert ends[name] == (2 if memif.engine_end == "none" else 1)


def test_a_port_on_a_memif_has_one_link() -> None:
    edges: Edges = [
        {"from": "ingress", "to": "fw", "in_port": 0},
        {"from": "fw", "to": "egress", "port": 0},
    ]
    (row,) = told(with_graph(edges, {"command": ["sh"]}))
    assert row.startswith("('functions', 'fw') port 0 is on a link that carries packets both ways")
    assert planned(with_graph(edges))


def test_a_diamond_has_a_link_an_edge_and_one_for_the_merge() -> None:
    plan = planned(with_graph([*DIAMOND, {"from": "ids", "to": "watch", "mode": "tap"}]))
    request = plan.deploy({}, "id")
    assert broken(request) == []
    (chain,) = request.chains
    told = [(getattr(edge, "from"), edge.out_port, edge.to, *edge.links) for edge in chain.edges]
    merge = next(links[-1] for origin, _, to, *links in told if (origin, to) == ("nat", "ids"))
    assert ("dpi", merge) in [(origin, links[-1]) for origin, _, _, *links in told]
    splits = {getattr(split, "from"): split for split in chain.splits}
    copies = [branch.copy for split in splits.values() for branch in split.branches]
    assert sorted(copies) == [False, False, False, True]
    assert len(chain.drains) == 1


def test_links_that_edges_share_are_of_the_kind_that_edges_state() -> None:
    edges: Edges = [
        {"from": edge["from"], "to": edge["to"], **({"weight": 1} if "port" in edge else {})}
        for edge in DIAMOND
    ]
    links = [{"from": edge["from"], "to": edge["to"], "kind": "veth"} for edge in edges]
    plan = planned({**with_graph(edges), "links": links})
    assert [link.kind for link in plan.links] == ["veth"] * 8
    plan = planned({**with_graph(edges), "links": links[1:2]})  # only nat is not on rings
    assert Counter(link.kind for link in plan.links) == {"ring": 6, "veth": 1, "memif": 1}


@pytest.mark.parametrize("kinds", [("memif", "ring"), ("ring", "memif"), ("veth", "ring")])
def test_a_function_is_one_program_on_all_of_its_links(kinds: tuple[str, str]) -> None:
    links = [
        {"from": origin, "to": "ids", "kind": kind}
        for origin, kind in zip(("nat", "dpi"), kinds, strict=True)
    ]
    assert told({**with_graph(DIAMOND), "links": links}) == [
        f"('links', 1) `ids` receives on a {kinds[1]} here and on a {kinds[0]} from `nat`, and no "
        f"program opens both; state kind: {kinds[0]} here too, or leave one of both links out"
    ]


def test_links_of_several_kinds_that_one_program_opens_may_lead_to_it() -> None:
    for kinds in (("memif", "veth"), ("veth", "memif")):
        links = [
            {"from": origin, "to": "ids", "kind": kind}
            for origin, kind in zip(("nat", "dpi"), kinds, strict=True)
        ]
        plan = planned({**with_graph(DIAMOND), "links": links})
        assert plan.function("ids").group == "own"
        merge = {link.name: link.kind for link in plan.links}[plan.function("ids").ports[0].rx]
        stated = dict(zip(("nat", "dpi"), kinds, strict=True))
        first = next(edge.origin for edge in plan.chains[0].edges if edge.to == "ids")
        assert merge == stated[first]


def test_a_chain_is_up_while_a_way_through_it_is_left() -> None:
    copies: Edges = [
        {"from": "ids", "to": "watch", "mode": "tap"},
        {"from": "watch", "to": "log"},
    ]
    (chain,) = planned(with_graph([*DIAMOND, *copies])).chains
    down = [("fw",), ("ids",), ("nat", "dpi"), ("watch", "fw")]
    assert all(chain.is_down_without(missing) for missing in down)
    assert not any(chain.is_down_without(missing) for missing in [(), ("nat",), ("watch", "log")])
    line: Edges = [{"from": "ingress", "to": "a"}, {"from": "a", "to": "egress"}]
    (path,) = planned(with_graph(line)).chains
    assert path.is_down_without(["a"])
    assert not path.is_down_without([])


def problems(tmp_path: Path, *edges: str) -> list[str]:
    file = tmp_path / "chain.yaml"
    file.write_text(HEAD + "".join(f"      - {{{edge}}}\n" for edge in edges))
    with pytest.raises(ChainFileError) as caught:
        load(file)
    prefix = f"{file}:"
    return [line.removeprefix(prefix) for line in str(caught.value).splitlines()]


IN = "from: ingress, to: fw"
OUT = "from: nat, to: egress"
ALL = ["from: fw, to: nat", "from: nat, to: dpi", "from: dpi, to: ids", "from: ids, to: egress"]


@pytest.mark.parametrize(
    ("edges", "line", "sentence"),
    [
        ([IN, *ALL, "from: dpi, to: web"], 5, "graph[5].to: there is no function `web`; choose"),
        ([IN, IN, *ALL], 1, "the edge from `ingress` to `fw` stands here twice"),
        (ALL, 0, "no edge begins at ingress"),
        ([IN, *ALL[:3]], 0, "no edge leads to egress"),
        (
            [IN, *ALL, "from: dpi, to: nat, port: 1"],
            5,
            "nat → dpi → nat is a circle; packets must come to egress",
        ),
        ([IN, "from: fw, to: egress", *ALL[1:]], 2, "no packet comes to `nat`: no way leads"),
        (
            [IN, "from: fw, to: nat, weight: 1", "from: fw, to: dpi, weight: 1",
             "from: dpi, to: ids", OUT],
            3,
            "no edge begins at `ids`, so its packets go nowhere",
        ),
        (["from: ingress, to: fw, port: 1", *ALL], 0, "graph[0].port: `ingress` has no ports"),
        ([IN, *ALL[:3], "from: ids, to: egress, in_port: 1"], 4, "`egress` has no ports"),
        (
            [IN, "from: fw, to: nat, port: 1", "from: fw, to: dpi", *ALL[1:]],
            2,
            "has no port, and other edges from `fw` have; give all of them one, or none",
        ),
        (
            [IN, "from: fw, to: nat", "from: fw, to: dpi", *ALL[1:]],
            2,
            "`nat` and `dpi` are both downstream of `fw`, and nothing says which packets go where; "
            "give them a match or a weight or another port",
        ),
        (
            [IN, "from: fw, to: nat, port: 1", "from: fw, to: dpi, port: 1", *ALL[1:]],
            2,
            "are both downstream of port 1 of `fw`, and nothing says which",
        ),
        (
            [IN, "from: fw, to: nat, weight: 3", "from: fw, to: dpi", *ALL[1:]],
            2,
            "has no weight, and other edges from `fw` have; give all of them one",
        ),
        (
            [IN, "from: fw, to: nat, match: [{dst_port: 80}]",
             "from: fw, to: dpi, match: [{dst_port: 81}]", *ALL[1:]],
            2,
            "graph[2].match: packets that match no edge from `fw` have no way",
        ),
        (
            [IN, "from: fw, to: nat, match: [{dst_port: 80}]", "from: fw, to: dpi, weight: 1",
             *ALL[1:]],
            2,
            "are split by match already",
        ),
        ([IN, "from: fw, to: nat, weight: 2", *ALL[1:]], 1, "splits nothing, for this is the only"),
        ([IN, "from: fw, to: nat, mode: tap", *ALL[1:]], 1, "only copies go; add the edge that"),
        (
            [IN, *ALL, "from: fw, to: ids, mode: tap"],
            5,
            "`ids` would get packets and copies of them",
        ),
        (
            [IN, *ALL[:2], "from: dpi, to: egress", "from: fw, to: ids, mode: tap",
             "from: ids, to: egress"],
            5,
            "copies would leave at egress beside their packets",
        ),
        (
            [IN, *ALL, "from: fw, to: web, mode: tap, match: [{dst_port: 80}]"],
            5,
            "graph[5].match: goes with no mode: tap, which copies every packet from `fw`",
        ),
        (
            [IN, *ALL, "from: fw, to: web, mode: tap, weight: 2"],
            5,
            "graph[5].weight: goes with no mode: tap, which copies every packet from `fw`",
        ),
        ([IN, *ALL, "from: fw, to: dpi, weight: 0"], 5, "graph[5].weight: is `0`; must be"),
        ([IN, *ALL, "from: fw, to: dpi, mode: copy"], 5, "graph[5].mode: is `copy`; must be"),
        ([IN, "from: fw, to: nat, port: 3", *ALL[1:]], None, "fw: port 0 is on no edge"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_graph_is_told_with_its_line(
    edges: list[str], line: int | None, sentence: str, tmp_path: Path
) -> None:
    found = problems(tmp_path, *edges)
    (row,) = [row for row in found if sentence in row]
    if line is not None:
        at = FIRST_EDGE + line
        assert row.startswith((f"{at}:", f"{FIRST_EDGE - 1}:" if "no edge" in row else f"{at}:"))


def test_a_chain_is_a_path_or_a_graph_or_a_way_back() -> None:
    for chain in ({}, {"path": ["fw"], "graph": DIAMOND}):
        found = consistency.problems(ChainFile.model_validate(small(chains={"c": chain})))
        assert any("must have one of path: " in problem.sentence for problem in found)
    data = with_graph(DIAMOND)
    data["chains"]["c"]["match"] = [{"dst_port": 80}]
    data["chains"]["back"] = {"reverse_of": "c"}
    found = consistency.problems(ChainFile.model_validate(data))
    assert [problem.sentence for problem in found] == [
        "`c` has no path of its own; name a chain that has"
    ]


def test_a_graph_with_too_many_ways_is_refused() -> None:
    edges: Edges = [{"from": "ingress", "to": "s0"}]
    for at in range(7):
        edges += [
            {"from": f"s{at}", "to": f"a{at}", "port": 0},
            {"from": f"s{at}", "to": f"b{at}", "port": 1},
            {"from": f"a{at}", "to": f"s{at + 1}"},
            {"from": f"b{at}", "to": f"s{at + 1}"},
        ]
    edges.append({"from": "s7", "to": "egress"})
    found = consistency.problems(ChainFile.model_validate(with_graph(edges)))
    assert [problem.sentence for problem in found] == [
        "128 ways lead through this graph, and 64 at most may"
    ]


def test_branches_are_shown() -> None:
    assert graph_lines(graph_of(with_graph(DIAMOND))) == [
        "ingress ─→ fw",
        "fw      ┬→ nat, from port 0",
        "        └→ dpi, from port 1",
        "nat     ─→ ids",
        "dpi     ─→ ids",
        "ids     ─→ egress",
    ]


def test_ports_that_edges_state_are_those_of_the_plan() -> None:
    edges: Edges = [
        {"from": "ingress", "to": "fw", "in_port": 1},
        {"from": "fw", "to": "nat", "port": 0},
        {"from": "nat", "to": "egress", "port": 0},
    ]
    data = with_graph(edges)
    data["chains"]["c"]["match"] = [{"dst_port": 80}]
    data["chains"]["rest"] = {
        "graph": [
            {"from": "ingress", "to": "fw", "in_port": 2},
            {"from": "fw", "to": "nat", "port": 3, "in_port": 2},
            {"from": "nat", "to": "egress"},
        ]
    }
    plan = planned(data)
    hops = {
        chain.name: [(hop.in_port, hop.out_port) for hop in chain.hops] for chain in plan.chains
    }
    assert hops == {"c": [(1, 0), (1, 0)], "rest": [(2, 3), (2, 3)]}
    assert [len(function.ports) for function in plan.functions] == [4, 4]
    data["chains"]["rest"] = {"path": ["nat", "fw"]}
    found = consistency.problems(ChainFile.model_validate(data))
    assert [str(problem.location) for problem in found] == ["('chains', 'rest')"] * 2
    data["chains"]["rest"] = {"graph": edges}
    found = consistency.problems(ChainFile.model_validate(data))
    assert "port 1 of `fw` receives packets of chain `c` already" in found[0].sentence


def test_branches_become_edges_of_the_simulator() -> None:
    file = ChainFile.model_validate(
        with_graph([*DIAMOND, {"from": "ids", "to": "w", "mode": "tap"}])
    )
    chain = LoadedChain(Path("x.yaml"), file)
    costs: dict[str, CostOf] = dict.fromkeys(file.functions, 50.0)
    wire = scenario(chain, costs, "unis", 0.5, MachineCosts())
    assert broken(wire) == []
    (simulated,) = wire.chains
    told = {(getattr(edge, "from"), edge.to): (edge.port, edge.copy) for edge in simulated.edges}
    assert len(told) == len(DIAMOND) + 2
    assert told["w", "egress"] == (0, False)
    assert (told["fw", "dpi"], told["ids", "w"]) == ((1, False), (0, True))
    assert not simulated.path
    assert all(edge.capacity >= 2 for edge in simulated.edges if getattr(edge, "from") != "w")


def test_an_edge_that_passes_no_function_is_not_simulated(tmp_path: Path) -> None:
    edges = ("from: ingress, to: fw, match: [{dst_port: 80}]", "from: ingress, to: egress")
    graph = [f"      - {{{edge}}}\n" for edge in (*edges, "from: fw, to: egress")]
    unused = [f"  {name}: {{program: sh}}\n" for name in ("nat", "dpi", "ids")]
    text = HEAD + "".join(graph)
    for line in unused:
        text = text.replace(line, "")
    file = tmp_path / "chain.yaml"
    file.write_text(text)
    with pytest.raises(ChainFileError) as caught:
        scenario(load(file), {"fw": 50.0}, "unis", 0.5, MachineCosts())
    at = text.count("\n", 0, text.index(edges[1])) + 1
    said = str(caught.value)
    assert said.startswith(f"{file}:{at}: chains.web.graph[1]: passes no function, which the")


def test_functions_of_ours_choose_no_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "functions/passes-on"
    program.parent.mkdir()
    program.write_text("#!/bin/sh")
    program.chmod(0o755)
    monkeypatch.setenv("UNIS_BUILD", str(tmp_path))
    (note,) = planned(with_graph(DIAMOND, {"program": "passes-on"})).notes
    assert note == (
        "chain c: `fw` is to choose between 2 ports, but passes-on sends all packets by one; split "
        "by match or weight, or name a program that chooses"
    )
    assert planned(with_graph(DIAMOND)).notes == (), "nobody knows of others"


def test_what_the_simulator_leaves_out_is_said() -> None:
    def said(**parts: object) -> list[str]:
        return list(remarks(LoadedChain(Path("x.yaml"), ChainFile.model_validate(small(**parts)))))

    assert said() == []
    assert said(links=[{"from": "fw", "to": "nat", "kind": "memif"}]) == []
    (veth,) = said(links=[{"from": "fw", "to": "nat", "kind": "veth"}])
    assert veth.startswith("a veth drops packets by itself")
    tapped = with_graph([*DIAMOND, {"from": "ids", "to": "w", "mode": "tap"}])
    chains = {"chains": tapped["chains"], "functions": tapped["functions"]}
    splits, copies = said(**chains)
    assert splits.startswith("splits, merges and copies take no time here")
    assert copies == "Mpps count the copies that were watched too, in c"
    assert said(**{**chains, **with_graph(DIAMOND)}) == [splits]


@pytest.mark.system
@pytest.mark.parametrize(("stated", "k"), [((None, None), "8"), ((16, 4), "4, 16"), ((2, 2), "2")])
def test_between_which_yields_cooperative_is_simulated(
    stated: tuple[int | None, int | None], k: str, tmp_path: Path
) -> None:
    functions = {
        f"f{at}": {"program": "sh", "cpu": 1, "cost_ns": 50, **({"yield_every": of} if of else {})}
        for at, of in enumerate(stated)
    }
    file = tmp_path / "x.yaml"
    file.write_text(json.dumps(small(functions=functions, chains={"c": {"path": [*functions]}})))
    result = CliRunner().invoke(app, ["simulate", str(file), "--seconds", "0.01"])
    assert result.exit_code == 0, result.output
    assert f"(k = {k})" in " ".join(result.output.split())
