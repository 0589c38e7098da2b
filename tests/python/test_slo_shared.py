"""Promises on shared cores."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.resq.comparison import part_workload
from evaluation.resq.shared_cores import simulated
from tests.python.strategies import scaled
from unis.errors import UnisError
from unis.slo.cores import (
    Core,
    CoreModel,
    CoreShare,
    SharedMachine,
    SharedPlacement,
    added_by_part,
    budget_us,
)
from unis.slo.exact import exact
from unis.slo.placement import Refusal
from unis.slo.profile import Profile, Server, Slo, Workload
from unis.slo.resq_profiles import PROFILES
from unis.slo.shared import shared
from unis.slo.verify import shared_problems


def check(workload: Workload, placed: SharedPlacement) -> None:
    """By arithmetic of its own, beside the verifier's."""
    slos = {slo.name: slo for slo in workload.slos}
    got: dict[tuple[str, int], float] = {}
    for core in (core for machine in placed.machines for core in machine.cores):
        taken = 0.0
        for part in core.parts:
            slo = slos[part.slo]
            alone = slo.profile.solo_mpps * slo.profile.share(part.ways)
            assert part.load == pytest.approx(part.mpps / alone)
            limit = min(0.98, slo.profile.load_within(slo.p95_us) - workload.margin)
            taken += part.load / limit
            got[part.slo, part.at] = got.get((part.slo, part.at), 0.0) + part.mpps
        assert taken <= 1 + 1e-6
        for part, us in zip(core.parts, added_by_part(core.parts), strict=True):
            assert us <= budget_us(slos[part.slo])
    refused = {refusal.slo for refusal in placed.refused}
    for slo in workload.slos:
        for at in range(slo.count):
            if slo.name not in refused:
                assert got[slo.name, at] == pytest.approx(slo.mpps)
    assert placed.bound is None or placed.bound <= len(placed.machines)
    assert [*shared_problems(workload, placed)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "whole", "parts", "bound"),
    [("sensitive", 23, 14, 14), ("insensitive", 22, 11, 11), ("combination", 22, 12, 11)],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_parts_of_cores_take_a_third_to_half_fewer_machines(
    name: str, whole: int, parts: int, bound: int, seed: int
) -> None:
    workload = part_workload(name, seed)
    placed = shared(workload)
    check(workload, placed)
    assert len(exact(workload).machines) == whole
    assert len(placed.machines) <= parts
    assert len(placed.machines) <= 0.65 * whole  # what UNiS is to save
    assert placed.bound is not None
    assert placed.bound >= bound


@settings(max_examples=scaled(30), deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 12), st.integers(2, 18))
def test_every_placement_holds(seed: int, count: int, cores: int, ways: int) -> None:
    chance = random.Random(seed)
    slos = tuple(
        Slo(
            f"s{at}",
            profile := chance.choice([*PROFILES.values()]),
            profile.solo_mpps * chance.uniform(0.05, 1.4),
            chance.choice([20.0, 60.0, 100.0, 400.0]),
        )
        for at in range(count)
    )
    workload = Workload("random", slos, (Server("a", 10**4, cores, ways),))
    check(workload, shared(workload))


def test_what_would_make_another_late_is_not_put_beside_it() -> None:
    workload = part_workload("sensitive")
    workload = replace(workload, slos=workload.slos[::4])
    slos = {slo.name: slo for slo in workload.slos}
    placed = shared(workload)
    core = max((of for machine in placed.machines for of in machine.cores), key=lambda of: of.load)
    assert CoreModel(slos, workload.margin).holds(core.parts)
    late = {
        name: replace(slo, p95_us=slo.profile.p95_us_by_load[0][1] + 0.1)
        for name, slo in slos.items()
    }
    assert not CoreModel(late, workload.margin).holds(core.parts)


@pytest.mark.system
def test_each_core_keeps_its_promises_under_the_scheduler() -> None:
    workload = part_workload("combination")
    workload = replace(workload, slos=workload.slos[::6])
    placed = shared(workload)
    kept = simulated(workload, placed)
    assert len(kept) == sum(len(core.parts) for of in placed.machines for core in of.cores)
    assert [one for one in kept if not one.holds] == []


@pytest.mark.system
def test_a_core_that_is_too_full_is_seen_under_the_scheduler() -> None:
    profile = PROFILES["firewall"]
    slos = tuple(Slo(f"s{at}", profile, 0.6 * profile.solo_mpps, 100.0) for at in range(2))
    workload = Workload("full", slos, (Server("a", 1, 1, 4),))
    parts = [CoreShare(slo.name, 0, slo.mpps, 1, 0.6) for slo in slos]
    placed = SharedPlacement([SharedMachine("a", [Core(parts)])], (), 1, 0.0)
    assert any(not one.holds for one in simulated(workload, placed))


def test_the_verifier_finds_what_is_wrong_on_shared_cores() -> None:
    profile = PROFILES["firewall"]
    slo = Slo("s", profile, 0.5 * profile.solo_mpps, 100.0)
    workload = Workload("w", (slo,), (Server("a", 1, 1, 2, classes=3),))

    def said(*cores: Core, of: Workload = workload, server: str = "a") -> str:
        placed = SharedPlacement([SharedMachine(server, [*cores])], (), None, 0.0)
        return "; ".join(shared_problems(of, placed))

    part = CoreShare("s", 0, slo.mpps, 1, 0.5, mask=0b1)
    other = replace(part, mask=0b10)
    assert said(Core([part])) == ""
    assert "no such server" in said(Core([part]), server="b")
    assert "nobody asked for t" in said(Core([replace(part, slo="t")]))
    assert "Mpps in time of" in said(Core([replace(part, mpps=0.1)]))
    assert "2 cores of 1" in said(Core([part]), Core([other]))
    assert "3 ways of 2" in said(Core([replace(part, mask=0b110)]))
    assert "not neighbouring ways" in said(Core([replace(part, mask=0b101)]))
    assert "not neighbouring ways" in said(Core([replace(part, mask=0)]))
    assert "counts on more" in said(Core([replace(part, ways=2)]))
    assert "shares ways with another" in said(Core([replace(part, mask=0b11), other]))
    assert "more than one way each" in said(
        Core([replace(part, mask=0b11), replace(part, mask=0b11, ways=2)])
    )
    few = replace(workload, servers=(Server("a", 1, 1, 2, classes=2),))
    assert "2 classes of service besides" in said(Core([part, other]), of=few)
    assert "a core with a load of 1.00" in said(Core([part, other]))
    tight = replace(workload, slos=(replace(slo, p95_us=18.0),))  # up to 68 % of its load
    third = replace(part, mpps=0.42 * profile.solo_mpps)
    assert "of what others leave it" in said(Core([third, replace(third, mask=0b10)]), of=tight)
    late = replace(workload, slos=(replace(slo, p95_us=15.3),))
    small = replace(part, mpps=0.02 * profile.solo_mpps)
    assert "wait longer in the mean" in said(Core([small, replace(small, mask=0b10)]), of=late)
    refused = SharedPlacement([], [Refusal("s", "no")], 0, 0.0)
    assert [*shared_problems(workload, refused)] == []


def test_a_function_has_a_class_of_its_own_while_there_are_some() -> None:
    profile = PROFILES["snort"]
    slos = tuple(Slo(f"s{at}", profile, 0.1 * profile.solo_mpps, 100.0) for at in range(4))
    workload = Workload("w", slos, (Server("a", 2, 2, 8, classes=6),))

    def masks(of: Workload) -> list[list[int]]:
        placed = shared(of)
        check(of, placed)
        return [[p.mask for p in core.parts] for m in placed.machines for core in m.cores]

    assert len({mask for core in masks(workload) for mask in core}) == 4
    few = replace(workload, servers=(Server("a", 2, 2, 8, classes=3),))
    (one,) = {mask for core in masks(few) for mask in core if len(core) > 2} or {0}
    assert one.bit_count() > 2  # as many ways as there are functions in it


def test_who_counts_on_two_ways_never_shares_a_class() -> None:
    snort = PROFILES["snort"]  # passes 57 % with a way and 86 % with two
    slos = tuple(Slo(f"s{at}", snort, 0.35 * snort.solo_mpps, 100.0) for at in range(4))
    workload = Workload("w", slos, (Server("a", 9, 1, 16, classes=3),))
    placed = shared(workload)
    check(workload, placed)
    cores = [core for machine in placed.machines for core in machine.cores]
    assert [[part.ways for part in core.parts] for core in cores] == [[2, 2], [2, 2]]
    assert all(len({part.mask for part in core.parts}) == 2 for core in cores)


def test_a_promise_of_more_than_a_core_has_several_instances_and_a_bound() -> None:
    lpm = PROFILES["lpm"]
    slos = (Slo("big", lpm, 1.5 * lpm.solo_mpps, 100.0), Slo("s", lpm, lpm.solo_mpps / 3, 100.0))
    workload = Workload("w", slos, (Server("a", 9, 2, 20),))
    placed = shared(workload)
    check(workload, placed)
    assert (len(placed.machines), placed.bound) == (1, 1)
    # 11 tenths of what a machine's two cores pass: a bound of two machines, however it is cut.
    most = replace(workload, slos=(replace(slos[0], mpps=2.1 * lpm.solo_mpps),))
    assert shared(most).bound == 2


def test_one_that_is_late_with_as_many_packets_as_a_core_passes_has_more_instances() -> None:
    lazy = Profile("lazy", 0.1, (1.0,), ((0.1, 20.0), (0.95, 30.0)))  # 10 µs a packet
    slo = Slo("s", lazy, 0.09, 80.0)
    workload = Workload("w", (slo,), (Server("a", 9, 4, 8),))
    placed = shared(workload)
    check(workload, placed)
    assert sum(len(core.parts) for machine in placed.machines for core in machine.cores) > 1
    (refusal,) = shared(replace(workload, slos=(replace(slo, p95_us=22.0),))).refused
    assert "even alone on a core" in refusal.why


@pytest.mark.slow
def test_many_promises_are_placed_in_groups() -> None:
    workload = part_workload("insensitive")
    twice = tuple(replace(slo, count=2) for slo in workload.slos)
    many = replace(workload, slos=twice)
    told: list[str] = []
    placed = shared(many, report=told.append)
    check(many, placed)
    assert any("group 2 of 2" in line for line in told)
    assert placed.bound is not None
    assert placed.bound <= len(placed.machines) <= 23


def test_servers_of_several_kinds_or_too_few_are_told() -> None:
    workload = part_workload("sensitive")
    workload = replace(workload, slos=workload.slos[::4])
    (server,) = workload.servers
    with pytest.raises(UnisError, match="one kind only"):
        shared(replace(workload, servers=(server, replace(server, name="b"))))
    with pytest.raises(UnisError, match="takes 4 servers xeon, and there are 3; none takes fewer"):
        shared(replace(workload, servers=(replace(server, count=3),)))
    with pytest.raises(UnisError, match="no class of service"):
        shared(replace(workload, servers=(replace(server, classes=1),)))
    with pytest.raises(UnisError, match="of one socket only"):
        shared(replace(workload, servers=(replace(server, sockets=2),)))
    moving = replace(workload, servers=(replace(server, memory_gbps=40.0),), memory=0.5)
    with pytest.raises(UnisError, match="memory bandwidth is not looked at"):
        shared(moving)
    many = replace(workload.slos[0], profile=replace(workload.slos[0].profile, cores=2))
    with pytest.raises(UnisError, match="a function of 2 cores, and such share none"):
        shared(replace(workload, slos=(many,)))
    with pytest.raises(ValueError, match="longer than 0"):
        shared(workload, switch_us=0.0)
