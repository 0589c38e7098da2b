"""The parts of the time of a packet on its way through a chain, from what was recorded of it.

The parts of a packet add up to its latency, from its stamp until the sink takes it, because each
part ends where the next begins. Whatever is missing of a packet leaves the packet out: it is
counted, and nothing is guessed.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unis.parts.events import Clock, Event, Kind, PacketPlace, Recording
from unis.parts.threads import ThreadStates

# Of a function. The first three are while a packet waits for it.
QUEUEING = "queueing"  # the function is at other packets
RUN_DELAY = "run delay"  # it has work and not the CPU
BLOCKED = "blocked"  # it sleeps
RECEIVE = "receive call"
COPY = "copy"
PROCESSING = "processing"
SEND = "send call"
PARTS = (QUEUEING, RUN_DELAY, BLOCKED, RECEIVE, COPY, PROCESSING, SEND)
# Where no calls were seen: while the thread runs, until its receive call takes the packet, and
# after.
WAITING = "waiting"
HOLDING = "holding"
# Of RECEIVE, what is before the call takes the packet.
GETTING = "receive call, before the packet"
SOURCE = "source"  # from the stamp until the packet arrives at the first function: its send call
SINK = "sink"  # from the arrival on its device until it takes the packet: queueing


@dataclass(frozen=True)
class FunctionStage:
    """A function of a chain."""

    name: str
    thread: int  # TID of the one that has the packets
    device: PacketPlace  # on which its packets arrive


@dataclass(frozen=True)
class Route:
    """A chain without branches, on kernel devices."""

    stages: Sequence[FunctionStage]
    last: PacketPlace  # on which the sink receives
    engine: int  # PID of unisd, which has source and sink


@dataclass(frozen=True)
class Packet:
    """One packet: ns of each part, by function, SOURCE or SINK, and part."""

    parts: Mapping[tuple[str, str], int]

    @property
    def ns(self) -> int:
        """All its parts."""
        return sum(self.parts.values())


@dataclass
class Account:
    """All packets of a recording."""

    packets: list[Packet] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # packets by why
    lost_events: int = 0


def account(recording: Recording, route: Route, *, calls: bool = True) -> Account:
    """What was recorded of each packet, as parts. `calls`: whether system calls were seen too."""
    found = Account(lost_events=recording.lost)
    threads = ThreadStates(recording.events)
    events: dict[int, list[Event]] = defaultdict(list)
    for event in recording.events:
        if event.packet:
            events[event.packet].append(event)
    for stamp, seen in events.items():
        packet = _packet(recording.clock, stamp, seen, route, threads, calls=calls)
        if isinstance(packet, str):
            found.left_out[packet] += 1
        else:
            found.packets.append(packet)
    return found


def _packet(
    clock: Clock,
    stamp: int,
    seen: Sequence[Event],
    route: Route,
    threads: ThreadStates,
    *,
    calls: bool,
) -> Packet | str:
    """Its parts, or why it has none."""
    arrivals = {event.device: event for event in seen if event.kind is Kind.ARRIVED}
    came = [event for event in seen if event.kind is Kind.CAME]
    takes = {event.thread: event for event in seen if event.kind is Kind.TAKEN}
    if len(arrivals) + len(takes) + len(came) < len(seen) or len(came) > 1:
        return "seen twice at one place"
    devices = [*(stage.device for stage in route.stages), route.last]
    if not came:
        return "did not come to the sink"
    if any(device not in arrivals for device in devices):
        return "an arrival is missing"
    entry, first = clock.ns(stamp), arrivals[devices[0]].ns
    last, end = arrivals[devices[-1]].ns, clock.ns(came[0].entered)
    if entry > first or last > end:
        return "its clocks do not agree"
    parts = {(SOURCE, SEND): first - entry, (SINK, QUEUEING): end - last}
    for stage, device in zip(route.stages, devices[1:], strict=True):
        at = arrivals[stage.device].ns
        ends = _ends(at, takes.get(stage.thread), arrivals[device], stage.thread, calls=calls)
        of_stage = ends if isinstance(ends, str) else _stage(at, ends, stage.thread, threads)
        if isinstance(of_stage, str):
            return of_stage
        parts |= {(stage.name, part): ns for part, ns in of_stage.items()}
    return Packet(parts)


def _ends(
    arrival: int, taken: Event | None, sent: Event, tid: int, *, calls: bool
) -> tuple[tuple[str, int], ...] | str:
    """What the thread does for a packet when it runs, and until when, in the order of time."""
    if taken is None:
        return "its receive call was not seen"
    if sent.thread != tid:
        return "it was sent by another thread"
    if not calls:
        return (WAITING, taken.ns), (HOLDING, sent.ns)
    return (
        (QUEUEING, max(arrival, taken.entered)),
        (GETTING, taken.ns),
        (COPY, sent.copied),
        (RECEIVE, sent.returned),
        (PROCESSING, sent.entered),
        (SEND, sent.ns),
    )


def _stage(
    arrival: int, ends: Sequence[tuple[str, int]], tid: int, threads: ThreadStates
) -> dict[str, int] | str:
    """From its arrival at a function until it arrives behind it."""
    parts = dict.fromkeys([part for part, _ in ends], 0) | {RUN_DELAY: 0, BLOCKED: 0}
    at = arrival
    for part, end in ends:
        if end < at:
            return "its calls are not in order"
        times = threads.times(tid, at, end)
        if times is None:
            return "a change of its thread is missing"
        parts[part] += times.running
        parts[RUN_DELAY] += times.waiting
        parts[BLOCKED] += times.sleeping
        at = end
    return parts
