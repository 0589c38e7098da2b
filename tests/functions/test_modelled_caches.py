"""Promises placed by profiles of the cache model, and held against whole machines of it."""

import shutil

import pytest

from evaluation.caches.geometry import CacheLevel, Caches
from evaluation.caches.model import Neighbour
from evaluation.resq.modelled_caches import (
    ModelledFunction,
    SideBySide,
    hungry,
    modelled,
    packed,
    workload,
)
from evaluation.resq.profile_error import with_errors
from tests.needs import need
from unis.counted.flows import Flows
from unis.slo.exact import exact

# Small, so that few flows need many ways: 32 KB a way.
CACHES = Caches("test", CacheLevel(64, 8), CacheLevel(64, 8), CacheLevel(512, 16))


@pytest.fixture(scope="module")
def guest(functions: dict[str, ModelledFunction]) -> Neighbour:
    assert functions  # Valgrind is here
    return hungry(CACHES, Flows(flows=12_000, packets=12_000))


@pytest.fixture(scope="module")
def functions() -> dict[str, ModelledFunction]:
    need(shutil.which("valgrind") is not None, "needs valgrind: apt-get install valgrind")
    return modelled(lambda _: None, CACHES, Flows(flows=3000, packets=9000))


def test_what_is_placed_by_profiles_passes_that_whatever_its_neighbours_do(
    functions: dict[str, ModelledFunction], guest: Neighbour
) -> None:
    of = workload(functions, CACHES)
    placed = exact(of)
    profiles = {slo.name: slo.profile for slo in of.slos}
    for beside in (None, guest):
        play = SideBySide(functions, (of, placed), masks=True, guest=beside, caches=CACHES)
        assert 0 < play.machines <= len(placed.machines)
        for machine in placed.machines:
            for one in machine.instances:
                profile = profiles[one.slo]
                said = profile.solo_mpps * profile.share(one.ways)
                assert play.passes(machine, one) == pytest.approx(said, rel=0.01)
        assert with_errors(of, placed, passes=play.passes).broken == 0


def test_without_masks_a_hungry_neighbour_breaks_promises(
    functions: dict[str, ModelledFunction], guest: Neighbour
) -> None:
    of = workload(functions, CACHES)
    placed = exact(of)
    play = SideBySide(functions, (of, placed), masks=False, guest=guest, caches=CACHES)
    assert with_errors(of, placed, points=0.0, passes=play.passes).broken >= 20


def test_functions_are_packed_in_turn(functions: dict[str, ModelledFunction]) -> None:
    at_will = packed(workload(functions, CACHES))
    assert [len(machine.instances) for machine in at_will.machines] == [9] * 11 + [1]
    first = [one.slo for one in at_will.machines[0].instances]
    assert first == [*functions, *functions][:9]
