"""Which CPUs a plan takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.python.planned import EIGHT_CPUS, planned, small, told
from unis.plan.cpus import format_cpu_list, parse_cpu_list
from unis.plan.machine import Machine, OtherRun


@given(st.integers(2, 64), st.data())
def test_the_platform_never_takes_a_functions_cpu(count: int, data: st.DataObject) -> None:
    machine = Machine(frozenset(range(count)))
    cpus = data.draw(st.sets(st.integers(1, count - 1), min_size=1, max_size=3))
    functions = {f"f{cpu}": {"program": "sh", "cpu": cpu} for cpu in cpus}
    plan = planned(small(functions=functions, chains={"c": {"path": list(functions)}}), machine)
    assert plan.platform_cpus[0] == 0
    assert not cpus & set(plan.platform_cpus)
    if len(plan.platform_cpus) > 1:  # one is left for the launcher
        assert machine.cpus - cpus - set(plan.platform_cpus)
    assert not plan.notes


def run(name: str, cpus: set[int], platform: set[int]) -> OtherRun:
    return OtherRun(name, frozenset(cpus), frozenset(platform))


def test_a_second_run_is_planned_around_the_first() -> None:
    first = planned(small())
    other = run("first", set(first.cpus), set(first.platform_cpus))
    sentence = told(small(), EIGHT_CPUS, other)[0]
    assert sentence.startswith("('defaults', 'cpu') CPU 1 is in use by run `first`; ")
    plan = planned(small(defaults={"cpu": 7}), EIGHT_CPUS, (other,))
    assert not set(plan.platform_cpus) & {*other.cpus, *other.platform_cpus, 7}
    assert not plan.notes


@pytest.mark.parametrize("count", [3, 4])
def test_platforms_share_a_cpu_where_none_is_left_and_say_so(count: int) -> None:
    machine = Machine(frozenset(range(count)))
    other = run("first", {1} if count == 3 else {1, 2}, {0})
    plan = planned(small(defaults={"cpu": count - 1}), machine, (other,))
    assert plan.platform_cpus == (0,)
    assert plan.notes == (
        "traffic and scheduler share CPU 0 with run `first`: both are slower than alone",
    )
    assert "CPU 0 is in use by run `first`" in told(small(defaults={"cpu": 0}), machine, other)[0]


def test_no_cpu_is_left() -> None:
    machine = Machine(frozenset({0, 1, 2}))
    sentences = told(small(defaults={"cpu": 2}), machine, run("a", {0, 1}, {5}))
    assert "no CPU of 0-2 is left for traffic and the scheduler" in sentences[0]


def test_stated_platform_cpus() -> None:
    plan = planned(small(platform={"cpus": [5, 6]}, defaults={"cpu": 0}))
    assert plan.platform_cpus == (5, 6)
    assert plan.engine.argv[plan.engine.argv.index("--cpus") + 1] == "5,6"
    assert "CPU 9 does not exist here" in told(small(platform={"cpus": [9]}))[0]
    busy = told(small(platform={"cpus": [2]}), EIGHT_CPUS, run("a", {2}, {0}))
    assert "CPU 2 is that of functions of run `a`" in busy[0]


@pytest.mark.parametrize(
    ("cpu", "cpus", "sentence"),
    [
        (2, {0, 1}, "CPU 2 does not exist here (0-1); choose from 1, or try the chain with"),
        (1, {0}, "this machine has one CPU"),
        (1, {2, 3}, "CPU 1 does not exist here (2-3); choose from 3"),  # a container
    ],
)
def test_cpu_that_cannot_be_used(cpu: int, cpus: set[int], sentence: str) -> None:
    sentences = told(small(defaults={"cpu": cpu}), Machine(frozenset(cpus)))
    assert sum(sentence in row for row in sentences) == 1


def test_a_function_may_have_any_cpu_that_the_platform_can_do_without() -> None:
    plan = planned(small(defaults={"cpu": 0}), Machine(frozenset({0, 1})))
    assert (plan.cpus, plan.platform_cpus) == ((0,), (1,))


def test_the_machine_is_what_we_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 3})
    assert Machine.this().cpus == {2, 3}


@given(st.sets(st.integers(0, 200)))
def test_cpu_lists(cpus: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(cpus)) == cpus
