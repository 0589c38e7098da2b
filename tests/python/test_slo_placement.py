"""Promises onto servers: the paper's workloads, and random ones against an independent verifier."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.resq.comparison import large_workload, paper_workload
from evaluation.resq.methods import PAPER
from tests.python.strategies import scaled
from unis.slo.exact import exact
from unis.slo.explain import summary
from unis.slo.greedy import greedy
from unis.slo.placement import Instance, NoRoomError, PlacedMachine, Placement
from unis.slo.profile import ImpossibleProfileError, Profile, Server, Slo, Workload
from unis.slo.splits import CannotBeKeptError, minimal_splits, passes, patterns, splits_of
from unis.slo.verify import problems

FLAT = ((0.5, 10.0), (1.0, 20.0))


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    shares = sorted(draw(st.lists(st.integers(5, 100), min_size=1, max_size=6)))
    return Profile("nf", draw(st.integers(1, 9)) / 2, tuple(of / 100 for of in shares), FLAT)


@st.composite
def workloads(draw: st.DrawFn, promises: int = 6) -> Workload:
    slos = tuple(
        Slo(
            f"s{at}",
            profile := draw(profiles()),
            profile.solo_mpps * draw(st.integers(5, 160)) / 100,
            draw(st.sampled_from([12.0, 15.0, 25.0])),
            draw(st.integers(1, 3)),
        )
        for at in range(draw(st.integers(1, promises)))
    )
    servers = [
        Server(
            name, count, draw(st.integers(1, 4)), draw(st.integers(2, 6)), draw(st.integers(3, 6))
        )
        for name, count in (("few", draw(st.integers(1, 5))), ("many", 400))
    ]
    kinds = draw(st.integers(1, 2))
    return Workload("random", slos, tuple(servers[-kinds:]), draw(st.sampled_from([0.0, 0.03])))


# ---------------------------------------------------------------------- the paper's


@pytest.mark.parametrize(
    ("name", "most"), [("sensitive", 35), ("insensitive", 22), ("combination", 28)]
)
def test_the_papers_workloads(name: str, most: int) -> None:
    workload = paper_workload(name)
    by_greedy, by_exact = greedy(workload), exact(workload)
    assert len(by_greedy.machines) == PAPER[name]["greedy"]
    assert len(by_exact.machines) == by_exact.bound
    assert len(by_exact.machines) <= most
    assert not [*problems(workload, by_greedy)]
    assert not [*problems(workload, by_exact)]


def test_many_promises_are_placed_near_the_bound() -> None:
    workload = large_workload(count=600, servers=400)
    placed = exact(workload, gap=0.01)
    assert placed.gap is not None
    assert placed.gap <= 0.01
    assert not [*problems(workload, placed)]


def _lowered(profile: Profile, points: float) -> Profile:
    """With so much less of its throughput at each number of ways."""
    return replace(profile, share_by_ways=tuple(of - points for of in profile.share_by_ways))


def test_more_points_of_error_than_are_left_as_a_margin_are_seen() -> None:
    workload = paper_workload("sensitive")
    placed = exact(workload)
    worse = replace(
        workload,
        slos=tuple(replace(slo, profile=_lowered(slo.profile, 0.1)) for slo in workload.slos),
    )
    assert [*problems(worse, placed)]
    # What the profile is off by, the margin of the load makes good.
    little = replace(
        workload,
        slos=tuple(replace(slo, profile=_lowered(slo.profile, 0.015)) for slo in workload.slos),
    )
    assert not [*problems(replace(little, margin=0.0), placed)]


# ---------------------------------------------------------------------- random


@settings(max_examples=scaled(60), deadline=None)
@given(workloads())
def test_every_placement_holds_and_none_is_better(workload: Workload) -> None:
    placed = exact(workload)
    assert not [*problems(workload, placed)]
    assert placed.bound == len(placed.machines)
    first_fit = greedy(workload)
    assert not [*problems(workload, first_fit)]
    if not first_fit.refused and not placed.refused:
        assert len(placed.machines) <= len(first_fit.machines)


@settings(max_examples=scaled(40), deadline=None)
@given(workloads(promises=2))
def test_fewer_machines_do_not_do(workload: Workload) -> None:
    """By trying all splits and all machines for them."""
    slos = tuple(replace(slo, count=1) for slo in workload.slos)
    small = replace(workload, slos=slos, servers=workload.servers[-1:])
    placed = exact(small)
    kept = {of.slo for machine in placed.machines for of in machine.instances}
    server = small.servers[0]
    every = [splits_of(slo, small.margin, server.ways) for slo in small.slos if slo.name in kept]
    # Trying all machines for more than ten instances takes minutes.
    if any(len(of) > 40 for of in every) or sum(max(map(len, of)) for of in every) > 10:
        return
    fewest = min(
        (
            _fewest(sorted(itertools.chain(*of), reverse=True), server)
            for of in itertools.product(*every)
        ),
        default=0,
    )
    assert len(placed.machines) == fewest


def _fewest(items: list[int], server: Server) -> int:
    """Bins for these numbers of ways, by trying them all."""
    best = len(items)

    def place(at: int, bins: list[tuple[int, int]]) -> None:
        nonlocal best
        if len(bins) >= best and at < len(items):
            return
        if at == len(items):
            best = min(best, len(bins))
            return
        for index, (count, ways) in enumerate(bins):
            if count < server.places and ways + items[at] <= server.ways:
                rest = [*bins[:index], (count + 1, ways + items[at]), *bins[index + 1 :]]
                place(at + 1, rest)
        place(at + 1, [*bins, (1, items[at])])

    place(0, [])
    return best


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=5, unique=True).map(sorted),
    st.integers(1, 8),
)
def test_what_is_enough_is_no_less_than_a_minimal_split(rates: list[int], most: int) -> None:
    by_ways, mpps = tuple(map(float, rates)), most * rates[0]
    splits = minimal_splits(by_ways, float(mpps))
    for split in splits:
        assert passes(by_ways, split) >= mpps
        for at, ways in enumerate(split):
            less = by_ways[ways - 2] if ways > 1 else 0
            assert passes(by_ways, split) - by_ways[ways - 1] + less < mpps, at
    for count in range(1, 4):
        for one in itertools.combinations_with_replacement(range(len(rates), 0, -1), count):
            if passes(by_ways, one) >= mpps:
                assert any(_covers(one, split) for split in splits), (one, splits)


def _covers(one: tuple[int, ...], split: tuple[int, ...]) -> bool:
    return len(split) <= len(one) and all(
        mine <= its for mine, its in zip(split, sorted(one, reverse=True), strict=False)
    )


@given(st.integers(1, 14), st.integers(1, 8))
def test_a_pattern_gives_all_ways_away(ways: int, places: int) -> None:
    found = patterns(ways, places)
    assert len({*found}) == len(found)
    for pattern in found:
        assert sum(pattern) == ways
        assert 1 <= len(pattern) <= places
        assert [*pattern] == sorted(pattern, reverse=True)


# ---------------------------------------------------------------------- what is refused


def test_promises_that_nothing_keeps_are_refused_with_the_nearest() -> None:
    profile = Profile("nf", 1.0, (0.5, 1.0), FLAT)
    server = Server("a", 10, 2, 2)
    both = (Slo("fast", profile, 0.5, 5.0), Slo("slow", profile, 0.5, 20.0))
    placed = exact(Workload("w", both, (server,)))
    assert [refusal.slo for refusal in placed.refused] == ["fast"]
    assert "the nearest that can be kept is 10 µs" in placed.refused[0].why
    assert len(placed.machines) == 1
    with pytest.raises(NoRoomError):
        exact(Workload("w", (Slo("much", profile, 3.0, 20.0),), (replace(server, count=1),)))
    too_much = exact(Workload("w", (Slo("much", profile, 100.0, 20.0),), (server,)))
    assert "not tried" in too_much.refused[0].why
    assert "ask for promises of 4.85 Mpps or less" in too_much.refused[0].why
    assert "no placement of what was tried needs fewer" in summary(too_much, "exact")
    with pytest.raises(CannotBeKeptError):
        splits_of(both[0], 0.03, 2)


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ({"share_by_ways": ()}, "no throughput"),
        ({"share_by_ways": (0.9, 0.8)}, "less with 2 ways"),
        ({"share_by_ways": (-0.1,)}, "not above 0"),
        ({"share_by_ways": (1.1,)}, "at most 1"),
        ({"p95_us_by_load": ()}, "no latency"),
        ({"p95_us_by_load": ((0.5, 20.0), (0.9, 10.0))}, "falls from 20"),
        ({"p95_us_by_load": ((0.0, 20.0),)}, "above 0 µs"),
        ({"solo_mpps": 0.0}, "0 Mpps alone"),
    ],
)
def test_profiles_that_cannot_be_are_refused(of: dict[str, object], said: str) -> None:
    right: dict[str, object] = {"solo_mpps": 1.0, "share_by_ways": (1.0,), "p95_us_by_load": FLAT}
    with pytest.raises(ImpossibleProfileError, match=said):
        Profile("nf", **{**right, **of})  # type: ignore[arg-type]


@given(st.floats(1, 30))
def test_a_load_within_a_time_is_in_time(us: float) -> None:
    profile = Profile("nf", 1.0, (1.0,), ((0.2, 5.0), (0.5, 5.0), (0.8, 10.0), (0.9, 20.0)))
    load = profile.load_within(us)
    assert (load == 0) == (us < 5)
    assert load <= 0.9
    if 10 <= us <= 20:
        assert load == pytest.approx(0.8 + 0.1 * (us - 10) / 10)


# ---------------------------------------------------------------------- the verifier itself


def test_the_verifier_finds_what_is_wrong() -> None:
    profile = Profile("nf", 1.0, (0.5, 1.0), FLAT)
    workload = Workload("w", (Slo("s", profile, 0.8, 20.0),), (Server("a", 1, 1, 2, 3),), 0.0)

    def said(*machines: PlacedMachine) -> str:
        return "; ".join(problems(workload, Placement(machines)))

    assert said(PlacedMachine("a", [Instance("s", 0, 2)])) == ""
    assert "0.5 Mpps in time of 0.8 promised" in said(PlacedMachine("a", [Instance("s", 0, 1)]))
    assert "0 Mpps in time" in said()
    many = PlacedMachine("a", [Instance("s", 0, 1), Instance("s", 0, 2, first=1)])
    assert "shares ways" in said(PlacedMachine("a", [Instance("s", 0, 1), Instance("s", 0, 2)]))
    assert "2 instances on 1 cores" in said(many)
    assert "3 ways of 2" in said(many)
    assert "2 servers a of 1" in said(
        *(PlacedMachine("a", [Instance("s", 0, 2)]) for _ in range(2))
    )
    assert "no such server" in said(PlacedMachine("b", []))
    assert "nobody asked for t" in said(PlacedMachine("a", [Instance("t", 0, 2)]))
    crowd = replace(workload, servers=(Server("a", 1, 9, 9, 3),))
    three = Placement([PlacedMachine("a", [Instance("s", 0, 2, 2 * at) for at in range(3)])])
    assert "3 classes of service" in "; ".join(problems(crowd, three))
