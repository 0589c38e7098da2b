"""Advice on made-up profiles: it is in order, new, and can be followed."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.python.planned import planned, small
from tests.python.strategies import Data, maybe
from tests.python.test_profile_chain import chain_parts
from unis import links
from unis.advice import advisor, trial
from unis.advice.advisor import with_advice
from unis.advice.change import changed, lines_of, value_at
from unis.advice.observed import observed, of_stats
from unis.advice.rules import LEAST_GAIN, Situation, advise, driver_change
from unis.advice.trial import TrialSettings, in_turn
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.cli.profile_advice import (
    advised,
    followed,
    print_advice,
)
from unis.engine import names
from unis.errors import UnisError
from unis.measure.paired import Ratio
from unis.measure.primitives import MedianNs, Primitive, Primitives
from unis.parts.accounting import PARTS
from unis.parts.advised import Advice, ChainUse, FunctionUse, Trial, TrialLoad
from unis.parts.result import ChainParts, PartTime, PlaceParts
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.v1 import engine_pb2 as pb

PATH = ("fw", "nat", "monitor")
_MMSG: Data = {"kind": "veth", "driver": "mmsg"}


def links_of(**more: object) -> list[Data]:
    ends = itertools.pairwise(("ingress", *PATH, "egress"))
    return [{"from": one, "to": other, **more} for one, other in ends]


def use_of(data: Data, **more: object) -> ChainUse:
    """A chain on one CPU that polls half of the time."""
    part = ChainFile.model_validate(data).scheduler
    usual: dict[str, Any] = {
        "policy": part.policy, "controller": part.controller, "delivered_kpps": 16,
        "engine_ns": 1000, "lost": {}, "out_of_order": None, "switch_ns": 0, "p95_us": None,
        "functions": [
            FunctionUse(name=name, cpu=1, cost_ns=2000, packets=1, busy=0.1, spinning=0.2,
                        waiting=0.7, sleeping=0)
            for name in PATH
        ],
    }  # fmt: skip
    return ChainUse.model_validate(usual | more)


def parts_of(**ns: float) -> ChainParts:
    """Of a packet that takes 9 µs; ns of the parts of the last function, `_` for a blank."""
    parts = {
        part.replace("_", " "): PartTime(ns_per_packet=each, interval=(each, each),
                                         provider="tracepoints")
        for part, each in ns.items()
    }  # fmt: skip
    found = chain_parts(0, len(PATH))
    return found.model_copy(
        update={"functions": [PlaceParts(name="monitor", parts=parts)], "edges": []}
    )


def situation(
    data: Data, use: ChainUse | None = None, parts: ChainParts | None = None, **more: Any
) -> Situation:
    return Situation(
        ChainFile.model_validate(data), planned(data), parts or chain_parts(0, 3),
        use or use_of(data), more.pop("primitives", None), **more,
    )  # fmt: skip


def primitives(**ns: float) -> Primitives:
    """By the words of `_ROWS`."""
    rows = [
        Primitive(group=group, name=name, labels=labels, provider="clock",
                  ns=MedianNs(samples=9, median_ns=ns[word], low_ns=ns[word], high_ns=ns[word]))
        for word, (group, name, labels) in _ROWS.items() if word in ns
    ]  # fmt: skip
    return Primitives.of(1, 0, rows)


_ROWS: dict[str, tuple[Any, str, dict[str, int | str]]] = {
    "fifo": ("switch", "fifo", {"by": "yield", "between": "processes"}),
    "other": ("switch", "other", {"by": "yield", "between": "processes"}),
    "wake": ("wake_up", "other", {"by": "futex", "from": "same CPU"}),
    "recv": ("packet", "recv", {"frame_bytes": 60}),
    "send": ("packet", "send", {"frame_bytes": 60, "qdisc": "passed"}),
    "recv1": ("packet", "recvmmsg", {"frame_bytes": 60, "batch": 1}),
    "send1": ("packet", "sendmmsg", {"frame_bytes": 60, "batch": 1}),
    "recv32": ("packet", "recvmmsg", {"frame_bytes": 60, "batch": 32}),
    "send32": ("packet", "sendmmsg", {"frame_bytes": 60, "batch": 32}),
}

POLLING = small(scheduler={"policy": "other", "max_delay_us": 0}, links=links_of(**_MMSG))
WELL_SET = small(scheduler={"policy": "unis"}, links=links_of(**_MMSG))


def test_functions_that_poll_under_the_kernel_shall_hand_the_cpu_over() -> None:
    (advice,), _ = advise(situation(POLLING))
    assert advice.change == {"scheduler.policy": "unis"}
    # 6 µs a packet against 16 kpps: 166.7 would pass.
    assert advice.expected_gain == pytest.approx(1e6 / 6000 / 16)
    assert any("16.0 kpps pass" in fact for fact in advice.rests_on)


def test_the_platform_bounds_what_may_be_gained() -> None:
    (advice,), _ = advise(situation(POLLING, use_of(POLLING, engine_ns=20_000)))
    assert advice.expected_gain == pytest.approx(50 / 16)


def test_what_hand_over_takes_is_reckoned_with() -> None:
    found, _ = advise(situation(POLLING, primitives=primitives(fifo=200_000)))
    assert found[0].expected_gain < 0.8 * 1e6 / 6000 / 16


def test_waiting_is_the_second_choice_where_it_is_calibrated() -> None:
    both = primitives(fifo=1000, other=1100, wake=2400)
    found, _ = advise(situation(POLLING, primitives=both))
    assert [advice.kind for advice in found] == ["throughput"] * 2
    assert found[1].change == {f"links.{at}.wait": True for at in range(4)}
    assert found[1].expected_gain == pytest.approx(1e6 / (3 * 5500) / 16)


def test_functions_that_wait_poll_again_under_hand_over() -> None:
    waiting = small(scheduler={"policy": "other"}, links=links_of(**_MMSG, wait=True))
    (advice,), considered = advise(situation(waiting))
    assert advice.change == {"scheduler.policy": "unis"} | {
        f"links.{at}.wait": False for at in range(4)
    }
    assert any("wait in their receive call. They do." in each for each in considered)


def test_of_a_well_set_chain_nothing_is_to_be_gained(capsys: pytest.CaptureFixture[str]) -> None:
    use = use_of(WELL_SET, delivered_kpps=120, out_of_order=0.01)
    advice, considered = advise(situation(WELL_SET, use, primitives=primitives(fifo=1000)))
    assert advice == []
    assert len(considered) > 3
    found = chain_parts(0).model_copy(update={"use": use, "considered": considered})
    print_advice(found, None)
    said = capsys.readouterr().out
    assert "UNiS knows no change" in said
    assert "why it is not advised:\n  " in said


def test_without_costs_nothing_is_reckoned() -> None:
    use = use_of(POLLING)
    free = [each.model_copy(update={"cost_ns": 0}) for each in use.functions]
    advice, considered = advise(situation(POLLING, use.model_copy(update={"functions": free})))
    assert advice == []
    assert any("state `cost_ns`" in each for each in considered)


def test_a_small_batch_is_told_by_the_calls_that_it_costs() -> None:
    small_batch = small(links=links_of(**_MMSG, batch=1))
    calls = primitives(fifo=0, recv1=500, send1=900, recv32=300, send32=500)
    (advice,), _ = advise(situation(small_batch, primitives=calls))
    assert advice.change == {f"links.{at}.batch": 32 for at in range(4)}
    assert advice.expected_gain == pytest.approx(2000 / 1400, rel=0.01)


def test_single_calls_become_vectors() -> None:
    single = small(links=links_of(**_MMSG, calls="single"))
    calls = primitives(recv=700, send=1000, recv32=300, send32=500)
    (advice,), _ = advise(situation(single, primitives=calls))
    assert advice.change == {f"links.{at}.calls": "vector" for at in range(4)}


def test_a_free_cpu_takes_an_end_of_the_chain() -> None:
    (advice,), _ = advise(situation(WELL_SET, free=frozenset({3})))
    assert advice.expected_gain == pytest.approx(1.5, rel=0.01)
    assert [*advice.change.values()] in ([3], [3, 3])
    assert {*advice.change} <= {f"functions.{name}.cpu" for name in PATH}


def test_short_queues_are_what_a_round_of_slices_passes() -> None:
    short = small(scheduler={"policy": "other"}, links=links_of(kind="veth", slots=256))
    lossy = use_of(short, lost={"by the kernel, on links": 0.5})
    found, _ = advise(situation(short, lossy))
    assert [*found[1].change] == [f"links.{at}.slots" for at in range(4)]
    # A queue that is long enough for all of it passes no more than hand-over, and delays it.
    assert found[0].change == {"scheduler.policy": "unis"}
    none, considered = advise(situation(POLLING, use_of(POLLING, lost=lossy.lost)))
    assert len(none) == 1
    assert any("cannot be longer" in each for each in considered)


def test_short_rings_cost_switches() -> None:
    short = small(chains={"c": {"path": [*PATH], "ring": 128}})
    cheap = [each.model_copy(update={"cost_ns": 50}) for each in use_of(short).functions]
    use = use_of(short, functions=cheap, engine_ns=0)
    (advice,), _ = advise(situation(short, use, primitives=primitives(fifo=1000)))
    assert advice.change == {"chains.c.ring": 4096}
    assert advice.kind == "throughput"


def test_a_turn_is_no_longer_than_the_links_that_stay_as_they_are() -> None:
    mixed = small(links=[links_of(kind="veth", slots=128)[0], *links_of(**_MMSG)[1:]])
    now = situation(mixed, use_of(mixed, engine_ns=0), primitives=primitives(fifo=300_000))
    (advice,), _ = advise(now)
    assert advice.change == {"links.0.slots": 4096}
    room = min(links.KINDS[link.kind].waiting_room(link) for link in now.plan.links[1:])
    before, after = (6000 + 3 * 300_000 / (0.75 * each) for each in (128, room))
    assert advice.expected_gain == pytest.approx(before / after, rel=0.01)


def test_another_driver_is_advised_by_costs_that_were_measured() -> None:
    af_packet = small(links=links_of(kind="veth"))
    costs = {
        driver: dict.fromkeys(PATH, ns)
        for driver, ns in (("af_packet", 3000.0), ("af_xdp", 1500.0))
    }
    (advice,), considered = advise(situation(af_packet, costs=costs))
    assert advice.expected_gain == pytest.approx(2, rel=0.01)
    assert {key: value for key, value in advice.change.items() if value} == {
        f"links.{at}.kind": "xdp" for at in range(4)
    }
    assert any("by mmsg." in each and "not measured" in each for each in considered)
    lacking = {"af_xdp": "this kernel has no AF_XDP"}
    none, considered = advise(situation(af_packet, costs=costs, lacking=lacking))
    assert none == []
    assert any("no AF_XDP" in each for each in considered)


def test_sleep_is_to_blame_only_where_a_goal_is_missed() -> None:
    goal = {"c": {"path": [*PATH], "slo": {"p95_latency": "500us"}}}
    slow = small(links=links_of(**_MMSG), scheduler={"max_delay_us": 100})
    parts = parts_of(blocked=6000, queueing=1000)
    none, considered = advise(situation(slow, parts=parts))
    assert none == []
    assert any("67% of the latency is `blocked`" in each for each in considered)
    with_goal = slow | {"chains": goal}
    assert advise(situation(with_goal, use_of(with_goal, p95_us=400), parts))[0] == []
    (advice,), _ = advise(situation(with_goal, use_of(with_goal, p95_us=600), parts))
    assert (advice.kind, advice.change) == ("latency", {"scheduler.max_delay_us": 0})
    assert advice.expected_gain == pytest.approx(3)


def test_a_lost_order_costs_rounds() -> None:
    loose = small(links=links_of(**_MMSG), scheduler={"keep_order": False})
    parts = parts_of(queueing=3000, run_delay=3000)
    use = use_of(loose, out_of_order=0.5)
    (advice,), _ = advise(situation(loose, use, parts))
    assert advice.change == {"scheduler.keep_order": True}
    assert advice.expected_gain == pytest.approx(1 / (1 - 2 / 3 * 0.5), rel=0.01)
    none, considered = advise(situation(loose, use, parts.model_copy(update={"residual": -0.6})))
    assert none == []
    assert any("do not explain" in each for each in considered)


# ------------------------------------------------------------------ whatever the profile

_NS = st.floats(0, 1e9, allow_nan=False)
_SHARES = st.floats(0, 1)
_LINKS = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.just("veth"), "driver": st.just("mmsg")},
        optional={"batch": st.integers(1, 256), "calls": st.sampled_from(["single", "vector"])},
    ),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["veth", "bridge", "memif", "ring"])},
        optional={"slots": st.sampled_from([128, 256, 4096, 16384])},
    ),
    st.just({"kind": "xdp"}),
)
_SCHEDULERS = maybe(
    policy=st.sampled_from(["unis", "other", "batch", "rr", "fifo", "cooperative"]),
    controller=st.sampled_from(["handover", "priority"]),
    max_delay_us=st.sampled_from(["auto", 0, 50]),
    keep_order=st.booleans(),
    quota=st.sampled_from(["auto", 64, 1024]),
)


@st.composite
def chains(draw: st.DrawFn) -> Data:
    """All links alike, or not."""
    data = small(scheduler=draw(_SCHEDULERS))
    link = draw(_LINKS)
    if link["kind"] != "ring" or draw(st.booleans()):
        waits = link.get("driver") == "mmsg" and data["scheduler"].get("policy") in ("other", "rr")
        wait = {"wait": True} if waits and draw(st.booleans()) else {}
        data["links"] = links_of(**link, **wait)
    elif draw(st.booleans()):
        data["chains"] = {"c": {"path": [*PATH], "ring": draw(st.sampled_from([128, 8192]))}}
    if draw(st.booleans()):
        data["chains"]["c"]["slo"] = {"p95_latency": "100us"}
        data["chains"]["c"].pop("ring", None)
    for name in draw(st.sets(st.sampled_from(PATH))):
        data["functions"][name]["cpu"] = 2
    return data


@st.composite
def situations(draw: st.DrawFn) -> tuple[Data, Situation]:
    data = draw(chains())
    file = ChainFile.model_validate(data)
    functions = [
        FunctionUse(
            name=name, cpu=file.function(name).cpu or 0, cost_ns=draw(_NS), packets=draw(_SHARES),
            busy=draw(_SHARES), spinning=draw(_SHARES), waiting=draw(_SHARES),
            sleeping=draw(_SHARES),
        )
        for name in draw(st.sampled_from([PATH, PATH[:1], ()]))
    ]  # fmt: skip
    use = use_of(
        data, functions=functions, delivered_kpps=draw(_NS), engine_ns=draw(_NS),
        lost={"by the kernel, on links": draw(_NS)}, out_of_order=draw(st.none() | _SHARES),
        p95_us=draw(st.none() | _NS),
    )  # fmt: skip
    times = {part.replace(" ", "_"): draw(_NS) for part in draw(st.sets(st.sampled_from(PARTS)))}
    words = draw(st.dictionaries(st.sampled_from([*_ROWS]), _NS))
    known = draw(st.sets(st.sampled_from(["mmsg", "af_packet", "af_xdp"])))
    return data, situation(
        data, use, parts_of(**times), primitives=draw(st.just(None) | st.just(primitives(**words))),
        free=draw(st.frozensets(st.integers(3, 7), max_size=2)),
        costs={driver: {name: draw(_NS) for name in PATH} for driver in known},
    )  # fmt: skip


@given(situations())
def test_advice_is_in_order_new_and_can_be_followed(made: tuple[Data, Situation]) -> None:
    data, now = made
    advice, considered = advise(now)
    gains = [each.expected_gain for each in advice]
    assert gains == sorted(gains, reverse=True)
    assert all(gain >= LEAST_GAIN for gain in gains)
    stated = now.file.model_dump(mode="json", by_alias=True)
    for each in advice:
        assert each.change
        assert each.rests_on
        assert all(value_at(stated, path) != value for path, value in each.change.items())
        planned(changed(data, each.change))
        assert lines_of(now.file, each.change)
    assert len({each.what for each in advice}) == len(advice)
    assert all(each.strip() for each in considered)


@pytest.mark.parametrize("driver", ["mmsg", "af_packet", "af_xdp"])
def test_every_driver_can_be_stated(driver: str) -> None:
    data = small(links=links_of(**_MMSG, batch=8))
    planned(changed(data, driver_change(ChainFile.model_validate(data), driver)))


# ------------------------------------------------------------------ trials


def a_trial(what: str, *, worth: bool) -> Trial:
    load_ = TrialLoad(before=1, after=2, gain=Ratio(median=2, lo=1.9, hi=2.1))
    return Trial(what=what, how="windows", overload_kpps=load_, half_load_us=load_, worth=worth)


def advice_of(count: int) -> list[Advice]:
    return [
        Advice(what=f"{at}.", change={"scheduler.policy": "unis"}, expected_gain=2,
               kind="throughput", rests_on=["a fact"])
        for at in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(("works", "tried", "taken"), [(0, 1, 0), (2, 3, 2), (4, 3, None)])
def test_trials_end_with_the_first_that_helps_or_the_third(
    works: int, tried: int, taken: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        trial, "_tried", lambda advice, *_: a_trial(advice.what, worth=advice.what == f"{works}.")
    )
    chain = LoadedChain(Path("x.yaml"), ChainFile.model_validate(POLLING))
    machine = Machine(frozenset({0, 1}))
    done, _ = in_turn(advice_of(5), chain, machine, TrialSettings(2, 0.1), lambda _: None)
    assert len(done) == tried
    found = chain_parts(0).model_copy(update={"advice": advice_of(5), "tried": done})
    best = advised(found)
    assert (best and best.what) == (None if taken is None else f"{taken}.")


class _Up:
    """A chain that is up, in place of a real one: it passes more if its batch is 32."""

    def __init__(self, chain: LoadedChain) -> None:
        self.plan = planned(chain.file.model_dump(mode="json", by_alias=True, exclude_unset=True))
        self.fast = chain.file.links[0].batch == 32
        self.client = self

    def check(self) -> None:
        """It lives."""

    def settle(self) -> None:
        """It is empty."""

    def measure(self, request: pb.MeasureRequest) -> pb.MeasureReply:
        """Delivered is what passes at most, or what is offered."""
        most = 300_000 if self.fast else 100_000
        reply = pb.MeasureReply(
            window_ns=1_000_000_000, delivered=min(most, round(request.pps)), policy=request.policy
        )
        reply.latency.value_ns.append(5000)
        reply.latency.count.append(9)
        return reply


def test_what_needs_a_restart_is_tried_in_bring_ups_whose_order_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came: list[str] = []

    def brought_up(make: Any, _machine: Any, _options: Any, _report: Any, look: Any) -> Any:
        up = _Up(make())
        came.append("B" if up.fast else "A")
        return look(up)

    monkeypatch.setattr(trial, "brought_up", brought_up)
    monkeypatch.setattr(trial, "plan_chain", lambda chain, _: _Up(chain).plan)
    file = ChainFile.model_validate(small(links=links_of(**_MMSG, batch=1)))
    advice = Advice(
        what="Do so.", change={f"links.{at}.batch": 32 for at in range(4)}, expected_gain=2,
        kind="throughput", rests_on=["a fact"],
    )  # fmt: skip
    machine = Machine(frozenset({0, 1}))
    chain = LoadedChain(Path("x.yaml"), file)
    ((done,), _) = in_turn([advice], chain, machine, TrialSettings(6, 0.1), lambda _: None)
    assert "".join(came) == "ABBAABBA"
    assert (done.how, done.worth) == ("bring-ups", True)
    assert (done.overload_kpps.before, done.overload_kpps.after) == (100, 300)
    assert done.overload_kpps.gain is not None
    assert done.overload_kpps.gain.median == 3
    assert done.half_load_us.gain is not None
    assert done.half_load_us.gain.median == 1


def test_what_cannot_be_tried_is_told_and_the_next_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(advice: Advice, *_: object) -> Trial:
        if advice.what == "0.":
            raise UnisError("no such driver")
        return a_trial(advice.what, worth=True)

    monkeypatch.setattr(trial, "_tried", tried)
    chain = LoadedChain(Path("x.yaml"), ChainFile.model_validate(POLLING))
    told: list[str] = []
    machine = Machine(frozenset({0, 1}))
    done, refused = in_turn(advice_of(2), chain, machine, TrialSettings(2, 0.1), told.append)
    assert [each.what for each in done] == ["1."]
    assert refused == {"0.": "no such driver"}
    assert any("no such driver" in line for line in told)


def test_what_cannot_be_tried_is_advised_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(*_: object) -> Trial:
        raise UnisError("no such driver")

    monkeypatch.setattr(trial, "_tried", tried)
    chain = LoadedChain(Path("x.yaml"), ChainFile.model_validate(POLLING))
    found = followed(chain_parts(0).model_copy(update={"advice": advice_of(2)}), chain, 0.1)
    assert advised(found) is None
    assert found.considered[-2:] == [f"{at}. It cannot be tried: no such driver" for at in range(2)]


def test_what_cannot_be_planned_is_no_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan_chain(chain: LoadedChain, _: Machine) -> Plan:
        if chain.file.scheduler.policy == "unis":
            raise UnisError("no room")
        return planned(POLLING)

    monkeypatch.setattr(advisor, "plan_chain", plan_chain)
    monkeypatch.setattr(advisor, "others", list)
    chain = LoadedChain(Path("x.yaml"), ChainFile.model_validate(POLLING))
    machine = Machine(frozenset({0, 1}))
    found = with_advice(chain_parts(0, 3), chain, planned(POLLING), use_of(POLLING), machine)
    assert all(each.change != {"scheduler.policy": "unis"} for each in found.advice)
    assert any("It cannot be planned: no room" in each for each in found.considered)


# ------------------------------------------------------------------ what counters say


def test_a_run_that_is_interrupted_has_its_policy_again() -> None:
    asked: list[tuple[int, int | None]] = []

    class Client:
        def stats(self) -> pb.Stats:
            return pb.Stats(policy=names.policy("other"))

        def measure(self, _: pb.MeasureRequest) -> pb.MeasureReply:
            raise KeyboardInterrupt

        def set_policy(self, policy: int, controller: int | None = None) -> None:
            asked.append((policy, controller))

    client: Any = Client()
    with pytest.raises(KeyboardInterrupt):
        observed(planned(POLLING), client, [*PATH], 0.1, 1000)
    assert asked == [(names.policy("other"), None)]


def stats_at(seconds: int, *, waits: bool = False) -> pb.Stats:
    """Of one function that has 5 µs of CPU for each of 100 packets a second, half of it busy."""
    packets, ns = 100 * seconds, 1_000_000_000 * seconds
    stats = pb.Stats(policy=names.policy("other"))
    stats.account.offered, stats.account.delivered = 4 * packets, packets
    stats.account.dropped_ingress_full, stats.account.dropped_on_links = 2 * packets, packets
    function = stats.functions.add(name="f", cpu=1, cost_ns=50, cpu_time_ns=5000 * packets)
    function.cost_source = pb.COST_SOURCE_ASSUMED if waits else pb.COST_SOURCE_FOLLOWED
    function.voluntary_switches = packets // 2
    function.paths.add(chain="c", rx_packets=packets)
    function.time.elapsed_ns, function.time.busy_ns = ns, ns // 2
    function.time.run_delay_ns = ns // 4
    stats.components.add(name="source", cpu=0, handled=1, busy_ns=3000 * packets)
    stats.components.add(name="sink", cpu=0, handled=1, busy_ns=1000 * packets)
    stats.cores.add(cpu=1, order_seen=10 * seconds, out_of_order=2 * seconds)
    return stats


@pytest.mark.parametrize(("waits", "cost", "by"), [(False, 50, "engine"), (True, 5000, "kernel")])
def test_counters_of_a_window_are_those_between_two_snapshots(
    waits: bool, cost: float, by: str
) -> None:
    use = of_stats(
        stats_at(1, waits=waits),
        stats_at(3, waits=waits),
        ["f"],
        "handover",
        {"f"} if waits else (),
    )
    (function,) = use.functions
    assert (function.cost_ns, function.cost_by, function.switches) == (cost, by, 0.5)
    assert (function.busy, function.waiting, function.sleeping) == (0.5, 0.25, 0)
    assert use.lost["first ring full"] == 2
    assert use.lost_on_links == 1
    # The source sent two packets of four: 1500 ns each.
    assert use.engine_ns == 1500 + 1000
    assert use.out_of_order == pytest.approx(0.2)


def test_wake_ups_are_no_part_of_what_a_packet_costs() -> None:
    use = use_of(POLLING)
    functions = [
        each.model_copy(update={"cost_ns": 5000, "cost_by": "kernel", "switches": 0.5})
        for each in use.functions
    ]
    found = situation(
        POLLING, use_of(POLLING, functions=functions), primitives=primitives(other=1000, wake=2000)
    )
    assert found.cost_ns == dict.fromkeys(PATH, 3500)


def test_a_profile_with_advice_is_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    chain = LoadedChain(Path("x.yaml"), ChainFile.model_validate(POLLING))
    advice, considered = advise(situation(POLLING))
    done = [a_trial(advice[0].what, worth=True)]
    found = chain_parts(0).model_copy(
        update={"use": use_of(POLLING), "advice": advice, "considered": considered, "tried": done}
    )
    assert ChainParts.model_validate_json(found.model_dump_json()) == found
    assert json.loads(found.model_dump_json())["advice"][0]["expected_gain"] > 10
    print_advice(found, chain)
    said = capsys.readouterr().out
    assert "1. Let the functions hand the CPU over" in said
    assert "It was worth it" in said
    assert "scheduler: {policy: unis}" in said
