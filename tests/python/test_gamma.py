"""γ, where the chain file does not say it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.python.planned import EIGHT_CPUS, places, planned, small
from unis.chain.load import LoadedChain
from unis.chain.model import API_VERSION, ChainFile, SchedulerPart
from unis.plan.delay import Delays
from unis.plan.gamma import gamma_choice, gamma_of
from unis.plan.planner import make_plan
from unis.plan.rings import Known
from unis.plan.wiring import wire

AUTO = SchedulerPart()
NAMES = ("fw", "nat", "monitor")


def test_what_the_file_states_is_obeyed() -> None:
    stated = SchedulerPart(gamma=0.4)
    assert gamma_choice(stated, 1024, 20, 10_000).value == 0.4
    assert planned(small(scheduler={"gamma": 1})).deploy({}, "").scheduler.gamma == 1


@given(st.integers(7, 14), st.floats(5, 2000), st.floats(200, 100e3))
def test_it_leaves_room_for_what_is_sent_during_a_switch(
    power: int, cost_ns: float, switch_ns: float
) -> None:
    slots = 1 << power
    gamma = gamma_of(AUTO, slots, cost_ns, switch_ns)
    assert 0.75 <= gamma <= 0.95
    room = slots * (1 - gamma)
    if gamma > 0.75:
        assert room >= switch_ns / cost_ns - 0.006 * slots  # it is rounded
    if 0.75 < gamma < 0.95:
        assert room <= switch_ns / cost_ns + 0.006 * slots
    assert gamma_of(AUTO, 2 * slots, cost_ns, switch_ns) >= gamma


def test_the_shortest_link_and_the_cheapest_function_count() -> None:
    def found(**parts: object) -> float:
        chain = LoadedChain(planned(small()).chain_file, ChainFile.model_validate(small(**parts)))
        known = Known({"fw": 40, "nat": 20, "monitor": 500}, 10_000)
        return make_plan(chain, EIGHT_CPUS, (), places, None, known).gamma.value

    priority = {"controller": "priority"}
    ring = {"c": {"path": list(NAMES), "ring": 4096}}
    assert found(scheduler=priority, chains=ring) == round(1 - 500 / 4096, 2)
    short = [{"from": "fw", "to": "nat", "slots": 2048}]
    assert found(scheduler=priority, chains=ring, links=short) == round(1 - 500 / 2048, 2)


def test_a_run_keeps_it_when_its_costs_become_known() -> None:
    parts = {"scheduler": {"controller": "priority"}, "chains": {"c": {"path": list(NAMES)}}}
    there = planned(small(**parts))
    known = Known(dict.fromkeys(NAMES, 11.0), 10_000)

    def again(**scheduler: object) -> float:
        of = small(**{**parts, "scheduler": {"controller": "priority", **scheduler}})
        chain = LoadedChain(there.chain_file, ChainFile.model_validate(of))
        return make_plan(chain, EIGHT_CPUS, (), places, there, known).gamma.value

    assert again() == there.gamma.value
    assert again(gamma=0.5) == 0.5


@pytest.mark.parametrize(
    ("kinds", "links"),
    [
        ("rr", [("f0", "f1", "ring", 512)]),
        ("mm", [("f0", "f1", "memif", 256)]),
        ("mm", [("f1", "f0", "memif", 256)]),
        ("rm", [("f0", "f1", "memif", 256), ("ingress", "f0", "ring", 128)]),
        ("mr", [("ingress", "f0", "memif", 512), ("f1", "egress", "ring", 256)]),
    ],
    ids=["rings", "memif", "memif of the way back", "ring to memif", "memif to ring"],
)
def test_the_model_of_delays_knows_the_links_that_are_made(
    kinds: str, links: list[tuple[str, str, str, int]]
) -> None:
    """There and back, with lengths stated for one of both ways."""
    functions = {
        f"f{at}": {"program": "sh", "cpu": 1} if kind == "r" else {"command": ["sh"], "cpu": 1}
        for at, kind in enumerate(kinds)
    }
    of = {
        "apiVersion": API_VERSION,
        "name": "x",
        "functions": functions,
        "chains": {"there": {"path": list(functions)}, "back": {"reverse_of": "there"}},
        "links": [
            {"from": origin, "to": to, "kind": kind, "slots": slots}
            for origin, to, kind, slots in links
        ],
    }
    file = ChainFile.model_validate(of)
    slots = {"there": 2048, "back": 1024}
    wired = wire(file, places("x").directory, slots)
    delays = Delays(file, dict.fromkeys(functions, 50.0), 2000)
    for chain in file.chains:
        for ends, passed in zip(file.boundaries(chain), wired.stretches[chain], strict=True):
            made = {wired.links[name].kind: wired.links[name].slots for name in passed}
            assert delays.lengths(chain, ends, slots) == made
