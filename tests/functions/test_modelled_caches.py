"""Promises placed by profiles of the cache model, and held against whole machines of it."""

import shutil

import pytest

from tests.needs import need
from unis.bench.modelled_caches import Modelled, SideBySide, modelled, packed, workload
from unis.profile.machine_caches import Caches, Level
from unis.profile.references import Flows
from unis.slo.exact import exact
from unis.slo.profile_error import with_errors

# Small, so that few flows need many ways: 32 KB a way.
CACHES = Caches("test", Level(64, 8), Level(64, 8), Level(512, 16))


@pytest.fixture(scope="module")
def functions() -> dict[str, Modelled]:
    need(shutil.which("valgrind") is not None, "needs valgrind: apt-get install valgrind")
    return modelled(lambda _: None, CACHES, Flows(flows=3000, packets=9000))


def test_what_is_placed_by_profiles_passes_that_beside_its_neighbours(
    functions: dict[str, Modelled],
) -> None:
    of = workload(functions, CACHES)
    placed = exact(of)
    play = SideBySide(functions, (of, placed), masks=True, caches=CACHES)
    assert 0 < play.machines <= len(placed.machines)
    profiles = {slo.name: slo.profile for slo in of.slos}
    for machine in placed.machines:
        for one in machine.instances:
            profile = profiles[one.slo]
            said = profile.solo_mpps * profile.share(one.ways)
            assert play.passes(machine, one) == pytest.approx(said, rel=0.01)
    assert with_errors(of, placed, passes=play.passes).broken == 0


def test_what_is_packed_without_a_look_at_the_cache_does_not(
    functions: dict[str, Modelled],
) -> None:
    of = workload(functions, CACHES)
    at_will = packed(of)
    assert sum(len(machine.instances) for machine in at_will.machines) == 100
    play = SideBySide(functions, (of, at_will), masks=False, caches=CACHES)
    broken = with_errors(of, at_will, points=0.0, passes=play.passes).broken
    assert 20 <= broken < 100, "not those that need little, as firewall and macswap"
