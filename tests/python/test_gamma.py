"""γ, where the chain file does not say it."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tests.python.planned import EIGHT_CPUS, places, planned, small
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile, SchedulerPart
from unis.links.kind import BATCH
from unis.plan.planner import make_plan
from unis.plan.rings import Known, gamma_choice

AUTO = SchedulerPart()
NAMES = ("fw", "nat", "monitor")


def test_what_the_file_states_is_obeyed() -> None:
    stated = SchedulerPart(gamma=0.4)
    assert gamma_choice(stated, 1024).value == 0.4
    assert planned(small(scheduler={"gamma": 1})).deploy({}, "").scheduler.gamma == 1


@given(st.integers(8, 20))
def test_a_turn_of_whole_bursts_finds_room(power: int) -> None:
    slots = 1 << power
    gamma = gamma_choice(AUTO, slots).value
    assert 0.75 <= gamma <= 0.95
    holds = slots - 1  # of a ring
    assert math.ceil(gamma * holds / BATCH) * BATCH <= holds
    assert gamma_choice(AUTO, 2 * slots).value >= gamma
    assert slots < 2048 or gamma > 0.9


def test_the_shortest_link_of_a_function_counts() -> None:
    def found(**parts: object) -> float:
        return planned(small(**parts)).gamma.value

    ring = {"c": {"path": list(NAMES), "ring": 4096}}
    assert found(chains=ring) == 0.95
    assert found(chains=ring, scheduler={"controller": "priority"}) == 0.95
    short = [{"from": "fw", "to": "nat", "slots": 1024}]
    assert found(chains=ring, links=short) == round(1 - 128 / 1024, 2)


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
