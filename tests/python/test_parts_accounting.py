"""The parts of a packet's time: from what was noted of packets and threads, by a model of both."""

from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unis.parts.accounting import (
    BLOCKED,
    COPY,
    PROCESSING,
    QUEUEING,
    RECEIVE,
    RUN_DELAY,
    SEND,
    SINK,
    SOURCE,
    Account,
    Packet,
    Watched,
    account,
)
from unis.parts.passages import OWN_MOST, Direction, Passage
from unis.parts.result import (
    ClosedRound,
    RoundParts,
    WindowParts,
    closed,
    cost_of_looking,
    place_parts,
    residual_interval,
    typical,
    with_copies,
    without,
    without_looking,
)
from unis.parts.threads import Clock, Event, Kind, ThreadStates

STAMP = 7_000
CLOCK = Clock((0, 50_000), (3_000, 51_000))  # three cycles a nanosecond
ENGINE = 90  # TID of the source; that of the sink is one more
# What a thread does between two acts of its own: it is away so long, for one of two reasons.
AWAY = st.lists(st.tuples(st.sampled_from(["waits", "sleeps"]), st.integers(1, 99)), max_size=3)


@dataclass(frozen=True)
class Act:
    """The thread runs, is away, runs, ...; `runs` is one longer than `away`."""

    runs: list[int]
    away: list[tuple[str, int]]


@st.composite
def acts(draw: st.DrawFn) -> Act:
    away = draw(AWAY)
    runs = draw(st.lists(st.integers(1, 99), min_size=len(away) + 1, max_size=len(away) + 1))
    return Act(runs, away)


# Of the source: it is late, sends. Of a function: at others, receives, processes, sends. Of the
# sink: at others, receives.
WAYS = st.tuples(
    st.tuples(*[acts()] * 2),
    st.lists(st.tuples(*[acts()] * 4), min_size=1, max_size=4),
    st.tuples(*[acts()] * 2),
)
Way = tuple[tuple[Act, ...], list[tuple[Act, ...]], tuple[Act, ...]]


@dataclass
class Model:
    """Lets one packet pass a chain, and knows what became of its time."""

    ns: int = CLOCK.ns(STAMP)
    events: list[Event] = field(default_factory=list)
    passages: dict[str, list[Passage]] = field(default_factory=dict)
    parts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def act(self, name: str, part: str, thread: int, act: Act) -> None:
        def add(kind: Kind) -> None:
            self.events.append(Event(self.ns, kind, thread))

        for (why, away), run in zip([("", 0), *act.away], act.runs, strict=True):
            if why == "waits":
                add(Kind.WAITS)
                self.ns += away
                self.parts[name, RUN_DELAY] += away
                add(Kind.RUNS)
            elif why == "sleeps":
                add(Kind.SLEEPS)
                self.ns += away
                self.parts[name, BLOCKED] += away
                add(Kind.WOKEN)
                self.ns += 5
                self.parts[name, RUN_DELAY] += 5
                add(Kind.RUNS)
            self.ns += run
            self.parts[name, part] += run

    def call(self, name: str, part: str, thread: int, act: Act) -> None:
        begin = self.cycles
        self.act(name, part, thread, act)
        direction = Direction.SENT if part == SEND else Direction.RECEIVED
        passage = Passage(STAMP, begin, self.cycles, direction, thread)
        self.passages.setdefault(name, []).append(passage)

    @property
    def cycles(self) -> int:
        return (self.ns - CLOCK.begin[1]) * 3

    @property
    def functions(self) -> list[str]:
        return [name for name in self.passages if name not in (SOURCE, SINK)]

    @property
    def latency(self) -> int:
        return self.ns - CLOCK.ns(STAMP)

    def account(self) -> Account:
        return account(self.passages, self.functions, CLOCK, watched(self.events))


def watched(events: list[Event], open_: int = 10**9) -> Watched:
    ordered = sorted(events, key=lambda event: event.ns)
    return Watched(ThreadStates(ordered), STAMP - 3 * 10, 3 * 10**9, 3 * open_)


def passed(way: Way) -> Model:
    source, functions, sink = way
    model = Model()
    model.act(SOURCE, QUEUEING, ENGINE, source[0])
    model.call(SOURCE, SEND, ENGINE, source[1])
    for at, (waits, receives, processes, sends) in enumerate(functions):
        name, thread = f"f{at}", 100 + at
        model.act(name, QUEUEING, thread, waits)
        model.call(name, RECEIVE, thread, receives)
        model.act(name, PROCESSING, thread, processes)
        model.call(name, SEND, thread, sends)
    model.act(SINK, QUEUEING, ENGINE + 1, sink[0])
    model.call(SINK, RECEIVE, ENGINE + 1, sink[1])
    return model


def one_way(count: int = 1) -> Way:
    ten = Act([10], [])
    return (ten,) * 2, [(ten,) * 4] * count, (ten,) * 2


@given(WAYS)
def test_each_part_is_what_happened_and_all_are_the_latency(way: Way) -> None:
    model = passed(way)
    found = model.account()
    assert found.left_out == Counter()
    (packet,) = found.packets
    assert {key: ns for key, ns in packet.parts.items() if ns} == {**+model.parts}
    assert packet.ns == model.latency
    # One behind the other, without a gap.
    ends = [CLOCK.ns(STAMP), *(span.end for span in packet.spans)]
    assert [span.begin for span in packet.spans] == ends[:-1]


@given(WAYS, st.data())
def test_the_time_that_noting_took_is_in_no_part(way: Way, data: st.DataObject) -> None:
    """A received packet is held up after the call, a sent one before it; none behind the sink."""
    model = passed(way)
    held: Counter[tuple[str, str]] = Counter()
    for name, all_ in model.passages.items():
        for at, passage in enumerate(all_):
            ns = data.draw(st.integers(0, 40))
            all_[at] = replace(passage, own=3 * ns)
            if name != SINK:
                held[name, QUEUEING if name == SOURCE else PROCESSING] += ns
    (packet,) = model.account().packets
    expected = {key: max(0, ns - held[key]) for key, ns in model.parts.items()}
    assert {key: ns for key, ns in packet.parts.items() if ns} == {**+Counter(expected)}
    assert packet.ns + packet.own == model.latency


@given(WAYS, st.data())
def test_what_is_missing_leaves_the_packet_out_or_changes_no_sum(
    way: Way, data: st.DataObject
) -> None:
    model = passed(way)
    everything = [(name, each) for name, all_ in model.passages.items() for each in all_]
    lost = data.draw(st.integers(0, len(everything) + len(model.events) - 1))
    if lost < len(everything):
        name, passage = everything[lost]
        model.passages[name].remove(passage)
        assert not model.account().packets
    else:
        del model.events[lost - len(everything)]
    found = model.account()
    assert len(found.packets) + found.left_out.total() == 1
    for packet in found.packets:
        assert packet.ns == model.latency


@given(WAYS)
def test_unwatched_threads_run_all_the_time(way: Way) -> None:
    model = passed(way)
    (packet,) = account(model.passages, model.functions, CLOCK, None).packets
    assert packet.ns == model.latency
    assert not {part for _, part in packet.parts} & {RUN_DELAY, BLOCKED}


def test_a_packet_that_was_held_up_for_long_is_left_out() -> None:
    """So much longer, or more: this cannot be taken off."""
    for name, at in [(SOURCE, 0), ("f0", 0), ("f0", 1)]:
        model = passed(one_way())
        model.passages[name][at] = replace(model.passages[name][at], own=OWN_MOST)
        (why,) = model.account().left_out
        assert "held up for long" in why


def test_times_out_of_order_leave_the_packet_out() -> None:
    for name, at, begin, end in [
        ("f0", 1, 1, 10**6),  # it was sent before it was received
        ("f0", 0, 1, 2),  # it was received before it was sent
        (SOURCE, 0, 1, 2),  # it was sent before it was due
        (SINK, 0, 1, 2),
    ]:
        model = passed(one_way())
        model.passages[name][at] = replace(model.passages[name][at], begin=begin, end=end)
        assert model.account().left_out == {"its times are not in order": 1}, (name, at)


def test_a_packet_that_another_thread_sends_is_left_out() -> None:
    model = passed(one_way())
    model.passages["f0"][1] = replace(model.passages["f0"][1], thread=77)
    assert model.account().left_out == {"it was sent by another thread than received it": 1}


def test_a_receive_call_that_waits_for_the_packet_has_it_from_its_arrival_on() -> None:
    model = passed(one_way())
    received = model.passages["f0"][0]
    model.passages["f0"][0] = replace(received, begin=STAMP + 3)  # long before it came
    (packet,) = model.account().packets
    assert packet.parts["f0", RECEIVE] == 20
    assert packet.parts["f0", QUEUEING] == 0
    assert packet.ns == model.latency


def test_a_receiver_on_another_cpu_may_have_it_before_the_send_call_returns() -> None:
    model = passed(one_way())
    sent = model.passages[SOURCE][0]
    model.passages[SOURCE][0] = replace(sent, end=sent.end + 3 * 1000)
    (packet,) = model.account().packets
    # It came when the receive call began, at the latest.
    assert packet.parts[SOURCE, SEND] == 10 + 10
    assert packet.parts["f0", RECEIVE] == 10
    assert packet.ns == model.latency


def test_a_packet_must_pass_while_threads_are_watched() -> None:
    model = passed(one_way())
    for open_, packets in [(model.latency + 10, 1), (model.latency + 9, 0)]:
        found = account(model.passages, model.functions, CLOCK, watched(model.events, open_))
        assert len(found.packets) == packets
    assert found.left_out == {"it took longer than its threads were watched": 1}
    assert found.slow == [model.latency]


def test_a_packet_that_waits_for_a_thread_off_its_cpu() -> None:
    """The first change says what the thread was at before."""
    asleep = (Kind.WOKEN, Kind.RUNS)
    for kinds, part in [((Kind.RUNS,), RUN_DELAY), (asleep, BLOCKED)]:
        model = passed(one_way())
        begin = CLOCK.ns(model.passages[SOURCE][0].end)
        model.events += [Event(begin + 4 + at, kind, 100) for at, kind in enumerate(kinds)]
        (packet,) = model.account().packets
        assert packet.parts["f0", part] == 4
        assert packet.parts["f0", QUEUEING] == 10 - 4 - (len(kinds) - 1)
        assert packet.ns == model.latency


def test_a_thread_that_is_woken_before_it_sleeps_goes_on() -> None:
    model = passed(one_way())
    model.events.append(Event(CLOCK.ns(model.passages[SOURCE][0].end) + 3, Kind.WOKEN, 100))
    (packet,) = model.account().packets
    assert packet.parts["f0", QUEUEING] == 10


def test_other_threads_and_packets_do_not_matter() -> None:
    model = passed(one_way(2))
    (alone,) = model.account().packets
    model.events.append(Event(model.ns - 30, Kind.SLEEPS, 999))
    model.passages["f0"].append(replace(model.passages["f0"][0], stamp=STAMP + 1))
    found = model.account()
    assert found.packets == [alone]
    assert sum(found.left_out.values()) == 1


# ------------------------------------------------------------------ a typical packet


def packet(**ns: int) -> Packet:
    return Packet({("f", part): each for part, each in ns.items()}, [])


def of(*packets: Packet) -> WindowParts:
    return typical(Account([*packets]))


def test_a_typical_packet_is_of_the_middle_fifth() -> None:
    latencies = [5, 1_000_000, 12, 10, 11, 13, 1, 2_000]
    packets = [packet(queueing=ns, processing=1) for ns in latencies]
    found = typical(Account(packets))
    assert found.parts == {("f", QUEUEING): (11 + 12) / 2, ("f", PROCESSING): 1}
    assert typical(Account(packets[:1])).ns == 6


def test_packets_that_took_too_long_are_slow_ones() -> None:
    packets = [packet(queueing=ns) for ns in (1, 2, 3, 4, 5)]
    assert typical(Account(packets)).ns == 3
    assert typical(Account(packets, slow=[9, 8, 7, 6])).ns == 4.5
    # Most took too long: the slowest of the others comes nearest.
    assert typical(Account(packets, slow=[9] * 50)).ns == 5


def test_a_part_that_few_packets_have_counts_for_all() -> None:
    packets = [packet(queueing=10)] * 4 + [packet(queueing=4, processing=6)]
    assert typical(Account([packets[-1]])).parts["f", PROCESSING] == 6
    half = [packet(queueing=10)] * 2 + [packet(queueing=4, processing=6)] * 2
    found = typical(Account(half * 5))
    assert found.ns == 10


def test_what_it_adds_to_look_twice_it_had_added_to_look_once() -> None:
    pairs = [
        (
            typical(Account([packet(queueing=130 + noise)])),
            typical(Account([packet(queueing=160 + noise)])),
        )
        for noise in (0, 500, -70)
    ]
    cost = cost_of_looking(pairs)
    assert cost.parts == {("f", QUEUEING): 30}
    assert without(pairs[0][0], cost).parts == {("f", QUEUEING): 100}


def test_a_part_that_only_looking_made_is_taken_off_too() -> None:
    once, twice = (
        typical(Account([packet(queueing=5)])),
        typical(Account([packet(queueing=5, processing=4)])),
    )
    cost = cost_of_looking([(once, twice)])
    assert without(once, cost).ns == 5 - 4


def test_a_cost_that_cannot_be_told_from_nothing_is_none() -> None:
    pairs = [(of(packet(queueing=100)), of(packet(queueing=100 + ns))) for ns in (30, -20, 25, -5)]
    assert cost_of_looking(pairs).parts == {}


def test_parts_of_the_middle_half_of_the_rounds_add_up() -> None:
    told = [(1, 9), (9, 1), (5, 6), (900, 1)]
    rounds = [ClosedRound(10, of(packet(queueing=q, processing=p))) for q, p in told]
    found = place_parts("f", rounds, {QUEUEING, PROCESSING})
    assert found.ns == (10 + 11) / 2
    assert found.parts[QUEUEING].ns_per_packet == (9 + 5) / 2
    assert closed(rounds) == (10, found.ns)


def a_round(latency: float, queueing: int, more: int = 0) -> RoundParts:
    """`more`: ns of a part, where packets are followed twice."""
    once, twice = (of(packet(queueing=ns)) for ns in (queueing, queueing + more))
    return RoundParts(latency, once, twice, {})


def test_latency_and_sum_are_of_the_same_rounds() -> None:
    """A machine that gets slower in half of them changes both, and no residual."""
    rounds = [a_round(10 * ns, 9 * ns) for ns in (1, 1, 1, 70, 70, 70)]
    latency, sum_ns = closed(without_looking(rounds)[0])
    assert sum_ns == pytest.approx(0.9 * latency)
    assert residual_interval(rounds) == pytest.approx((0.1, 0.1))


def test_the_interval_of_a_residual_holds_it_and_narrows_with_the_rounds() -> None:
    def rounds(spread: int) -> list[RoundParts]:
        return [a_round(100, 90 + at * spread) for at in (-2, -1, 0, 1, 2, 0)]

    assert residual_interval(rounds(0)) == pytest.approx((0.1, 0.1))
    narrow, wide = (residual_interval(rounds(spread)) for spread in (1, 9))
    assert wide[0] < narrow[0] < 0.1 < narrow[1] < wide[1]


def test_a_cost_of_looking_that_is_not_sure_makes_the_interval_wide() -> None:
    sure = residual_interval([a_round(100, 100, 10) for _ in range(6)])
    assert sure == pytest.approx((0.1, 0.1))
    low, high = residual_interval([a_round(100, 100, more) for more in (10, 1, 18, -2, 12, 9)])
    assert low < 0.08 < high - 0.01


def test_copies_are_of_the_receive_call() -> None:
    parts = WindowParts(parts={("f", RECEIVE): 100, ("f", SEND): 7, ("g", RECEIVE): 50})
    found = with_copies(parts, {"f": 30})
    assert found.parts["f", RECEIVE] == 70
    assert found.parts["f", COPY] == 30
    assert found.parts["g", RECEIVE] == 50
    assert found.ns == parts.ns


def test_what_is_of_the_kernel_is_told_as_such() -> None:
    window = WindowParts(parts={("f", RUN_DELAY): 1, ("f", QUEUEING): 2, ("g", SEND): 3})
    found = place_parts("f", [ClosedRound(6, window)] * 2, {RUN_DELAY, QUEUEING, SEND})
    assert {part: time.provider for part, time in found.parts.items()} == {
        QUEUEING: "passages", RUN_DELAY: "tracepoints", SEND: "passages",
    }  # fmt: skip
