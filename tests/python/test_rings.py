"""How long rings are where the chain file does not say."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.python.planned import EIGHT_CPUS, places, planned, small, wired
from tests.python.strategies import Data
from unis.chain.load import LoadedChain
from unis.chain.model import API_VERSION, ChainFile, SchedulerPart
from unis.plan.model import Plan
from unis.plan.planner import make_plan
from unis.plan.rings import Known, RingChoice, choices, gamma_choice, last_level_cache

AUTO = SchedulerPart()


def file(*, ring: int | str = "auto", controller: str = "priority", length: int = 3) -> ChainFile:
    functions = {f"f{at}": {"program": "sh", "cpu": 1} for at in range(length)}
    data = {
        "apiVersion": API_VERSION,
        "name": "x",
        "scheduler": {"controller": controller},
        "functions": functions,
        "chains": {"c": {"path": list(functions), "ring": ring}},
    }
    return ChainFile.model_validate(data)


def choice(of: ChainFile, known: Known | None = None, **there: int) -> RingChoice:
    return choices(of, wired(of), known or Known(), there)["c"]


def known(
    cost_ns: float, switch_ns: float | None = None, cache: int | None = 64 << 20, length: int = 3
) -> Known:
    return Known({f"f{at}": cost_ns for at in range(length)}, switch_ns, cache)


def test_a_size_in_the_file_is_obeyed() -> None:
    assert choice(file(ring=512), known(10)) == RingChoice(512, "stated")


def test_the_cheaper_the_functions_the_longer_the_rings() -> None:
    lengths = [choice(file(), known(cost)).slots for cost in (5000, 500, 100, 50)]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


@given(st.floats(5, 5000), st.floats(500, 100e3))
def test_little_is_lost_in_switches_and_half_as_long_would_lose_more(
    cost_ns: float, switch_ns: float
) -> None:
    slots = choice(file(), known(cost_ns, switch_ns)).slots
    assert slots & (slots - 1) == 0
    lost = [
        switch_ns / (switch_ns + length * gamma_choice(AUTO, length).value * cost_ns)
        for length in (slots, slots // 2)
    ]
    assert slots == 16384 or lost[0] <= 0.03
    assert slots == 1024 or lost[1] > 0.03


def test_handing_over_needs_shorter_rings() -> None:
    assert choice(file(controller="handover"), known(50)).slots < choice(file(), known(50)).slots


@pytest.mark.parametrize("goal", [None, "90us"])
def test_rings_are_chosen_for_the_controller_that_the_run_has(goal: str | None) -> None:
    """Where no function loads the plug-in nobody hands the CPU over."""
    functions = {name: {"command": ["sh"], "plugin": False} for name in ("fw", "nat")}
    chain = {"path": list(functions), **({"slo": {"p95_latency": goal}} if goal else {})}

    def plan(**parts: object) -> Plan:
        data = small(functions=functions, chains={"c": chain}, **parts)
        loaded = LoadedChain(Path("/somewhere/x.yaml"), ChainFile.model_validate(data))
        return make_plan(loaded, EIGHT_CPUS, (), places, known=Known())

    default, stated = plan(), plan(scheduler={"controller": "priority"})
    assert default.controller == stated.controller == "priority"
    assert default.chains[0].ring == stated.chains[0].ring
    assert (default.gamma, default.notes) == (stated.gamma, stated.notes)
    assert plan(scheduler={"controller": "handover"}).chains[0].ring != default.chains[0].ring


def test_what_is_not_known_is_said_to_be_assumed() -> None:
    assert choice(file()).why.count("assumed") == 2
    assert "assumed" not in choice(file(), known(40, 8000)).why


def test_the_cheapest_function_counts() -> None:
    costs = Known({"f0": 500, "f1": 60, "f2": 900}, 8000, 64 << 20)
    assert choice(file(), costs).why.startswith("f1 needs 60 ns")
    assert choice(file(), costs).slots == choice(file(), known(60, 8000)).slots


def test_all_rings_of_a_chain_stay_in_the_cache() -> None:
    short = choice(file(length=7), known(20, cache=4 << 20, length=7))
    assert short.slots == 2048
    assert "cache" in short.why


def test_a_chain_that_is_there_keeps_its_rings() -> None:
    assert choice(file(), known(50), c=256).slots == 256
    assert choice(file(ring=512), known(50), c=256).slots == 512


OURS = {name: {"program": "sh"} for name in ("fw", "nat", "monitor")}


@pytest.mark.parametrize(
    "parts",
    [
        {"links": [{"from": "ingress", "to": "fw", "slots": 256}]},
        {
            "functions": {
                "fw": {"command": ["sh"]},
                **{n: {"program": "sh"} for n in ("nat", "monitor")},
            }
        },
    ],
    ids=["a length stated of one link", "a memif before the first function"],
)
def test_planned_again_over_itself_a_chain_is_the_same(parts: Data) -> None:
    """Though the link that its packets come in by is not as long as its rings."""
    there = planned(small(**parts))
    assert len({link.slots for link in there.links}) > 1
    chain = LoadedChain(there.chain_file, ChainFile.model_validate(small(**parts)))
    again = make_plan(chain, EIGHT_CPUS, (), places, there)
    assert [link.slots for link in again.links] == [link.slots for link in there.links]


@pytest.mark.parametrize(("text", "size"), [("32768K", 32 << 20), ("4M", 4 << 20), ("?", None)])
def test_the_last_level_is_the_largest(tmp_path: Path, text: str, size: int | None) -> None:
    for at, said in enumerate(["32K", text] if size else [text]):
        (tmp_path / f"index{at}").mkdir()
        (tmp_path / f"index{at}" / "size").write_text(said + "\n")
    assert last_level_cache(tmp_path) == size
    assert last_level_cache(tmp_path / "nothing") is None
