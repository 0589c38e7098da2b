"""Memory bandwidth as a second dimension: profiles, plans, words, and the verifier itself."""

from dataclasses import replace

import pytest

from evaluation.resq.comparison import paper_workload
from unis.slo.exact import exact
from unis.slo.explain import costs, given_away, kept
from unis.slo.greedy import greedy
from unis.slo.placement import Instance, PlacedMachine, Placement
from unis.slo.profile import (
    ImpossibleProfileError,
    Profile,
    Server,
    Slo,
    Workload,
    only_ways_and_cores,
)
from unis.slo.resq_profiles import PROFILES
from unis.slo.sockets import SocketProblem, problem_of
from unis.slo.splits import CannotBeKeptError, draws, pace, rates
from unis.slo.verify import problems

FLAT = ((0.5, 10.0), (1.0, 20.0))
HUNGRY = Profile(
    "hungry",
    2.0,
    (0.5, 1.0),
    FLAT,
    gbps_by_ways=(4.0, 2.0),
    share_by_memory=((0.5, 0.8), (1.0, 0.5)),
)


def test_a_function_is_as_slow_as_memory_may_be_used() -> None:
    slo = Slo("s", HUNGRY, 1.0, 20.0)
    assert pace(slo, 0.0) == (1.0, 1.0)
    assert HUNGRY.share_at(0.25) == pytest.approx(0.9)
    # 80 % of the throughput, and packets take as much longer: 20 µs are what 16 are alone.
    assert pace(slo, 0.0, 0.5) == pytest.approx((0.8, 0.8))
    assert rates(slo, 0.0, 3, 0.5) == pytest.approx((0.64, 1.28, 1.28))
    assert draws(slo, 0.0, 3, 0.5) == pytest.approx((2.56, 1.28, 1.28))


def test_more_ways_than_are_minimal_save_bandwidth() -> None:
    """Ways are plenty: two for each instance, which then moves a quarter a packet."""
    slos = (Slo("s", HUNGRY, 0.6, 20.0, 4),)
    workload = Workload("w", slos, (Server("a", 9, 8, 8, memory_gbps=4.8),), 0.0, 0.5)
    placed, first_fit = exact(workload), greedy(workload)
    assert len(placed.machines) == placed.bound == 1
    assert {of.ways for of in placed.machines[0].instances} == {2}
    assert len(first_fit.machines) == 4  # has one way each, and 2.4 GB/s
    assert not [*problems(workload, placed)]
    assert not [*problems(workload, first_fit)]
    assert given_away(workload, placed)["memory bandwidth for functions"] == pytest.approx(1.0)


def test_what_one_instance_would_move_too_much_for_is_split() -> None:
    slos = (Slo("s", HUNGRY, 1.2, 20.0),)
    workload = Workload("w", slos, (Server("a", 9, 8, 2, memory_gbps=1.3),), 0.0, 0.5)
    placed = exact(workload)
    assert not placed.refused
    assert not [*problems(workload, placed)]
    assert len(placed.machines) == 2
    assert not greedy(workload).refused


def test_a_split_that_the_relaxed_program_does_without_is_found() -> None:
    """Half of 1+1, which moves too much, and half of 2+2, too wide, look as good as 2+1."""
    profile = Profile(
        "nf", 0.5, (0.3,), FLAT, gbps_by_ways=(1.2, 0.0), share_by_memory=((0.4, 0.6), (0.9, 0.6))
    )
    server = Server("a", 9, 3, 3, 3, memory_gbps=2.0)
    workload = Workload("w", (Slo("s", profile, 0.13, 25.0),), (server,), 0.0, 0.5)
    placed = exact(workload)
    assert len(placed.machines) == placed.bound == 1
    assert not [*problems(workload, placed)]


def test_what_is_not_known_of_memory_is_not_assumed() -> None:
    servers = (Server("a", 9, 9, 18, memory_gbps=10.0),)

    def why(profile: Profile) -> str:
        workload = Workload("w", (Slo("s", profile, 0.1, 100.0),), servers, memory=0.65)
        for placed in (exact(workload), greedy(workload)):
            assert not placed.refused[0].tried
            assert not placed.machines
        return placed.refused[0].why

    assert "stats has no gbps_by_ways" in why(PROFILES["stats"])
    known = replace(PROFILES["stats"], gbps_by_ways=(1.0,))
    assert "no percent_by_memory at all: what it passes where 65%" in why(known)
    assert "no percent_by_memory beyond 50%" in why(replace(known, share_by_memory=((0.5, 0.9),)))
    with pytest.raises(ValueError, match="a: the bandwidth of its memory is not known"):
        Workload("w", (), (Server("a", 9, 9, 18),), memory=0.5)
    with pytest.raises(ValueError, match="95%"):
        Workload("w", (), servers, memory=0.95)
    with pytest.raises(CannotBeKeptError):
        rates(Slo("s", HUNGRY, 0.1, 11.0), 0.0, 2, 0.5)


# How fast memory is accessed, %, by the part of its bandwidth in use, %: ResQ, Fig. 3, a straight
# line up to 90 %. A function that did nothing but wait for memory would pass so much.
PERCENT_OF_MEMORY_SPEED = {0: 100.0, 20: 92.5, 40: 86.0, 60: 80.0, 80: 73.5, 90: 67.0}


def test_no_function_of_the_figure_is_slower_than_memory() -> None:
    for name in ("efficuts", "firewall", "mazunat", "snort", "suricata"):
        for used, speed in PERCENT_OF_MEMORY_SPEED.items():
            share = PROFILES[name].share_at(used / 100)
            assert share is not None
            assert share >= speed / 100
    assert PROFILES["mazunat"].share_at(0.91) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ({"cores": 0}, "0 cores"),
        ({"gbps_by_ways": (1.0, -1.0)}, "with 2 ways it moves -1 GB/s"),
        ({"share_by_memory": ((0.5, 0.8), (0.4, 0.7))}, "0.4 does not follow 0.5"),
        ({"share_by_memory": ((0.5, 0.8), (0.6, 0.9))}, "passes 0.9 of"),
        ({"share_by_memory": ((1.5, 0.8),)}, "from 0 to 1"),
        ({"share_by_memory": ((0.5, 0.0),)}, "not above 0"),
    ],
)
def test_profiles_that_cannot_be_are_refused(of: dict[str, object], said: str) -> None:
    with pytest.raises(ImpossibleProfileError, match=said):
        Profile("nf", 1.0, (1.0,), FLAT, **of)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- words


def test_what_it_costs_is_told() -> None:
    slos = (Slo("s", HUNGRY, 0.6, 20.0, 4),)
    workload = Workload("w", slos, (Server("a", 9, 4, 4, 16, 2, 4.8),), 0.0, 0.5)
    placed = exact(workload)
    slowed, away = costs(workload, placed)
    assert "use 50% of a socket's memory bandwidth at most" in slowed
    assert "hungry 80.0%" in slowed
    assert "100% of the ways, 50% of the cores, 50% of the memory" in away
    assert kept(workload, placed)[0].slowed == pytest.approx(0.8)
    assert costs(paper_workload("sensitive"), Placement(())) == []
    told = only_ways_and_cores(workload)
    assert told == "servers a have 2 sockets"
    assert only_ways_and_cores(paper_workload("sensitive")) is None


# ---------------------------------------------------------------------- the verifier itself


def test_the_verifier_finds_what_is_wrong() -> None:
    wide = replace(HUNGRY, cores=2)
    slos = (Slo("s", wide, 1.2, 20.0), Slo("t", wide, 0.6, 20.0))
    server = Server("a", 9, 4, 4, 4, sockets=2, memory_gbps=3.6)
    workload = Workload("w", slos, (server,), 0.0, 0.5)

    def said(*instances: Instance, of: Workload = workload) -> str:
        return "; ".join(problems(of, Placement([PlacedMachine("a", [*instances])])))

    right = Instance("s", 0, 2), Instance("t", 0, 2, 2)
    assert said(*right) == ""
    assert said(right[0], replace(right[1], socket=1)) == ""
    assert said(right[0], replace(right[1], first=0, socket=1)) == ""
    assert "t shares ways" in said(right[0], replace(right[1], first=0))
    assert "socket 2 of 2" in said(right[0], replace(right[1], socket=2))
    assert "0.64 Mpps in time of 1.2" in said(replace(right[0], ways=1), right[1])
    three = [*right, Instance("t", 0, 1, 0, 1)]
    assert said(*three) == ""
    narrow = replace(workload, servers=(replace(server, cores=3),))
    assert "2 instances of 4 cores on 3 cores" in said(*right, of=narrow)
    poor = replace(workload, servers=(replace(server, memory_gbps=3.4),))
    assert "socket 0: 1.8 GB/s of memory, of 1.7" in said(*right, of=poor)
    few = replace(workload, servers=(replace(server, classes=2),))
    assert "socket 0: 2 classes of service" in said(*right, of=few)
    unknown = replace(wide, gbps_by_ways=())
    assert "inf GB/s" in said(
        *right, of=replace(workload, slos=(replace(slos[0], profile=unknown), slos[1]))
    )


def test_a_problem_is_of_promises_that_are_alike() -> None:
    slos = tuple(Slo(name, HUNGRY, 0.6, 20.0, 2) for name in "ab")
    problem, refused = problem_of(
        Workload(
            "w",
            (*slos, Slo("c", HUNGRY, 0.7, 20.0)),
            (Server("a", 9, 8, 4, memory_gbps=9.0),),
            0.0,
            0.5,
        )
    )
    assert not refused
    assert isinstance(problem, SocketProblem)
    assert [len(demand.slos) for demand in problem.demands] == [4, 1]
