"""The parts of a packet's time: from events of packets and threads, by a model that makes them."""

import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unis.errors import UnisError
from unis.parts.accounting import (
    BLOCKED,
    COPY,
    GETTING,
    HOLDING,
    PARTS,
    PROCESSING,
    QUEUEING,
    RECEIVE,
    RUN_DELAY,
    SEND,
    SINK,
    SOURCE,
    WAITING,
    FunctionStage,
    Packet,
    Route,
    account,
)
from unis.parts.events import _EVENT, Clock, Event, Kind, PacketPlace, Recording, read_recording
from unis.parts.result import WindowParts, place_parts, typical, with_calls, without_probes

STAMP = 7_000
CLOCK = Clock((0, 50_000), (3_000, 51_000))  # three cycles a nanosecond
NOWHERE = PacketPlace(0, 0)
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


# Up to the receive call, in it, the copy, in it again, processing, up to the arrival behind.
SIX = (QUEUEING, GETTING, COPY, RECEIVE, PROCESSING, SEND)
WAYS = st.lists(st.tuples(*[acts()] * 6), min_size=1, max_size=4)


@dataclass
class Model:
    """Lets one packet pass a chain, and knows what became of its time."""

    ns: int = 0
    events: list[Event] = field(default_factory=list)
    parts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, kind: Kind, thread: int, place: PacketPlace = NOWHERE, **more: int) -> None:
        packet = STAMP if kind in (Kind.ARRIVED, Kind.TAKEN, Kind.CAME) else 0
        self.events.append(Event(self.ns, packet, kind, thread, place, **more))

    def act(self, name: str, part: str, thread: int, act: Act) -> None:
        for (why, away), run in zip([("", 0), *act.away], act.runs, strict=True):
            if why == "waits":
                self.add(Kind.WAITS, thread)
                self.ns += away
                self.parts[name, RUN_DELAY] += away
                self.add(Kind.RUNS, thread)
            elif why == "sleeps":
                self.add(Kind.SLEEPS, thread)
                self.ns += away
                self.parts[name, BLOCKED] += away
                self.add(Kind.WOKEN, thread)
                self.ns += 5
                self.parts[name, RUN_DELAY] += 5
                self.add(Kind.RUNS, thread)
            self.ns += run
            self.parts[name, part] += run

    def function(self, name: str, thread: int, behind: PacketPlace, six: tuple[Act, ...]) -> None:
        at = []
        for part, act in zip(SIX, six, strict=True):
            self.act(name, part, thread, act)
            at.append(self.ns)
            if len(at) == 2:
                self.add(Kind.TAKEN, thread, entered=at[0])
        self.add(Kind.ARRIVED, thread, behind, copied=at[2], returned=at[3], entered=at[4])


def passed(way: list[tuple[Act, ...]]) -> tuple[Recording, Route, Counter[tuple[str, str]]]:
    places = [PacketPlace(1, index) for index in range(len(way) + 1)]
    stages = [FunctionStage(f"f{i}", 100 + i, places[i]) for i in range(len(way))]
    model = Model(ns=CLOCK.ns(STAMP))
    model.ns += 40
    model.parts[SOURCE, SEND] = 40
    model.add(Kind.ARRIVED, 0, places[0])
    for stage, six, behind in zip(stages, way, places[1:], strict=True):
        model.function(stage.name, stage.thread, behind, six)
    model.ns += 30
    model.parts[SINK, QUEUEING] = 30
    cycles = (model.ns - CLOCK.begin[1]) * 3
    model.add(Kind.CAME, 0, entered=cycles)
    return Recording(model.events, CLOCK), Route(stages, places[-1], 1), model.parts


def latency(recording: Recording) -> int:
    return recording.events[-1].ns - CLOCK.ns(STAMP)


@given(WAYS)
def test_each_part_is_what_happened_and_all_are_the_latency(way: list[tuple[Act, ...]]) -> None:
    recording, route, parts = passed(way)
    found = account(recording, route)
    assert found.left_out == Counter()
    (packet,) = found.packets
    assert {key: ns for key, ns in packet.parts.items() if ns} == {**+parts}
    assert packet.ns == latency(recording)


@given(WAYS, st.data())
def test_what_is_missing_leaves_the_packet_out_or_changes_no_sum(
    way: list[tuple[Act, ...]], data: st.DataObject
) -> None:
    recording, route, _ = passed(way)
    lost = data.draw(st.integers(0, len(recording.events) - 1))
    events = [event for at, event in enumerate(recording.events) if at != lost]
    found = account(replace(recording, events=events), route)
    assert len(found.packets) + found.left_out.total() == 1
    if recording.events[lost].packet:
        assert not found.packets
    for packet in found.packets:
        assert packet.ns == latency(recording)


@given(WAYS, st.data())
def test_calls_out_of_order_leave_the_packet_out(
    way: list[tuple[Act, ...]], data: st.DataObject
) -> None:
    recording, route, _ = passed(way)
    sent = [at for at, event in enumerate(recording.events) if event.copied]
    at = data.draw(st.sampled_from(sent))
    sent_at = recording.events[at]
    early = (replace(sent_at, copied=1), replace(sent_at, returned=1), replace(sent_at, entered=1))
    events = list(recording.events)
    events[at] = data.draw(st.sampled_from(early))
    found = account(replace(recording, events=events), route)
    assert found.left_out == {"its calls are not in order": 1}


def one_way(count: int = 1) -> list[tuple[Act, ...]]:
    return [(Act([10], []),) * 6] * count


def test_a_packet_that_waits_for_a_thread_off_its_cpu() -> None:
    """The first change says what the thread was at before."""
    asleep = (Kind.WOKEN, Kind.RUNS)
    for kinds, part in [((Kind.RUNS,), RUN_DELAY), (asleep, BLOCKED)]:
        recording, route, _ = passed(one_way())
        begin = recording.events[0].ns
        changes = [Event(begin + 4 + at, 0, kind, 100, NOWHERE) for at, kind in enumerate(kinds)]
        events = sorted([*recording.events, *changes], key=lambda event: event.ns)
        (packet,) = account(replace(recording, events=events), route).packets
        assert packet.parts["f0", part] == 4
        assert packet.parts["f0", QUEUEING] == 10 - 4 - (len(kinds) - 1)
        assert packet.ns == latency(recording)


def test_a_thread_that_is_woken_before_it_sleeps_goes_on() -> None:
    recording, route, parts = passed(one_way())
    woken = Event(recording.events[0].ns + 3, 0, Kind.WOKEN, 100, NOWHERE)
    events = sorted([*recording.events, woken], key=lambda event: event.ns)
    (packet,) = account(replace(recording, events=events), route).packets
    assert packet.parts["f0", QUEUEING] == parts["f0", QUEUEING]


def test_other_threads_and_packets_do_not_matter() -> None:
    recording, route, _ = passed(one_way(2))
    (alone,) = account(recording, route).packets
    middle = recording.events[1].ns
    others = [
        Event(middle, 0, Kind.SLEEPS, 999, NOWHERE),
        Event(middle, STAMP + 1, Kind.ARRIVED, 0, route.stages[0].device),
    ]
    events = sorted([*recording.events, *others], key=lambda event: event.ns)
    found = account(replace(recording, events=events, lost=3), route)
    assert found.packets == [alone]
    assert found.left_out == {"did not come to the sink": 1}
    assert found.lost_events == 3


def test_one_that_is_seen_twice_is_left_out() -> None:
    recording, route, _ = passed(one_way())
    events = [*recording.events, recording.events[0]]
    found = account(replace(recording, events=events), route)
    assert found.left_out == {"seen twice at one place": 1}


# ------------------------------------------------------------------ what the tracer wrote


def written(recording: Recording) -> bytes:
    head = {
        "events": len(recording.events), "bytes": _EVENT.size, "lost": recording.lost,
        "clocks": [recording.clock.begin, recording.clock.end],
    }  # fmt: skip
    rows = [
        _EVENT.pack(
            event.ns, event.packet, event.kind, event.thread, event.device.index,
            event.device.namespace, event.entered, event.copied, event.returned,
        )
        for event in recording.events
    ]  # fmt: skip
    random.Random(1).shuffle(rows)
    return json.dumps(head).encode() + b"\n" + b"".join(rows)


def test_a_recording_is_read_in_order() -> None:
    recording, route, _ = passed(one_way(3))
    read = read_recording(written(recording))
    assert account(read, route).packets == account(recording, route).packets


@pytest.mark.parametrize("data", [b"", b"nothing\n", b'{"events": 1}\n'])
def test_what_is_no_recording_is_told(data: bytes) -> None:
    with pytest.raises(UnisError, match="wrote no recording"):
        read_recording(data)


def test_a_part_of_a_recording_is_told() -> None:
    recording, _, _ = passed(one_way())
    with pytest.raises(UnisError, match="both must be of one build"):
        read_recording(written(recording)[:-1])


def test_stamps_keep_their_last_digit() -> None:
    clock = Clock((1 << 62, 1 << 61), ((1 << 62) + 3_000_000_000, (1 << 61) + 1_000_000_000))
    assert clock.ns((1 << 62) + 9) == (1 << 61) + 3


# ------------------------------------------------------------------ a typical packet


def test_a_typical_packet_is_of_the_middle_fifth() -> None:
    latencies = [5, 1_000_000, 12, 10, 11, 13, 1, 2_000]
    packets = [Packet({("f", QUEUEING): ns, ("f", SEND): 1}) for ns in latencies]
    found = typical(packets)
    assert found.parts == {("f", QUEUEING): (11 + 12) / 2, ("f", SEND): 1}
    assert typical(packets[:1]).ns == 6


def test_what_a_second_set_of_probes_adds_the_first_one_had_added() -> None:
    once = typical([Packet({("f", QUEUEING): 130, ("f", SEND): 20})])
    twice = typical([Packet({("f", QUEUEING): 160, ("f", SEND): 20})])
    assert without_probes(once, twice).parts == {("f", QUEUEING): 100, ("f", SEND): 20}


def test_parts_without_calls_are_divided_as_those_with_calls() -> None:
    """The latter are of a chain that runs at half the speed."""
    recording, route, parts = passed(one_way(2))
    (whole,) = account(recording, route, calls=False).packets
    (fine,) = account(recording, route).packets
    assert whole.ns == fine.ns == latency(recording)
    slow = WindowParts(parts={key: 2.0 * ns for key, ns in fine.parts.items()})
    found = with_calls(typical([whole]), slow)
    assert found.ns == whole.ns
    assert found.parts["f0", QUEUEING] == parts["f0", QUEUEING]
    assert found.parts["f1", RECEIVE] == parts["f1", RECEIVE] + parts["f1", GETTING]
    assert found.parts["f1", SEND] == parts["f1", SEND]
    assert [*place_parts("f0", [found]).parts] == [*PARTS]


@given(st.dictionaries(st.sampled_from([*SIX]), st.integers(-9, 99)), st.integers(-9, 99))
def test_no_sum_changes_where_parts_are_divided(shares: dict[str, int], ns: int) -> None:
    whole = WindowParts(parts={("f", WAITING): ns, ("f", HOLDING): 7, ("f", RUN_DELAY): 1})
    calls = WindowParts(parts={("f", part): shares.get(part, 0) for part in SIX})
    assert with_calls(whole, calls).ns == pytest.approx(whole.ns)
