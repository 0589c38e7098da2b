"""The parts of the time of a packet on its way through a chain, from what was noted of it.

The parts of a packet add up to its latency, from its stamp until the sink takes it, because each
part ends where the next begins. What noting the packet took is taken off both. Whatever is missing
of a packet leaves the packet out: it is counted, and nothing is guessed.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from unis.parts.passages import OWN_MOST, Direction, Passage
from unis.parts.threads import Clock, State, ThreadStates

# Of a function. The first three are while a packet waits for it.
QUEUEING = "queueing"  # the function is at other packets; of the source: it sends late
RUN_DELAY = "run delay"  # it has work and not the CPU, in whatever part
BLOCKED = "blocked"  # it sleeps, likewise
RECEIVE = "receive call"
COPY = "copy"  # of the receive call
PROCESSING = "processing"
SEND = "send call"
PARTS = (QUEUEING, RUN_DELAY, BLOCKED, RECEIVE, COPY, PROCESSING, SEND)
SOURCE = "source"
SINK = "sink"

_PART_OF = {State.WAITING: RUN_DELAY, State.SLEEPING: BLOCKED}  # in whatever part


@dataclass(frozen=True)
class PartSpan:
    """A part of one packet's time, ns of CLOCK_MONOTONIC."""

    place: str  # a function, SOURCE or SINK
    part: str  # of PARTS
    begin: int
    end: int


@dataclass(frozen=True)
class Packet:
    """One packet: ns of each part, by place and part, without `own`."""

    parts: Mapping[tuple[str, str], int]
    spans: Sequence[PartSpan]  # in order of time; `own` is in them
    own: int = 0  # by so much the packet was held up to be noted, ns

    @property
    def ns(self) -> int:
        """All its parts."""
        return sum(self.parts.values())


@dataclass
class Account:
    """All packets of a window."""

    packets: list[Packet] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # packets by why
    # Of those that were left out because they took long, ns: they are among the slowest.
    slow: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Watched:
    """When threads were watched: from the first period on, so long of each. In TSC cycles, for a
    period need not be a whole number of ns.
    """

    states: ThreadStates
    origin: int
    period: int
    open: int

    def covers(self, begin: int, end: int) -> bool:
        """Whether of this time all changes are known."""
        since = (begin - self.origin) % self.period
        return self.open >= self.period or since + (end - begin) <= self.open


@dataclass(frozen=True)
class _Leg:
    """What one thread does for a packet until a time; or what the packet waits for there."""

    place: str
    part: str
    thread: int
    end: int
    runs_at_end: bool = True


def account(
    passages: Mapping[str, Sequence[Passage]],
    functions: Sequence[str],
    clock: Clock,
    watched: Watched | None,
) -> Account:
    """`passages` are of SOURCE, SINK and each of `functions`, which are in the order of the chain.
    Without `watched` threads count as if they ran all the time.
    """
    found = Account()
    seen = {name: _by_stamp(all_) for name, all_ in passages.items()}
    for stamp in sorted(set().union(*(each for each in seen.values()))):
        packet = _packet(
            stamp, {n: each.get(stamp, {}) for n, each in seen.items()}, functions, clock, watched
        )
        if isinstance(packet, int):
            found.left_out["it took longer than its threads were watched"] += 1
            found.slow.append(packet)
        elif isinstance(packet, str):
            found.left_out[packet] += 1
        else:
            found.packets.append(packet)
    return found


_Seen = dict[Direction, Passage]


def _by_stamp(passages: Sequence[Passage]) -> Mapping[int, _Seen]:
    found: dict[int, _Seen] = {}
    for passage in passages:
        # Of two ports of a function the first one is meant: it takes a packet once.
        found.setdefault(passage.stamp, {}).setdefault(passage.direction, passage)
    return found


def _packet(
    stamp: int,
    seen: Mapping[str, _Seen],
    functions: Sequence[str],
    clock: Clock,
    watched: Watched | None,
) -> Packet | str | int:
    """Its parts; or why it has none: if it took too long, how long, ns."""
    needed = [(SOURCE, Direction.SENT), (SINK, Direction.RECEIVED)]
    needed += [(name, direction) for name in functions for direction in Direction]
    if any(direction not in seen[name] for name, direction in needed):
        return "it was not seen at each place: it was lost, or another was sampled there"
    for name in functions:
        if seen[name][Direction.RECEIVED].thread != seen[name][Direction.SENT].thread:
            return "it was sent by another thread than received it"
    if any(passage.own == OWN_MOST for passages in seen.values() for passage in passages.values()):
        return "it was held up for long when it was noted: its thread lost the CPU"
    at, end = clock.ns(stamp), clock.ns(seen[SINK][Direction.RECEIVED].end)
    if watched and not watched.covers(stamp, seen[SINK][Direction.RECEIVED].end):
        return end - at
    spans: list[PartSpan] = []
    for leg in _legs(seen, functions, clock):
        if leg.end < at:
            if leg.part == QUEUEING and leg.place != SOURCE:
                continue  # the receive call had begun before the packet came
            return "its times are not in order"
        split = _split(leg, at, watched)
        if split is None:
            return "a change of its thread is missing"
        spans += split
        at = leg.end
    if at != end:
        return "its times are not in order"
    sums = _sums(spans)
    own = _take_off(sums, _own(seen, functions, clock))
    return Packet(sums, spans, own)


def _own(
    seen: Mapping[str, _Seen], functions: Sequence[str], clock: Clock
) -> Iterator[tuple[tuple[str, str], int]]:
    """How long the packet was held up to be noted, ns, by the part that contains this."""
    for name in [SOURCE, *functions]:
        sent = seen[name][Direction.SENT]
        part = QUEUEING if name == SOURCE else PROCESSING
        yield (name, part), clock.ns(sent.begin) - clock.ns(sent.begin - sent.own)
        if name != SOURCE:
            received = seen[name][Direction.RECEIVED]
            yield (name, part), clock.ns(received.end + received.own) - clock.ns(received.end)


def _take_off(sums: Counter[tuple[str, str]], own: Iterator[tuple[tuple[str, str], int]]) -> int:
    """How much that was. No part gets shorter than 0."""
    all_ = 0
    for key, ns in own:
        taken = min(ns, sums[key])
        sums[key] -= taken
        all_ += taken
    return all_


def _legs(seen: Mapping[str, _Seen], functions: Sequence[str], clock: Clock) -> Iterator[_Leg]:
    sent = seen[SOURCE][Direction.SENT]
    yield _Leg(SOURCE, QUEUEING, sent.thread, clock.ns(sent.begin))
    before = SOURCE
    for name in [*functions, SINK]:
        received = seen[name][Direction.RECEIVED]
        # A receiver on another CPU may have the packet before the send call returns: then it came
        # while the receive call was under way.
        early = received.end < sent.end
        arrival = max(sent.begin, received.begin) if early else sent.end
        yield _Leg(before, SEND, sent.thread, clock.ns(arrival), runs_at_end=not early)
        yield _Leg(name, QUEUEING, received.thread, clock.ns(received.begin))
        yield _Leg(name, RECEIVE, received.thread, clock.ns(received.end))
        if name != SINK:
            sent = seen[name][Direction.SENT]
            yield _Leg(name, PROCESSING, sent.thread, clock.ns(sent.begin))
        before = name


def _split(leg: _Leg, begin: int, watched: Watched | None) -> list[PartSpan] | None:
    """By what its thread did; None: this is not known."""
    if watched is None:
        return [PartSpan(leg.place, leg.part, begin, leg.end)]
    states = watched.states.between(leg.thread, begin, leg.end, runs_at_end=leg.runs_at_end)
    if states is None:
        return None
    return [PartSpan(leg.place, _PART_OF.get(state, leg.part), a, b) for state, a, b in states]


def _sums(spans: Sequence[PartSpan]) -> Counter[tuple[str, str]]:
    sums: Counter[tuple[str, str]] = Counter()
    for span in spans:
        sums[span.place, span.part] += span.end - span.begin
    return sums
