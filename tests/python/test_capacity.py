"""The linear program of `unis model` beside closed forms, a maximum flow, and max–min fairness."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from tests.python.strategies import scaled
from unis.capacity.resources import CapacityError, PacketDemand, Resource, solve

CHAINS = 1000
AMOUNTS = st.floats(min_value=1, max_value=1e4)
CAPACITIES = st.floats(min_value=1e8, max_value=1e11)


def resources(capacities: list[float]) -> list[Resource]:
    return [Resource(f"r{at}", capacity, "unit") for at, capacity in enumerate(capacities)]


def demands(chain: str, amounts: list[float]) -> list[PacketDemand]:
    return [PacketDemand(chain, f"r{at}", amount) for at, amount in enumerate(amounts)]


def test_a_single_chain_is_the_closed_form_a_thousand_times() -> None:
    dice = random.Random(1)
    for _ in range(CHAINS):
        count = dice.randint(1, 12)
        capacities = [10 ** dice.uniform(6, 12) for _ in range(count)]
        amounts = [10 ** dice.uniform(-1, 4) * dice.choice([0, 1, 1]) for _ in range(count)]
        amounts[dice.randrange(count)] = 10 ** dice.uniform(-1, 4)
        closed = min(c / a for c, a in zip(capacities, amounts, strict=True) if a)
        for objective in ("total", "max-min"):
            found = solve(resources(capacities), demands("c", amounts), objective)
            assert found.throughput["c"] == pytest.approx(closed, rel=1e-6)
            limits = {
                f"r{at}"
                for at, (c, a) in enumerate(zip(capacities, amounts, strict=True))
                if a and math.isclose(c / a, closed, rel_tol=1e-7)
            }
            assert limits <= {*found.bottlenecks}


@st.composite
def visits(draw: st.DrawFn) -> tuple[list[float], list[list[int]]]:
    """Packets/s of each resource, and which of them each chain visits in turn, some again."""
    rates = draw(st.lists(st.integers(1_000, 1_000_000).map(float), min_size=1, max_size=5))
    way = st.lists(st.integers(0, len(rates) - 1), min_size=1, max_size=6)
    return rates, draw(st.lists(way, min_size=1, max_size=4))


@settings(max_examples=scaled(150), deadline=None)
@given(visits())
def test_no_total_is_above_a_maximum_flow_on_the_unfolded_graph(
    drawn: tuple[list[float], list[list[int]]],
) -> None:
    """Unfolded, each further visit of a resource finds all of it once more."""
    rates, ways = drawn
    taken = [
        PacketDemand(f"c{chain}", f"r{at}", 1.0) for chain, way in enumerate(ways) for at in way
    ]
    found = solve(resources(rates), taken, "total")
    flow = unfolded_flow(rates, ways)
    assert found.total <= flow * (1 + 1e-6)
    if len(ways) == 1 and len({*ways[0]}) == len(ways[0]):
        assert found.total == pytest.approx(flow, rel=1e-6)


def unfolded_flow(rates: list[float], ways: list[list[int]]) -> int:
    """The most from source to sink, where a node is a visit: 'the second time at resource 3'."""
    nodes: dict[tuple[int, int], int] = {}
    edges: dict[tuple[int, int], int] = {}
    for way in ways:
        path = [0]
        for step, at in enumerate(way):
            time = way[:step].count(at)
            number = nodes.setdefault((at, time), 2 + 2 * len(nodes))
            edges[number, number + 1] = int(rates[at])
            path += [number, number + 1]
        for pair in itertools.pairwise([*path, 1]):
            edges.setdefault(pair, 2**30)
    size = 2 + 2 * len(nodes)
    graph = np.zeros((size, size), np.int32)
    for (begin, end), capacity in edges.items():
        graph[begin, end] = capacity
    return int(maximum_flow(csr_array(graph), 0, 1).flow_value)


def test_a_maximum_flow_is_n_times_too_high_where_a_resource_is_visited_n_times() -> None:
    rates, way = [9_000.0], [0, 0, 0]
    found = solve(resources(rates), [PacketDemand("c", "r0", 1.0)] * 3, "total")
    assert found.total == pytest.approx(3_000)
    assert unfolded_flow(rates, [way]) == 9_000


@st.composite
def shared(draw: st.DrawFn) -> tuple[list[float], list[list[float]]]:
    capacities = draw(st.lists(CAPACITIES, min_size=1, max_size=4))
    one = st.lists(
        st.one_of(st.just(0.0), AMOUNTS), min_size=len(capacities), max_size=len(capacities)
    ).filter(any)
    return capacities, draw(st.lists(one, min_size=2, max_size=5))


@settings(max_examples=scaled(150), deadline=None)
@given(shared())
def test_max_min_gives_to_none_that_another_of_no_more_lacks(
    drawn: tuple[list[float], list[list[float]]],
) -> None:
    """A chain has a resource that is used up, on which no other passes more than it does."""
    capacities, amounts = drawn
    taken = [each for at, one in enumerate(amounts) for each in demands(f"c{at}", one)]
    found = solve(resources(capacities), taken, "max-min")
    rates = [found.throughput[f"c{at}"] for at in range(len(amounts))]
    for resource, capacity in enumerate(capacities):
        used = sum(rate * one[resource] for rate, one in zip(rates, amounts, strict=True))
        assert used <= capacity * (1 + 1e-5)
    for rate, one in zip(rates, amounts, strict=True):
        assert any(
            one[resource] > 0
            and sum(r * o[resource] for r, o in zip(rates, amounts, strict=True))
            >= capacity * (1 - 1e-4)
            and all(
                r <= rate * (1 + 1e-4) for r, o in zip(rates, amounts, strict=True) if o[resource]
            )
            for resource, capacity in enumerate(capacities)
        )
    most = solve(resources(capacities), taken, "total")
    assert found.total <= most.total * (1 + 1e-5)


def test_the_smallest_throughput_comes_first_then_the_next() -> None:
    """Two chains share r0; the third has r1 alone, and the second too little of r2."""
    taken = [
        PacketDemand("a", "r0", 1), PacketDemand("b", "r0", 1), PacketDemand("b", "r2", 1),
        PacketDemand("c", "r1", 1),
    ]  # fmt: skip
    found = solve(resources([100, 70, 20]), taken, "max-min")
    assert found.throughput == pytest.approx({"a": 80, "b": 20, "c": 70}, rel=1e-6)
    assert {*found.bottlenecks} == {"r0", "r1", "r2"}


def test_the_total_may_starve_a_chain_and_max_min_does_not() -> None:
    taken = [PacketDemand("light", "r0", 1), PacketDemand("heavy", "r0", 9)]
    most = solve(resources([90]), taken, "total")
    assert most.throughput == pytest.approx({"light": 90, "heavy": 0})
    fair = solve(resources([90]), taken, "max-min")
    assert fair.throughput == pytest.approx({"light": 9, "heavy": 9}, rel=1e-6)


def test_a_tenant_of_two_chains_gets_no_more_than_one_of_one() -> None:
    taken = [PacketDemand(chain, "r0", 1) for chain in ("a1", "a2", "b")]
    alike = solve(resources([120]), taken, "max-min")
    assert alike.throughput == pytest.approx({"a1": 40, "a2": 40, "b": 40}, rel=1e-6)
    by_tenant = solve(resources([120]), taken, "max-min", {"a1": "a", "a2": "a", "b": "b"})
    assert by_tenant.throughput == pytest.approx({"a1": 30, "a2": 30, "b": 60}, rel=1e-6)


def test_what_the_other_tenant_cannot_use_is_had() -> None:
    taken = [PacketDemand(chain, "r0", 1) for chain in ("a1", "a2", "b")]
    taken.append(PacketDemand("b", "r1", 1))
    found = solve(resources([120, 10]), taken, "max-min", {"a1": "a", "a2": "a"})
    assert found.throughput == pytest.approx({"a1": 55, "a2": 55, "b": 10}, rel=1e-6)


def test_a_resource_that_is_not_there_stops_its_chains_and_no_others() -> None:
    taken = [PacketDemand("a", "r0", 1), PacketDemand("b", "r1", 1)]
    found = solve([*resources([0, 50]), Resource("idle", 0, "unit")], taken, "max-min")
    assert found.throughput == pytest.approx({"a": 0, "b": 50}, rel=1e-6)
    assert {*found.bottlenecks} == {"r0", "r1"}


@pytest.mark.parametrize(
    ("demand", "told"),
    [
        (PacketDemand("c", "no", 1), "chain c takes of no, which is no resource"),
        (PacketDemand("c", "r0", -1), "chain c takes -1 of r0 a packet"),
        (PacketDemand("c", "r0", math.nan), "chain c takes nan of r0 a packet"),
        (PacketDemand("c", "r0", 0), "chain c takes nothing of any resource"),
    ],
)
def test_what_has_no_answer_says_why(demand: PacketDemand, told: str) -> None:
    with pytest.raises(CapacityError, match=told):
        solve(resources([1]), [demand], "total")


@pytest.mark.parametrize("capacity", [-1, math.inf, math.nan])
def test_a_capacity_is_a_number(capacity: float) -> None:
    with pytest.raises(CapacityError, match="r0: a capacity of"):
        solve(resources([capacity]), demands("c", [1]), "total")
