"""Promises under profiles that are off: the margin makes good what the paper's profiles may be."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.resq.comparison import WORKLOADS, paper_workload
from evaluation.resq.profile_error import stated, with_errors
from unis import built
from unis.slo.exact import exact
from unis.slo.greedy import greedy
from unis.slo.model import load
from unis.slo.placement import Instance, PlacedMachine
from unis.slo.profile import Profile, Server, Slo, Workload

MEMORY = built.clone() / "examples" / "slo" / "memory.yaml"


@pytest.mark.parametrize("name", [*WORKLOADS, "memory"])
def test_a_point_and_a_half_breaks_no_promise(name: str) -> None:
    workload = load(MEMORY) if name == "memory" else paper_workload(name)
    for placed in (exact(workload), greedy(workload)):
        worst = with_errors(workload, placed)
        assert worst.promises == sum(slo.count for slo in workload.slos)
        assert worst.instances == sum(len(machine.instances) for machine in placed.machines)
        assert worst.broken == 0
        assert worst.closest <= 1
        for seed in range(20):
            drawn = with_errors(workload, placed, seed=seed)
            assert drawn.broken == 0
            assert drawn.highest_load <= worst.highest_load


def test_without_a_margin_a_promise_of_all_that_is_passed_is_broken() -> None:
    profile = Profile("nf", 1.0, (0.6, 0.8), ((0.1, 10.0), (0.9, 20.0)))
    slos = (Slo("s", profile, 0.9 * 0.8, 20.0, 20),)
    workload = Workload("w", slos, (Server("a", 20, 1, 2),), margin=0.0)
    placed = exact(workload)
    assert with_errors(workload, placed, points=0.0).broken == 0
    assert with_errors(workload, placed).broken == 20
    assert 0 < with_errors(workload, placed, seed=1).broken < 20  # some pass more


def test_another_truth_than_the_profile() -> None:
    """A curve that somebody else measured takes the place of what is stated."""
    workload = paper_workload("sensitive")
    placed = exact(workload)

    profiles = {slo.name: slo.profile for slo in workload.slos}

    def tenth_less(_: PlacedMachine, instance: Instance) -> float:
        return 0.9 * stated(profiles[instance.slo], instance.ways)

    assert with_errors(workload, placed, passes=tenth_less).broken > 0


@settings(deadline=None)
@given(share=st.floats(0.05, 1.0), reach=st.floats(0.2, 1.0), p95_us=st.floats(11.0, 30.0))
def test_three_points_of_load_make_good_as_many_of_throughput_as_docs_say(
    share: float, reach: float, p95_us: float
) -> None:
    """Where it passes half of what it passes alone, or more: 3 points of load are 1.5 of that."""
    profile = Profile("nf", 1.0, (share,), ((0.1, 10.0), (reach, 20.0)))
    load = profile.load_within(p95_us) - 0.03
    if load <= 0:
        return
    slos = (Slo("s", profile, share * load, p95_us),)
    workload = Workload("w", slos, (Server("a", 1, 1, 1),))
    outcome = with_errors(workload, exact(workload))
    assert outcome.promises == 1
    if share >= 0.5:
        assert outcome.broken == 0


def test_where_a_function_passes_little_with_few_ways_the_margin_is_too_small() -> None:
    profile = Profile("nf", 1.0, (0.2,), ((0.1, 10.0), (0.9, 20.0)))
    workload = Workload("w", (Slo("s", profile, 0.2 * 0.87, 20.0),), (Server("a", 1, 1, 1),))
    assert with_errors(workload, exact(workload)).broken == 1
