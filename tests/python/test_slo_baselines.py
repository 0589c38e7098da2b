"""What the ResQ paper compares itself with: a model of a shared cache, three ways to place."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.resq import methods as resq_baselines
from evaluation.resq.baselines import agnostic, elastic, predictor
from evaluation.resq.baselines.arrivals import Promise, Served, broken, in_turn
from evaluation.resq.baselines.contention import Tenant, beside, shares
from evaluation.resq.baselines.predictor import PENALTY_US, RuleReading
from evaluation.resq.comparison import SENSITIVE, paper_workload
from evaluation.resq.methods import PAPER, UNTIMED, by_baselines, overestimate
from tests.python.strategies import scaled
from unis.errors import UnisError
from unis.slo.profile import Profile, Server, Slo, Workload
from unis.slo.resq_profiles import PROFILES

WAYS = 18
FLAT = ((0.5, 10.0), (1.0, 20.0))


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    points = sorted(draw(st.lists(st.integers(5, 100), min_size=1, max_size=9)))
    return Profile("nf", draw(st.integers(1, 9)) / 2, tuple(of / 100 for of in points), FLAT)


tenants = st.lists(
    st.builds(Tenant, profiles(), st.sampled_from([0.1, 0.5, 0.9, 1.0])), min_size=1, max_size=9
)

# ---------------------------------------------------------------------- a cache that is shared


@settings(max_examples=scaled(100), deadline=None)
@given(tenants)
def test_who_shares_has_no_more_than_all_and_no_more_than_alone(of: list[Tenant]) -> None:
    for tenant, share in zip(of, shares(of, WAYS), strict=True):
        assert 0 < share <= tenant.profile.share(WAYS) + 1e-9


@settings(max_examples=scaled(60), deadline=None)
@given(tenants, st.builds(Tenant, profiles(), st.just(1.0)))
def test_another_takes_from_those_that_are_there(of: list[Tenant], other: Tenant) -> None:
    for before, after in zip(shares(of, WAYS), shares([*of, other], WAYS), strict=False):
        assert after <= before + 1e-6


@given(profiles(), st.integers(1, 9))
def test_equals_have_equal_parts(profile: Profile, count: int) -> None:
    """So many of one function pass what its profile has for a whole number of ways."""
    each = shares([Tenant(profile, 1.0)] * count, 3 * count)
    # Where no more cache helps it holds less, and passes as much.
    assert each == pytest.approx([profile.share(3)] * count, abs=2e-3)


def test_one_function_alone_passes_all() -> None:
    for profile in PROFILES.values():
        assert shares([Tenant(profile, 0.9)], WAYS) == pytest.approx([profile.share(WAYS)])
        assert beside(profile, 0.0, WAYS, PENALTY_US) == pytest.approx(profile.share(WAYS))
    assert shares([], WAYS) == []


def test_who_is_offered_less_takes_less() -> None:
    stats, nat = PROFILES["stats"], PROFILES["mazunat"]
    busy = shares([Tenant(nat, 1.0), *[Tenant(stats, 1.0)] * 5], WAYS)[0]
    idle = shares([Tenant(nat, 1.0), *[Tenant(stats, 0.05)] * 5], WAYS)[0]
    assert idle > busy + 0.1


@given(profiles(), st.floats(0, 500), st.floats(0, 500))
def test_more_references_take_more(profile: Profile, some: float, more: float) -> None:
    less, most = sorted((some, more))
    kept = [beside(profile, of, WAYS, PENALTY_US) for of in (less, most)]
    assert kept[1] <= kept[0] + 1e-9


def test_the_model_beside_the_papers_worst_neighbours() -> None:
    """Nothing is chosen by these: all but Snort's are met within three points (docs/slo.md)."""
    for name, of in resq_baselines.models().worst_neighbours.items():
        if name == "snort":  # missed, by as much as the page says
            assert of.paper == 17.5
            assert of.here == pytest.approx(28.9, abs=0.1)
        else:
            assert of.here == pytest.approx(of.paper, abs=3), name


# ---------------------------------------------------------------------- promises


def test_promises_come_in_turn() -> None:
    slos = tuple(
        Slo(name, PROFILES[name], 0.1, 100.0, count) for name, count in (("lpm", 3), ("stats", 1))
    )
    workload = Workload("w", slos, (Server("a", 9, 9, 18),))
    assert [(of.slo.name, of.at) for of in in_turn(workload)] == [
        ("lpm", 0), ("stats", 0), ("lpm", 1), ("lpm", 2),
    ]  # fmt: skip


def test_a_promise_is_broken_by_more_than_a_part() -> None:
    profile = Profile("nf", 1.0, (1.0,), ((0.5, 10.0), (0.9, 100.0), (1.0, 1000.0)))
    promise = Promise(Slo("s", profile, 0.9, 100.0), 0)

    def is_broken(capacity: float, untimed: tuple[str, ...] = ()) -> bool:
        return bool(broken([Served(promise, 0.9, capacity)], untimed))

    assert not is_broken(1.0)
    assert is_broken(0.95)  # in time with 90.6 % of 0.95
    assert not is_broken(0.95, ("nf",))
    assert not is_broken(0.86, ("nf",))  # short by less than 5 %
    assert is_broken(0.85, ("nf",))
    halves = [Served(promise, 0.45, 0.5), Served(promise, 0.45, 0.4)]
    assert broken(halves, ("nf",)) == [promise]  # together 0.85
    assert broken([halves[0], halves[0]], ("nf",)) == []


# ---------------------------------------------------------------------- the paper's workloads


def test_a_miss_takes_what_the_papers_figure_10_says() -> None:
    """The one parameter, by least squares; each mean is met within half a point."""

    def error(penalty_us: float) -> float:
        of = resq_baselines.OVERESTIMATES
        return sum((overestimate(name, penalty_us) - said) ** 2 for name, said in of.items())

    assert error(PENALTY_US) < min(error(PENALTY_US - 0.001), error(PENALTY_US + 0.001))
    for name, said in resq_baselines.OVERESTIMATES.items():
        assert overestimate(name) == pytest.approx(said, abs=0.5)


@pytest.mark.parametrize("name", [*PAPER])
@pytest.mark.parametrize("penalty_us", [0.031, PENALTY_US, 0.036])
def test_the_predictor_needs_what_the_paper_says_within_a_tenth(
    name: str, penalty_us: float
) -> None:
    """As the authors' program reads its rule; a miss may take a tenth more."""
    servers = predictor.first_fit(paper_workload(name), RuleReading.PROGRAM, penalty_us)
    assert len(servers) == pytest.approx(PAPER[name]["predictor"], rel=0.1)


def test_where_the_predictor_is_further_off() -> None:
    """The page says so: a miss of 30 ns, and the other readings of its rule."""
    sensitive = paper_workload("sensitive")
    assert len(predictor.first_fit(sensitive, RuleReading.PROGRAM, 0.030)) == 113
    assert len(predictor.first_fit(sensitive, RuleReading.NAMED, PENALTY_US)) == 150
    assert len(predictor.first_fit(sensitive, RuleReading.SECOND, PENALTY_US)) == 101


def test_under_their_own_names_none_is_said_to_fall_short() -> None:
    for name in PAPER:
        workload = paper_workload(name)
        servers = predictor.first_fit(workload, RuleReading.NAMED)
        assert Counter(of for on in servers for of in on) == Counter(in_turn(workload))
        for on in servers:
            assert len(on) <= 9
            for of in on:
                rest = sum(predictor.references(one.slo.profile) for one in on)
                rest -= predictor.references(of.slo.profile)
                assert beside(of.slo.profile, rest, WAYS, PENALTY_US) >= of.part - 1e-6


def test_with_a_second_instance_all_are_said_to_pass_what_is_promised() -> None:
    workload = paper_workload("sensitive")
    servers = predictor.first_fit(workload, RuleReading.SECOND)
    passes: Counter[Promise] = Counter()
    for on in servers:
        assert len(set(on)) == len(on) <= 9
        every = sum(predictor.references(of.slo.profile) for of in on)
        for of in on:
            rest = every - predictor.references(of.slo.profile)
            passes[of] += beside(of.slo.profile, rest, WAYS, PENALTY_US)  # type: ignore[assignment]
    assert len(passes) == 200
    assert all(of.part <= share + 1e-6 for of, share in passes.items())


def test_a_promise_of_more_than_a_server_passes_has_more_instances() -> None:
    profile = PROFILES["firewall"]
    slo = Slo("much", profile, 2.5 * profile.solo_mpps, 100.0)
    workload = Workload("w", (slo,), (Server("a", 9, 9, 18),))
    for reading in RuleReading:
        servers = predictor.first_fit(workload, reading)
        assert sum(len(on) for on in servers) == 3
    assert sum(len(on) for on in agnostic.packed(workload)) == 3
    assert elastic.scaled(workload).instances == 3


@pytest.mark.parametrize(
    ("name", "shared", "split"),
    [("insensitive", 0, 0), ("combination", 44, 110), ("sensitive", 199, 200)],
)
def test_who_knows_of_no_contention_breaks_promises(name: str, shared: int, split: int) -> None:
    """The paper: 0, 11 and 91 % shared; 0, 55 and 100 % in equal parts."""
    workload = paper_workload(name)
    servers = agnostic.packed(workload)
    assert all(len(on) == 9 for on in servers[:-1])
    assert len(agnostic.broken_when_shared(workload, servers, UNTIMED)) == shared
    assert len(agnostic.broken_when_split(workload, servers, UNTIMED)) == split


def test_elastic_scaling_meets_the_demand_and_promises_no_latency() -> None:
    found = {name: elastic.scaled(paper_workload(name)) for name in PAPER}
    assert {name: len(of.servers) for name, of in found.items()} == {
        "insensitive": 22, "combination": 27, "sensitive": 45,
    }  # fmt: skip
    for of in found.values():
        passed: Counter[Promise] = Counter()
        for one in of.served:
            passed[one.promise] += min(one.load, one.capacity)  # type: ignore[assignment]
        assert all(share >= promise.part - 2e-3 for promise, share in passed.items())
    late = broken(found["combination"].served, UNTIMED)
    assert {of.slo.profile.name for of in late} == {"suricata"}
    with_headroom = elastic.scaled(paper_workload("combination"), 0.05)
    assert len(with_headroom.servers) == PAPER["combination"]["dynamic"]


def test_what_cannot_settle_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic, "_ROUNDS", 10)
    workload = paper_workload("sensitive")
    with pytest.raises(elastic.DoesNotSettleError, match="demand is not met after 10 rounds"):
        elastic.scaled(workload, headroom=1.0)


def test_servers_of_several_kinds_are_refused() -> None:
    workload = paper_workload("sensitive")
    two = replace(workload, servers=(*workload.servers, Server("other", 1, 4, 8)))
    for place in (
        agnostic.packed,
        elastic.scaled,
        lambda of: predictor.first_fit(of, RuleReading.NAMED),
    ):
        with pytest.raises(UnisError, match="one kind only"):
            place(two)


def test_results_have_every_baseline() -> None:
    found = by_baselines(paper_workload("insensitive"))
    assert {found[name] for name in ("predictor", "predictor_named", "dynamic", "agnostic")} == {22}
    assert set(SENSITIVE) <= set(predictor.REFERENCES)
