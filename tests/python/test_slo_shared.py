"""Promises on shared cores."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unis.bench.resq import part_workload
from unis.bench.shared_cores import simulated
from unis.errors import UnisError
from unis.slo.exact import exact
from unis.slo.library import PROFILES
from unis.slo.profile import Server, Slo, Workload
from unis.slo.shared import (
    Core,
    Part,
    SharedMachine,
    SharedPlacement,
    holds,
    p95_us,
    shared,
    wait_us,
)
from unis.slo.verify import shared_problems


def check(workload: Workload, placed: SharedPlacement) -> None:
    """By arithmetic of its own."""
    slos = {slo.name: slo for slo in workload.slos}
    got: dict[tuple[str, int], float] = {}
    for machine in placed.machines:
        server = next(of for of in workload.servers if of.name == machine.server)
        assert len(machine.cores) <= min(server.cores, server.classes - 1)
        assert sum(part.ways for core in machine.cores for part in core.parts) <= server.ways
        for core in machine.cores:
            load = 0.0
            for part in core.parts:
                profile = slos[part.slo].profile
                load += part.mpps / (profile.solo_mpps * profile.share(part.ways))
                got[part.slo, part.at] = got.get((part.slo, part.at), 0.0) + part.mpps
            assert load <= 1
            turns = 1.5 * len(core.parts) if len(core.parts) > 1 else 0.0
            work = sum(part.mpps * (part.load / part.mpps) ** 2 for part in core.parts)
            wait = (work + turns) / (2 * (1 - load))
            for part in core.parts:
                slo = slos[part.slo]
                away = load * (1 - part.load) / sum(of.load * (1 - of.load) for of in core.parts)
                assert slo.profile.latency_us[0][1] + 4 * away * wait <= slo.p95_us + 1e-9
                assert slo.profile.load_within(slo.p95_us) >= load + workload.margin - 1e-9
    refused = {refusal.slo for refusal in placed.refused}
    for slo in workload.slos:
        for at in range(slo.count):
            if slo.name not in refused:
                assert got[slo.name, at] == pytest.approx(slo.mpps)
    assert placed.bound is None or placed.bound <= len(placed.machines)
    assert not [*shared_problems(workload, placed)]


@pytest.mark.parametrize(
    ("name", "whole", "parts"),
    [("sensitive", 23, 15), ("insensitive", 22, 11), ("combination", 22, 12)],
)
def test_parts_of_cores_take_a_third_to_half_fewer_machines(
    name: str, whole: int, parts: int
) -> None:
    workload = part_workload(name)
    placed = shared(workload)
    check(workload, placed)
    assert len(exact(workload).machines) == whole
    assert len(placed.machines) <= parts


@settings(max_examples=30, deadline=None)
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


def test_a_full_core_makes_packets_wait_for_ever() -> None:
    one = Part("a", 0, 0.5, 1, 0.5)  # packets of 1 µs
    other = Part("b", 0, 0.25, 1, 0.25)
    assert wait_us(one, [one]) == pytest.approx(0.5)  # as M/D/1
    both = [wait_us(of, [one, other]) for of in (one, other)]
    assert both[1] == pytest.approx(1.5 * both[0])
    # As all of them together: 0.75 µs of work in front, and a round of 3 µs.
    assert (2 * both[0] + both[1]) / 3 == pytest.approx((0.75 + 3) / 0.5)
    assert wait_us(one, [one, one]) == float("inf")
    profile = PROFILES["snort"]
    assert p95_us(one, [one], profile) == pytest.approx(25.8 + 4 * 0.5)


def test_what_would_make_another_late_is_not_put_beside_it() -> None:
    workload = part_workload("sensitive")
    slos = {slo.name: slo for slo in workload.slos}
    placed = shared(workload)
    core = max((of for machine in placed.machines for of in machine.cores), key=lambda of: of.load)
    assert holds(core.parts, slos, workload.margin)
    late = {
        name: replace(slo, p95_us=slo.profile.latency_us[0][1] + 0.1) for name, slo in slos.items()
    }
    assert not holds(core.parts, late, workload.margin)


def test_each_core_keeps_its_promises_under_the_scheduler() -> None:
    workload = part_workload("combination")
    workload = replace(workload, slos=workload.slos[::6])
    placed = shared(workload)
    kept = simulated(workload, placed)
    assert len(kept) == sum(len(core.parts) for of in placed.machines for core in of.cores)
    assert [one for one in kept if not one.holds] == []


def test_a_core_that_is_too_full_is_seen_under_the_scheduler() -> None:
    profile = PROFILES["firewall"]
    slos = tuple(Slo(f"s{at}", profile, 0.6 * profile.solo_mpps, 100.0) for at in range(2))
    workload = Workload("full", slos, (Server("a", 1, 1, 4),))
    parts = [Part(slo.name, 0, slo.mpps, 1, 0.6) for slo in slos]
    placed = SharedPlacement([SharedMachine("a", [Core(parts)])], (), 1, 0.0)
    assert any(not one.holds for one in simulated(workload, placed))


def test_the_verifier_finds_what_is_wrong_on_shared_cores() -> None:
    profile = PROFILES["firewall"]
    slo = Slo("s", profile, 0.5 * profile.solo_mpps, 100.0)
    workload = Workload("w", (slo,), (Server("a", 1, 1, 2),))

    def said(*cores: Core) -> str:
        placed = SharedPlacement([SharedMachine("a", [*cores])], (), None, 0.0)
        return "; ".join(shared_problems(workload, placed))

    part = Part("s", 0, slo.mpps, 1, 0.5)
    assert said(Core([part])) == ""
    assert "Mpps of" in said(Core([replace(part, mpps=0.1)]))
    assert "2 cores" in said(Core([part]), Core([part]))
    assert "more than its 2 ways" in said(Core([replace(part, ways=3)]))
    assert "with a load of 1.00" in said(Core([part, part]))
    late = replace(workload, slos=(replace(slo, p95_us=15.3),))
    placed = SharedPlacement([SharedMachine("a", [Core([part])])], (), None, 0.0)
    assert "waits for longer" in "; ".join(shared_problems(late, placed))


def test_servers_of_several_kinds_or_too_few_are_told() -> None:
    workload = part_workload("sensitive")
    (server,) = workload.servers
    with pytest.raises(UnisError, match="one kind only"):
        shared(replace(workload, servers=(server, replace(server, name="b"))))
    with pytest.raises(UnisError, match="takes 15 servers xeon, and there are 3; none takes fewer"):
        shared(replace(workload, servers=(replace(server, count=3),)))
    whole = (Slo("s", PROFILES["lpm"], 1.5 * PROFILES["lpm"].solo_mpps, 100.0),)
    assert shared(replace(workload, slos=whole)).bound is None
