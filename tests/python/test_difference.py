"""What has to be done so that a run becomes another: nothing more, and nothing less."""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.python.planned import EIGHT_CPUS, memifs_of, places, planned, small
from tests.python.strategies import Data, chain_files, scaled
from tests.python.test_plan import plan_or_none
from unis.chain.link import Link
from unis.chain.load import LoadedChain
from unis.chain.model import (
    Chain,
    ChainFile,
    Defaults,
    EdgePart,
    Function,
    Match,
    Platform,
    SchedulerPart,
    Traffic,
)
from unis.chain.problem import ChainFileError
from unis.engine.limits import broken
from unis.plan.difference import Difference, difference, without
from unis.plan.model import EnginePlan, FunctionPlan, Plan
from unis.plan.planner import make_plan
from unis.plan.resources import lcores as lcores_of

CHECKS = settings(max_examples=scaled(150))


def next_plan(data: Data, there: Plan, name: str | None = None) -> Plan:
    data = {**data, "name": name or there.name}
    chain = LoadedChain(Path("/somewhere/chain.yaml"), ChainFile.model_validate(data))
    return make_plan(chain, EIGHT_CPUS, [], places, there)


@st.composite
def two_files(draw: st.DrawFn) -> tuple[Data, Data]:
    """The second has some functions, chains and links of the first, whole or changed."""
    old, new = draw(chain_files()), draw(chain_files())
    if draw(st.booleans()):
        kept = {
            name: draw(st.sampled_from([function, {**function, "cpu": 5}]))
            for name, function in old["functions"].items()
        }
        rename = dict(zip(new["functions"], kept, strict=False))
        functions = {
            rename.get(name, f"{name}-new"): kept.get(rename.get(name, ""), function)
            for name, function in new["functions"].items()
        }
        for chain in new["chains"].values():
            if "path" in chain:
                chain["path"] = [rename.get(name, f"{name}-new") for name in chain["path"]]
        for link in new.get("links", []):
            for key in ("from", "to"):
                if link[key] not in ("ingress", "egress"):
                    link[key] = rename.get(link[key], f"{link[key]}-new")
        new["functions"] = functions
    else:
        parts = draw(st.sets(st.sampled_from(["links", "scheduler", "defaults"])))
        new = {**old, **{key: new[key] for key in parts - {"links"} if key in new}}
        if "links" in parts:
            new.pop("links", None)
    return old, new


def both(files: tuple[Data, Data]) -> tuple[Plan, Plan]:
    old = plan_or_none(files[0])
    assume(old)
    assert old
    if plan_or_none(files[1]) is None:
        assume(False)
    try:
        return old, next_plan(files[1], old)
    except ChainFileError:  # a name too long by a "-new"
        assume(False)
        raise


def process(function: FunctionPlan) -> Any:
    """All that a process is started with, and nothing that the engine can change."""
    lcores = [part.partition("@")[0] for part in function.lcores.split(",")]
    return replace(
        function, argv=(), argv_beside=(), cpu=0, lcores=",".join(lcores), cost_ns=None, restart=""
    )


@CHECKS
@given(chain_files())
def test_a_run_is_what_it_is(data: Data) -> None:
    plan = plan_or_none(data)
    assume(plan)
    assert plan
    again = next_plan(data, plan)
    assert again == plan
    assert not difference(plan, again)


@CHECKS
@given(two_files())
def test_the_steps_make_the_new_of_the_old(files: tuple[Data, Data]) -> None:
    old, new = both(files)
    steps = difference(old, new)
    running = {function.name: process(function) for function in old.functions}
    smaller = without(old, steps.removed_chains)
    gone = {one.name for one in old.chains} - {one.name for one in new.chains}
    assert {one.name for one in smaller.chains} == {one.name for one in old.chains} - gone
    for name in steps.ended:
        running.pop(name)
    for name in steps.started:
        assert name not in running
        running[name] = process(new.function(name))
    assert running == {function.name: process(function) for function in new.functions}
    assert bool(steps) == (replace(old, notes=()) != replace(new, notes=())) or old == new


@CHECKS
@given(two_files())
def test_what_stays_keeps_its_kind_and_nothing_is_there_twice(files: tuple[Data, Data]) -> None:
    old, new = both(files)
    steps = difference(old, new)
    before = {link.name: link for link in old.links}
    for link in new.links:
        if link.name in before:
            was = before[link.name]
            assert (was.kind, was.slots, was.details) == (link.kind, link.slots, link.details)
    of_group = [function for function in new.functions if function.group == "engine"]
    lcores = Counter(lcore for function in of_group for lcore in lcores_of(function))
    devices = Counter(port.device_name for function in of_group for port in function.ports)
    memifs = Counter(memif.buffer_bytes for memif in memifs_of(new).values())
    for numbers in (lcores, devices, memifs):
        assert all(count == 1 for count in numbers.values())
    # A client does not come back to a server that was started anew.
    assert old.with_clients(steps.ended) <= {*steps.ended}
    assert broken(without(old, steps.removed_chains).deploy({}, "id")) == []
    assert broken(new.deploy({}, "id")) == []


def changed(**parts: object) -> Difference:
    old = plan_or_none(small())
    assert old
    return difference(old, next_plan(small(**parts), old))


def told(steps: Difference) -> list[tuple[str, str, str, tuple[str, ...]]]:
    return [(one.part, one.name, one.what, one.why) for one in steps.changes]


def test_a_chain_is_added_and_what_runs_stays_as_it_is() -> None:
    functions = {**small()["functions"], "x": {"program": "sh"}}
    match = [{"dst_port": 80}]
    chains = {"new": {"path": ["x"], "match": match}, **small()["chains"]}
    steps = changed(functions=functions, chains=chains)
    assert told(steps) == [("chain", "new", "added", ()), ("function", "x", "added", ())]
    assert (steps.ended, steps.started, steps.down) == ((), ("x",), ())


def test_other_arguments_start_one_function_anew() -> None:
    functions = {**small()["functions"], "nat": {"program": "sh", "args": ["-c"]}}
    steps = changed(functions=functions)
    assert told(steps) == [("function", "nat", "started anew", ("its arguments",))]
    assert (steps.ended, steps.started, steps.down) == (("nat",), ("nat",), ("c",))


def test_a_length_that_no_ring_has_is_a_change_all_the_same() -> None:
    ends = itertools.pairwise(["ingress", *small()["functions"], "egress"])
    links = [{"from": one, "to": other, "kind": "memif"} for one, other in ends]
    old = planned(small(links=links))
    longer = {"c": {**small()["chains"]["c"], "ring": 512}}
    steps = difference(old, next_plan(small(chains=longer, links=links), old))
    ((part, name, what, (why,)),) = told(steps)
    assert (part, name, what) == ("chain", "c", "changed")
    assert why.startswith("ring: ")
    assert (steps.ended, steps.started) == ((), ())


def test_a_larger_link_starts_both_its_functions_anew_under_another_name() -> None:
    steps = changed(links=[{"from": "fw", "to": "nat", "slots": 8192}])
    why = ("the link from fw to nat of c: 2048 → 8192 slots",)
    assert told(steps) == [
        ("function", "fw", "started anew", why),
        ("function", "nat", "started anew", why),
    ]
    assert steps.ended == ("nat", "fw")


@pytest.mark.parametrize("cpu", [1, 5])
def test_a_function_moves_and_costs_something_else_without_a_restart(cpu: int) -> None:
    nat = {"program": "sh", "cpu": cpu, "cost_ns": 7, "restart": "on-failure"}
    steps = changed(functions={**small()["functions"], "nat": nat})
    moved = [("function", "nat", "moved", ("CPU 1 → 5",))] if cpu == 5 else []
    other = ("cost: as measured → 7 ns", "restart: never → on-failure")
    assert told(steps) == [*moved, ("function", "nat", "changed", other)]
    assert steps.started == ()


def test_settings_are_told_with_what_they_were() -> None:
    steps = changed(scheduler={"gamma": 0.5, "policy": "rr"}, traffic={"rate": "1Mpps"})
    assert told(steps) == [
        ("scheduler", "", "changed", ("policy: unis → rr", "gamma: auto → 0.5")),
        ("traffic", "", "changed", ("rate: max → 1Mpps",)),
    ]
    assert steps.policy
    assert not steps.refused


def test_a_client_goes_with_its_server() -> None:
    links = [
        {"from": "fw", "to": "nat", "kind": "memif"},
        {"from": "nat", "to": "monitor", "kind": "memif"},
    ]
    old = planned(small(links=links))
    other = {**small()["functions"], "nat": {"program": "sh", "args": ["-c"]}}
    steps = difference(old, next_plan(small(links=links, functions=other), old))
    assert (steps.ended, steps.started) == (("monitor", "nat"), ("nat", "monitor"))
    other = {**small()["functions"], "monitor": {"program": "sh", "args": ["-c"]}}
    steps = difference(old, next_plan(small(links=links, functions=other), old))
    assert steps.started == ("monitor",)


def test_a_function_that_died_is_started_with_the_same_file() -> None:
    old = planned(small())
    steps = difference(old, old, missing=["nat"])
    assert told(steps) == [("function", "nat", "started anew", ("it ended",))]


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ({"platform": {"cpus": [5]}}, "traffic and scheduler stay on CPU 0, 2, 3"),
        ({"traffic": {"source": {"kind": "port", "device": "net_tap0"}}}, "traffic.source stays"),
        ({"traffic": {"sink": {"kind": "port", "device": "net_tap0"}}}, "traffic.sink stays"),
    ],
)
def test_what_cannot_be_changed_is_refused_with_the_way_out(parts: Data, wanted: str) -> None:
    (sentence,) = changed(**parts).refused
    assert sentence.startswith(wanted)
    assert "`unis down x` and `unis up`" in sentence


def test_what_the_file_leaves_open_stays() -> None:
    """A chain on another CPU would leave the platform others, were it to start."""
    functions = {**small()["functions"], "x": {"program": "sh", "cpu": 4}}
    chains = {"new": {"path": ["x"], "match": [{"dst_port": 80}]}, **small()["chains"]}
    assert changed(functions=functions, chains=chains).refused == ()


# A program over memif, which nearly every field of a function may stand beside.
MEMIF: Data = {"command": ["sh", "-d", "{plugin}", "{vdev0}", "{vdev1}"], "cpu": 2, "cost_ns": 100}
RING: Data = {"program": "sh", "cpu": 2, "cost_ns": 100}

# Of each field of these parts of the model a value that changes the run.
OTHER: dict[type[BaseModel], Data] = {
    Function: {
        "program": "cat",
        "args": ["x"],
        "command": ["sh", "-v", "-d", "{plugin}", "{vdev0}", "{vdev1}"],
        "lcores": 2,
        "queues": 2,
        "may_sleep": False,
        "stdin": "x",
        "terminal": True,
        "cpu": 3,
        "cost_ns": 200,
        "yield_every": 4,
        "user": "nobody",
        "capabilities": ["net_raw"],
        "namespace": "own",
        "container": {},
        "offloads": ["rx-checksum"],
        "plugin": False,
        "telemetry": True,
        "env": {"A": "x"},
        "kernel": {"nice": 3},
        "restart": "on-failure",
    },
    SchedulerPart: {
        "policy": "rr",
        "controller": "signal",
        "gamma": 0.3,
        "theta_min": 7,
        "theta_max": 700,
        "interval_us": 3,
        "occupancy": False,
        "keep_order": False,
        "lead_us": 3,
        "max_wait_us": 700,
        "max_delay_us": 50,
        "cost": "static",
        "quota": 300,
        "idle_us": 30,
        "rr_timeslice_ms": 7,
        "fair_slice_ms": 2,
    },
    Traffic: {
        "source": {"kind": "synthetic", "flows": 7},
        "rate": "1Mpps",
        "arrivals": "poisson",
        "sink": {"kind": "port", "device": "net_null0"},
    },
    Platform: {"cpus": [5], "restart": "on-failure", "share": True},
}
_PARTS = {SchedulerPart: "scheduler", Traffic: "traffic", Platform: "platform"}
_OF_RINGS = ("program", "args", "yield_every", "plugin")  # fields that no command has


def one_function(function: Data, **parts: Data) -> Data:
    return {
        "apiVersion": "unis/v1", "name": "x", "functions": {"a": function},
        "chains": {"c": {"path": ["a"]}}, **parts,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("part", "field"),
    [(part, field) for part in OTHER for field in part.model_fields if field != "rewrites"],
)
def test_each_field_of_the_file_is_seen(part: type[BaseModel], field: str) -> None:
    function = RING if part is Function and field in _OF_RINGS else MEMIF
    other = {field: OTHER[part][field]}
    if part is Function:
        changed = one_function({**function, **other})
    else:
        rate = {"rate": "2Mpps"} if field == "arrivals" else {}
        changed = one_function(function, **{_PARTS[part]: {**rate, **other}})
    old = planned(one_function(function))
    new = next_plan(changed, old)
    found = difference(old, new)
    assert found.changes or found.refused or found.policy


ENGINE: Data = {
    "argv": ("--ports",),
    "file_prefix": "unis-y",
    "pci": ("0000:00:06.0",),
    "joins": "rte",
}


@pytest.mark.parametrize("field", [field.name for field in fields(EnginePlan)])
def test_what_only_another_engine_has_is_refused(field: str) -> None:
    old = planned(one_function(RING))
    new = replace(old, engine=replace(old.engine, **{field: ENGINE[field]}))
    (refused,) = difference(old, new).refused
    assert refused.startswith("unisd was not started with ")
    assert not difference(new, replace(new)).refused


def test_an_engine_takes_more_memory_and_any_kind_of_link() -> None:
    old = planned(small())
    kinds = [{"from": "ingress", "to": "fw", "kind": "veth"}]
    new = next_plan(small(links=kinds), old)
    found = difference(old, new)
    assert "fw" in found.started
    assert not found.refused
    more = replace(old, engine=replace(old.engine, argv=(*old.engine.argv, "--memory", "9999")))
    assert not difference(old, more).refused


@pytest.mark.parametrize("plugin", [True, False])
def test_another_plugin_is_another_process(plugin: bool) -> None:
    """Program and arguments stay."""
    old = planned(one_function({**RING, "plugin": plugin}))
    new = next_plan(one_function({**RING, "plugin": not plugin}), old)
    assert difference(old, new).started == ("a",)


def with_chain(**parts: object) -> Data:
    """A chain of two functions, with these parts of its own; another takes what is left."""
    chain = {"path": ["a", "b"], "match": [{"dst_port": 80}], "ring": 1024, **parts}
    functions = {name: {**RING, "cpu": 2} for name in "abd"}
    return {
        "apiVersion": "unis/v1", "name": "x", "functions": functions,
        "chains": {"c": {key: value for key, value in chain.items() if value is not None},
                   "d": {"path": ["a", "b", "d"]}},
    }  # fmt: skip


def with_match(**match: object) -> Data:
    return with_chain(match=[match])


def with_link(**link: object) -> Data:
    links = [{"from": "fw", "to": "nat", "slots": 1024, **link}]
    return small(links=links, scheduler={"policy": "other"})


def with_defaults(**defaults: object) -> Data:
    function = {"program": "sh"} if "yield_every" in defaults else MEMIF
    own = {key: value for key, value in function.items() if key != "cpu"}
    return one_function(own, defaults={"cpu": 1, **defaults}, platform={"cpus": [0]})


def with_edges(to_nat: Data, to_dpi: Data, from_nat: Data, from_dpi: Data) -> Data:
    """A chain that parts behind fw and meets at ids, unless other ends are stated."""
    edges = [
        {"from": "ingress", "to": "fw"},
        {"from": "fw", "to": "nat", **to_nat},
        {"from": "fw", "to": "dpi", **to_dpi},
        {"from": "nat", "to": "ids", **from_nat},
        {"from": "dpi", "to": "ids", **from_dpi},
        {"from": "ids", "to": "egress"},
    ]
    functions = {name: {"program": "sh"} for name in ("fw", "nat", "dpi", "ids")}
    return small(functions=functions, chains={"c": {"graph": edges}})


ONE, TWO = {"port": 0}, {"port": 1}
IN_ONE, IN_TWO = {"in_port": 0}, {"in_port": 1}
WEB: Data = {"match": [{"dst_port": 80}]}
TURNED = (("ingress", "b"), ("b", "a"), ("a", "egress"))
GRAPH: Data = {"path": None, "graph": [{"from": one, "to": other} for one, other in TURNED]}
MMSG: Data = {"kind": "veth", "driver": "mmsg"}
# Of each field of these parts of the model a file and another in which the field has changed.
FILES: dict[type[BaseModel], dict[str, tuple[Data, Data]]] = {
    Chain: {
        "match": (with_chain(), with_chain(match=[{"dst_port": 81}])),
        "ring": (with_chain(), with_chain(ring=2048)),
        "slo": (with_chain(), with_chain(slo={"p95_latency": "1s"})),
        "path": (with_chain(), with_chain(path=["b", "a"])),
        "graph": (with_chain(), with_chain(**GRAPH)),
        "reverse_of": (with_chain(), with_chain(path=None, reverse_of="d")),
        "kernel": (with_chain(), with_chain(kernel={"priority": 3})),
    },
    Match: {
        "src": (with_match(src="10.0.0.0/8"), with_match(src="11.0.0.0/8")),
        "dst": (with_match(dst="10.0.0.0/8"), with_match(dst="10.0.0.0/9")),
        "src_port": (with_match(src_port=80), with_match(src_port=81)),
        "dst_port": (with_match(dst_port=80), with_match(dst_port=81)),
        "protocol": (with_match(protocol="tcp"), with_match(protocol="udp")),
    },
    Link: {
        "origin": (with_link(), with_link(**{"from": "ingress", "to": "fw"})),
        "to": (with_link(), with_link(**{"from": "nat", "to": "monitor"})),
        "kind": (with_link(), with_link(kind="memif")),
        "slots": (with_link(), with_link(slots=4096)),
        "driver": (with_link(kind="veth"), with_link(**MMSG)),
        "batch": (with_link(**MMSG), with_link(**MMSG, batch=8)),
        "calls": (with_link(**MMSG), with_link(**MMSG, calls="single")),
        "wait": (with_link(**MMSG), with_link(**MMSG, wait=True)),
    },
    Defaults: {
        "cpu": (with_defaults(), with_defaults(cpu=2)),
        "user": (with_defaults(), with_defaults(user="nobody")),
        "env": (with_defaults(), with_defaults(env={"A": "x"})),
        "yield_every": (with_defaults(yield_every=2), with_defaults(yield_every=4)),
        "restart": (with_defaults(), with_defaults(restart="on-failure")),
        "kernel": (with_defaults(), with_defaults(kernel={"nice": 3})),
        "namespace": (with_defaults(), with_defaults(namespace="own")),
    },
    EdgePart: {
        "origin": (
            with_edges(ONE, TWO, {}, {}),
            with_edges({**ONE, "from": "dpi"}, {}, {}, {**TWO, "to": "ids"}),
        ),
        "to": (with_edges(ONE, TWO, {}, {}), with_edges(ONE, TWO, {"to": "dpi"}, {})),
        "port": (with_edges(ONE, TWO, {}, {}), with_edges(TWO, ONE, {}, {})),
        "in_port": (with_edges(ONE, TWO, IN_ONE, IN_TWO), with_edges(ONE, TWO, IN_TWO, IN_ONE)),
        "match": (
            with_edges(WEB, {}, {}, {}),
            with_edges({"match": [{"dst_port": 81}]}, {}, {}, {}),
        ),
        "weight": (
            with_edges({"weight": 1}, {"weight": 1}, {}, {}),
            with_edges({"weight": 1}, {"weight": 3}, {}, {}),
        ),
        "mode": (with_edges(WEB, {}, {}, {}), with_edges({"mode": "tap"}, {}, {}, {})),
    },
    ChainFile: {
        "directory": (small(), small(directory="/tmp")),  # noqa: S108
        "platform": (small(), small(platform={"restart": "on-failure"})),
        "traffic": (small(), small(traffic={"rate": "1Mpps"})),
        "scheduler": (small(), small(scheduler={"theta_min": 7})),
        "defaults": (small(), small(defaults={"cpu": 2})),
        "functions": (small(), small(functions={**small()["functions"], "nat": RING})),
        "chains": (small(), small(chains={"e": {"path": ["fw", "nat", "monitor"]}})),
        "links": (small(), small(links=[{"from": "fw", "to": "nat", "slots": 8192}])),
        "ovs": (with_link(kind="ovs"), {**with_link(kind="ovs"), "ovs": {"cpu": 1}}),
    },
}
# The first has one value; a file of another name is another run; the others are for `unis up`.
_NO_CHANGE = {(ChainFile, field) for field in ("api_version", "name", "mode", "profile")}
_ON_NICS = ("nic", "vlan", "rate", "spoof_check", "tenant", "sriov")  # test_sriov.py has them
_FIELDS = [(part, field) for part in FILES for field in part.model_fields if field not in _ON_NICS]


@pytest.mark.parametrize(("part", "field"), [one for one in _FIELDS if one not in _NO_CHANGE])
def test_each_field_of_chains_and_links_is_seen(part: type[BaseModel], field: str) -> None:
    before, after = FILES[part][field]
    old = planned(before)
    assert not difference(old, next_plan(before, old))
    assert difference(old, next_plan(after, old))


@pytest.mark.parametrize(("function", "down"), [("dpi", ()), ("ids", ("c",))])
def test_a_chain_with_branches_is_down_while_no_way_through_it_is_left(
    function: str, down: tuple[str, ...]
) -> None:
    before = with_edges(ONE, TWO, {}, {})
    functions = {**before["functions"], function: {"program": "sh", "args": ["-c"]}}
    old = planned(before)
    steps = difference(old, next_plan({**before, "functions": functions}, old))
    assert (steps.started, steps.down) == ((function,), down)


def with_splits(order: Sequence[int]) -> Data:
    """fw sends on two ports, and what leaves by each is split by weight; edges in this order."""
    edges: list[Data] = [
        {"from": "ingress", "to": "fw", "in_port": 2},
        *({"from": "fw", "to": f"f{at}", "port": at // 2, "weight": 1 + at} for at in range(4)),
        *({"from": f"f{at}", "to": "ids", "in_port": at % 2} for at in range(4)),
        {"from": "ids", "to": "egress", "port": 2},
    ]
    functions = {name: {"program": "sh"} for name in ("fw", *(f"f{at}" for at in range(4)), "ids")}
    return small(functions=functions, chains={"c": {"graph": [edges[at] for at in order]}})


@CHECKS
@given(st.permutations(range(10)), st.permutations(range(10)))
def test_in_which_order_edges_stand_changes_nothing(one: list[int], other: list[int]) -> None:
    old = planned(with_splits(one))
    again, new = (next_plan(with_splits(order), old) for order in (one, other))
    assert new == again
    assert not difference(old, new)
    assert new.deploy({}, "id") == old.deploy({}, "id")


def test_which_of_two_matches_stands_first_changes_the_splits() -> None:
    """Whatever way leads on behind them: both edges match what goes to TCP port 80."""
    wide = {"match": [{"protocol": "tcp"}]}
    behind = [{"from": "nat", "to": "dpi"}, {"from": "dpi", "to": "egress"}]
    to_dpi, to_nat = {"from": "fw", "to": "dpi", **WEB}, {"from": "fw", "to": "nat", **wide}
    rest = [{"from": "ingress", "to": "fw"}, {"from": "fw", "to": "egress"}, *behind]
    functions = {name: {"program": "sh"} for name in ("fw", "nat", "dpi")}
    for order in ([to_dpi, to_nat], [to_nat, to_dpi]):
        plan = planned(small(functions=functions, chains={"c": {"graph": [*rest, *order]}}))
        (chain,) = plan.chains
        (split,) = [one for one in chain.splits if len(one.branches) == 3]
        asked = [branch.match for branch in split.branches if branch.match]
        wanted = [tuple(map(Match.model_validate, edge["match"])) for edge in order]
        assert asked == wanted


def reasons(before: Data, after: Data) -> set[str]:
    """Why functions are started anew."""
    old = planned(before)
    changes = difference(old, next_plan(after, old)).changes
    return {why for change in changes if change.what == "started anew" for why in change.why}


def test_why_a_link_is_another_is_told_by_what_differs() -> None:
    line = [{"from": "fw", "to": "nat", "kind": kind} for kind in ("memif", "veth")]
    memif, veth = (small(links=[link]) for link in line)
    assert "the link from fw to nat of c: memif → veth" in reasons(memif, veth)
    functions = {name: {"command": ["sh"], "cpu": 1} for name in ("fw", "nat", "monitor")}
    queues = {name: {**function, "queues": 2} for name, function in functions.items()}
    told = reasons(small(functions=functions), small(functions=queues))
    assert "the link from fw to nat of c: its queues, or which functions are at its ends" in told
    assert not any("slots" in why for why in told)


def test_a_link_that_edges_share_is_told_by_its_port() -> None:
    edges = with_edges({**ONE, "weight": 1}, {**ONE, "weight": 1}, IN_ONE, IN_ONE)
    links = [
        {"from": "ingress", "to": "fw", "slots": 64},
        *({"from": "fw", "to": name, "slots": 64} for name in ("nat", "dpi")),
        *({"from": name, "to": "ids", "slots": 64} for name in ("nat", "dpi")),
    ]
    chains = {"c": {**edges["chains"]["c"], "ring": 4096}}
    told = reasons({**edges, "links": links}, {**edges, "chains": chains, "links": links})
    assert told == {
        "what leaves port 0 of fw of c: 2048 → 4096 slots",
        "what comes to port 0 of ids of c: 2048 → 4096 slots",
        "the link from ids to egress of c: 2048 → 4096 slots",
    }


def test_a_link_that_edges_share_stays_when_one_of_another_port_goes() -> None:
    before = with_splits(range(10))
    edges = [{**edge} for edge in before["chains"]["c"]["graph"] if "f1" not in edge.values()]
    edges[1].pop("weight")  # the only one that leaves by port 0 now
    functions = {name: of for name, of in before["functions"].items() if name != "f1"}
    old = planned(before)
    new = next_plan(small(functions=functions, chains={"c": {"graph": edges}}), old)
    ports = [plan.function("fw").ports for plan in (old, new)]
    assert ports[0][1].tx == ports[1][1].tx
    reasons = [one.why for one in difference(old, new).changes if one.name == "fw"]
    assert reasons == [("the links of its ports",)]
