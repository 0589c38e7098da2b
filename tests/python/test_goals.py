"""Goals of chains on their latency: what rings they make, and what cannot be met."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.python.planned import wired
from unis.chain.model import API_VERSION, ChainFile
from unis.chain.problem import Problem
from unis.chain.values import in_ns
from unis.plan.rings import (
    Delays,
    Known,
    RingChoice,
    Segment,
    Turn,
    choices,
    delay_ns,
    goal_problems,
    round_ns,
)


def file(
    goal: str | None = "100us", *, controller: str = "handover", cpus: str = "111", **more: Any
) -> ChainFile:
    functions = {f"f{at}": {"program": "sh", "cpu": int(cpu)} for at, cpu in enumerate(cpus)}
    chain = {"path": list(functions), **({"slo": {"p95_latency": goal}} if goal else {}), **more}
    data = {
        "apiVersion": API_VERSION,
        "name": "x",
        "scheduler": {"controller": controller},
        "functions": functions,
        "chains": {"c": chain},
    }
    return ChainFile.model_validate(data)


def known(cost_ns: float = 25, switch_ns: float = 1500) -> Known:
    return Known({f"f{at}": cost_ns for at in range(9)}, switch_ns, 64 << 20)


def choices_of(of: ChainFile, known: Known, there: dict[str, int]) -> dict[str, RingChoice]:
    return choices(of, wired(of), known, there)


def problems_of(
    of: ChainFile, rings: dict[str, RingChoice], known: Known, there: Iterable[str] = ()
) -> tuple[list[str], list[Problem]]:
    return goal_problems(of, wired(of), rings, known, there)


def choice(of: ChainFile, known: Known) -> RingChoice:
    return choices_of(of, known, {})["c"]


@pytest.mark.parametrize(
    ("text", "ns"), [("100us", 1e5), ("1.5ms", 1.5e6), ("80 µs", 8e4), ("7ns", 7), ("2s", 2e9)]
)
def test_durations(text: str, ns: float) -> None:
    assert in_ns(text) == ns
    assert file(text).chains["c"].slo


@pytest.mark.parametrize("text", ["100", "0us", "-1us", "us", "1 h", 100])
def test_what_is_no_duration(text: Any) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        file(text)


def test_the_delay_is_what_stands_in_front_and_a_round() -> None:
    turns = [Turn(192, 10), Turn(192, 20)]
    assert round_ns(turns, 1000) == 192 * 30 + 2 * 1000
    assert round_ns(turns[:1], 1000) == 1920
    one = Segment(slots=256, packets=192, round_ns=7760)
    assert delay_ns([one]) == pytest.approx(256 / 192 * 7760 + 7760)
    # Behind another CPU that is as fast it is twice that; the slowest sets the pace of all.
    assert delay_ns([one, one]) == pytest.approx(2 * delay_ns([one]))
    assert delay_ns([one, Segment(256, 192, 9000)]) > 2 * delay_ns([one])


def test_a_turn_under_hand_over_takes_no_more_than_the_budget() -> None:
    def delay(controller: str, quota: int | str) -> float:
        of = file(None, controller=controller)
        scheduler = of.scheduler.model_copy(update={"quota": quota})
        return Delays(scheduler, wired(of), known().costs, 1500).of("c", {"c": 8192})

    assert delay("handover", "auto") == delay("handover", 2048)
    assert delay("handover", "auto") != delay("handover", 4096)
    assert delay("priority", "auto") == delay("priority", 2048) != delay("handover", "auto")


@given(st.floats(5, 2000), st.floats(200, 50e3), st.floats(10, 20000), st.booleans())
def test_the_longest_rings_that_keep_the_goal(
    cost_ns: float, switch_ns: float, goal_us: float, handover: bool
) -> None:
    controller = "handover" if handover else "priority"
    there, goal = known(cost_ns, switch_ns), f"{goal_us:.3f}us"
    free = choice(file(None, controller=controller), there).slots
    of = file(goal, controller=controller)
    ring = choice(of, there)
    assert ring.slots & (ring.slots - 1) == 0
    assert 128 <= ring.slots <= max(free, 128)
    assert ring.p95_us is not None
    notes, problems = problems_of(of, {"c": ring}, there)
    over = ring.p95_us / (in_ns(goal) / 1000)
    assert bool(notes or problems) == (over > 1)
    lost = Delays(of.scheduler, wired(of), there.costs, switch_ns).lost("c", {"c": ring.slots})
    assert bool(notes) == (1 < over <= 2 and lost < 0.5)
    if problems:
        assert ring.slots == 128
    elif ring.slots < free:
        twice = choice(file(goal, controller=controller, ring=2 * ring.slots), there)
        assert (twice.p95_us or 0) > in_ns(goal) / 1000


@given(st.lists(st.floats(10, 20000), min_size=2, max_size=2))
def test_a_stricter_goal_makes_no_longer_rings(goals: list[float]) -> None:
    strict, loose = (choice(file(f"{us:.3f}us"), known()).slots for us in sorted(goals))
    assert strict <= loose


def test_more_functions_or_cpus_on_the_way_take_longer() -> None:
    def p95(cpus: str) -> float:
        return choice(file(cpus=cpus, ring=1024), known()).p95_us or 0

    assert p95("1111") > p95("111")
    assert p95("1212") > p95("1122")


def test_a_goal_that_cannot_be_met_says_what_can() -> None:
    of = file("5us")
    ring = choice(of, known())
    notes, problems = problems_of(of, {"c": ring}, known())
    assert not notes
    assert problems[0].location == ("chains", "c", "slo", "p95_latency")
    assert f"about {ring.p95_us:.3g} µs can" in problems[0].sentence


def test_a_stated_length_is_obeyed_and_what_is_to_be_expected_is_said() -> None:
    of = file("100us", ring=4096)
    ring = choice(of, known())
    assert ring.slots == 4096
    notes, problems = problems_of(of, {"c": ring}, known())
    assert not problems
    assert f"about {ring.p95_us:.3g} µs is to be expected with ring: 4096 of c" in notes[0]
    assert "with rings of 128 slots" in notes[0]


def test_rings_that_are_there_stay() -> None:
    rings = choices_of(file("100us"), known(), {"c": 4096})
    assert rings["c"].slots == 4096
    notes, problems = problems_of(file("100us"), rings, known(), ["c"])
    assert not problems
    assert "brought up anew" in notes[0]


def test_what_is_only_assumed_proves_nothing() -> None:
    of = file("5us")
    notes, problems = problems_of(of, choices_of(of, Known(), {}), Known())
    assert not problems
    assert "the cost of f2 is assumed; a switch is assumed" in notes[0]


def two(goals: tuple[str | None, str | None]) -> ChainFile:
    """Two chains of one function each, on one CPU."""
    one = file(goals[0], cpus="1")
    chain = one.chains["c"]
    slo = file(goals[1]).chains["c"].slo
    return one.model_copy(
        update={
            "functions": one.functions | {"f1": one.functions["f0"]},
            "chains": {"c": chain, "d": chain.model_copy(update={"path": ["f1"], "slo": slo})},
        }
    )


def test_what_can_be_met_beside_another_chain_is_what_would_be_accepted() -> None:
    refused = two(("10us", None))
    _, problems = problems_of(refused, choices_of(refused, known(), {}), known())
    can = problems[0].sentence.partition("about ")[2].partition(" µs")[0]
    accepted = two((f"{float(can) + 1}us", None))
    assert problems_of(accepted, choices_of(accepted, known(), {}), known()) == ([], [])


def test_a_cost_that_is_assumed_of_a_neighbour_proves_nothing_either() -> None:
    of = two(("10us", None))
    some = Known({"f0": 25}, 1500, 64 << 20)
    notes, problems = problems_of(of, choices_of(of, some, {}), some)
    assert not problems
    assert "the cost of f1 is assumed" in notes[0]


def test_chains_that_are_alike_grow_together() -> None:
    rings = choices_of(two(("300us", "300us")), known(), {})
    assert rings["c"].slots == rings["d"].slots > 512


def test_many_chains_are_planned_at_once() -> None:
    """31 chains of a function each, all on one CPU: what once took longer than all else."""
    functions = {f"f{at}": {"program": "sh", "cpu": 1} for at in range(31)}
    chains = {
        f"c{at}": {
            "path": [f"f{at}"],
            "slo": {"p95_latency": "9ms"},
            "match": [{"dst_port": at + 1}],
        }
        for at in range(31)
    }
    data = {"apiVersion": API_VERSION, "name": "x", "functions": functions, "chains": chains}
    of = ChainFile.model_validate(data)
    calls = 0
    real = Delays.of

    def counted(self: Delays, *args: Any) -> float:
        nonlocal calls
        calls += 1
        return real(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Delays, "of", counted)
        rings = choices_of(of, Known(dict.fromkeys(functions, 25.0), 1500, 64 << 20), {})
    assert len({ring.slots for ring in rings.values()}) <= 2
    assert calls < 20 * 31 * 31


def test_a_chain_without_a_goal_does_not_spoil_that_of_another_on_its_cpu() -> None:
    one = file("200us")
    both = one.model_copy(
        update={
            "functions": one.functions | {"f3": one.functions["f0"]},
            "chains": one.chains
            | {"d": one.chains["c"].model_copy(update={"path": ["f3"], "slo": None})},
        }
    )
    rings = choices_of(both, known(), {})
    assert rings["d"].slots < 4096
    assert problems_of(both, rings, known()) == ([], [])


def with_graph(*edges: Any, cpus: str) -> ChainFile:
    graph = [{"from": origin, "to": to, **(more[0] if more else {})} for origin, to, *more in edges]
    return file("500us", cpus=cpus, path=None, graph=graph)


HTTP = {"match": [{"dst_port": 80}]}


def test_a_way_that_passes_no_function_delays_nothing() -> None:
    of = with_graph(("ingress", "f0", HTTP), ("ingress", "egress"), ("f0", "egress"), cpus="1")
    path = file("500us", cpus="1", ring=1024)
    assert delay_ns([]) == 0
    assert choice(of, known()).p95_us
    delays = [Delays(one.scheduler, wired(one), known().costs, 1500) for one in (of, path)]
    with_bridge, plain = (each.of("c", {"c": 1024}) for each in delays)
    assert with_bridge > plain  # the way through f0 counts: there are two links in front of it


def test_what_becomes_of_copies_decides_about_no_goal() -> None:
    """Whether a packet comes to egress in time does not depend on who watches on another CPU."""
    line = (("ingress", "f0"), ("f0", "egress"))
    taps = (("f0", "f1", {"mode": "tap"}), ("f1", "f2"))
    watched, alone = with_graph(*line, *taps, cpus="123"), with_graph(*line, cpus="1")
    slow = Known({"f0": 25.0, "f1": 1e6, "f2": 1e6}, 1500, 64 << 20)
    rings = choices_of(watched, slow, {})
    assert problems_of(watched, rings, slow) == ([], [])
    assert rings["c"].slots == choice(alone, slow).slots
