"""How long packets wait for the turn of their function, held against the engine's scheduler."""

import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evaluation.resq.shared_cores import simulated
from unis.slo import polling
from unis.slo.cores import Core, CoreShare, SharedMachine, SharedPlacement, added_by_part, load_of
from unis.slo.profile import Profile, Server, Slo, Workload
from unis.slo.resq_profiles import PROFILES


def core_of(*parts: tuple[float, float]) -> list[CoreShare]:
    """Functions with such loads, whose packets take so many µs."""
    return [CoreShare(f"s{at}", 0, load / us, 1, load) for at, (load, us) in enumerate(parts)]


def test_one_alone_waits_for_its_own_packets_only() -> None:
    (one,) = added_by_part(core_of((0.5, 1.0)))
    (same,) = added_by_part(core_of((0.5, 1.0)), switch_us=100.0)
    assert one == same
    assert added_by_part(core_of((0.5, 2.0))) == pytest.approx([2 * one])


def test_a_full_core_makes_packets_wait_for_ever() -> None:
    assert added_by_part(core_of((0.6, 1.0), (0.4, 1.0))) == [float("inf")] * 2


@given(st.lists(st.tuples(st.floats(0.02, 0.5), st.floats(0.1, 6.0)), min_size=2, max_size=6))
def test_less_work_and_a_faster_switch_make_nobody_later(parts: list[tuple[float, float]]) -> None:
    assume(sum(load for load, _ in parts) < 0.95)
    core = core_of(*parts)
    all_of = added_by_part(core)
    assert all(less < more for less, more in zip(added_by_part(core, 1.0), all_of, strict=True))
    without = added_by_part(core[1:])
    if len(core) > 2:
        assert all(less < more for less, more in zip(without, all_of[1:], strict=True))


@given(st.lists(st.tuples(st.floats(0.02, 0.3), st.floats(0.1, 6.0)), min_size=1, max_size=3))
def test_many_cores_at_once_are_as_each_alone(parts: list[tuple[float, float]]) -> None:
    core = core_of(*parts)
    load = sum(part.load for part in core)
    squares = sum(part.load**2 for part in core)
    work = sum(part.load * part.work_us for part in core)
    longest = max(part.work_us for part in core)
    alike = [np.full(3, of) for of in (core[0].load, core[0].work_us, load, squares, work, longest)]
    own, us, of_all, of_squares, of_work, most = alike
    late = polling.added_us(own, us, of_all, of_squares, of_work, most, len(core))
    assert late == pytest.approx([added_by_part(core)[0]] * 3)


@pytest.mark.parametrize("own", [0.05, 0.2, 0.35, 0.5])
@pytest.mark.parametrize("variance", [0.01, 0.2, 0.6, 0.95])
def test_the_fit_is_as_what_is_drawn(own: float, variance: float) -> None:
    """(U + ρi) G for who comes while the core is away; ρi of that for who comes in its turn, …"""
    draw = np.random.default_rng(1)
    count = 400_000
    turn = np.floor(np.log(draw.random(count)) / np.log(own))
    away = draw.gamma(1 / variance, variance, count)
    drawn = np.quantile((draw.random(count) + own) * away * own**turn, 0.95)
    assert polling.p95_of_turns(own, variance) == pytest.approx(drawn, rel=0.04)


def at_the_brink(chance: random.Random, count: int) -> list[tuple[list[CoreShare], list[Slo]]]:
    """Random cores, as full as their promises allow by the model."""
    cores = []
    for number in range(count):
        profiles = [
            chance.choice([*PROFILES.values()]) for _ in range(chance.choice([2, 2, 3, 4, 6]))
        ]
        ways = [chance.randint(1, len(profile.share_by_ways)) for profile in profiles]
        weights = [chance.uniform(0.1, 0.6) for _ in profiles]
        p95_us = chance.choice([70.0, 100.0, 100.0, 160.0])

        def core(
            scale: float, of: list[Profile] = profiles, ways: list[int] = ways,
            weights: list[float] = weights, number: int = number,
        ) -> list[CoreShare]:  # fmt: skip
            rates = [
                scale * weight * profile.solo_mpps * profile.share(way)
                for weight, profile, way in zip(weights, of, ways, strict=True)
            ]
            slos = [Slo("", profile, rate, 1.0) for profile, rate in zip(of, rates, strict=True)]
            return [
                CoreShare(f"core{number} {at}", 0, rate, way, load_of(slo, rate, way))
                for at, (rate, way, slo) in enumerate(zip(rates, ways, slos, strict=True))
            ]

        def late(
            parts: list[CoreShare], of: list[Profile] = profiles, p95_us: float = p95_us
        ) -> bool:
            budgets = [p95_us - one.p95_us_by_load[0][1] + 1 / one.solo_mpps for one in of]
            added = added_by_part(parts)
            full = sum(part.load for part in parts) > 0.95
            return full or any(us > budget for us, budget in zip(added, budgets, strict=True))

        low, high = 0.0, 1 / sum(weights)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if late(core(middle)) else (middle, high)
        parts = core(low)
        slos = [
            Slo(part.slo, profile, part.mpps, p95_us)
            for part, profile in zip(parts, profiles, strict=True)
        ]
        cores.append((parts, slos))
    return cores


@pytest.mark.system
def test_no_random_core_is_later_under_the_scheduler_than_the_model_says() -> None:
    cores = at_the_brink(random.Random(3), 40)
    workload = Workload(
        "brink", tuple(slo for _, slos in cores for slo in slos), (Server("a", 1, 40, 18),)
    )
    placed = SharedPlacement([SharedMachine("a", [Core(parts) for parts, _ in cores])], (), 1, 0.0)
    kept = simulated(workload, placed)
    assert [one for one in kept if not one.holds] == []
    # Nor is the model far from it: of the latest of each core.
    at = iter(kept)
    worst = [max(next(at).p95_us / slo.p95_us for slo in slos) for _, slos in cores]
    assert np.median(worst) > 0.8
