"""Windows of chains that are all up, in turn: what each passes at most, and what takes time."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from evaluation.captures import replay, write_capture
from evaluation.model.chains import ModelCase, ModelShape, port_of
from unis.measure import order
from unis.measure.waiting import during
from unis.measure.windows import Arm, Offered, Span, measure
from unis.runtime.run import Run
from unis.v1 import engine_pb2 as pb

_HAND_OVER = Arm("unis", "handover")
_ALL = Offered(0, "constant")  # what the first link takes
SPAN = Span(0.08, 0.1)
_DISTURBED = 0.03  # of the time of a window, by others: it is measured again
_MOST_AGAIN = 2  # times
_SPARE = 0.5  # times as many windows as are wanted: what is measured again in all


class ModelReading(BaseModel):
    """One window of one chain."""

    pps: float  # delivered
    offered: float  # a second
    functions_ns: dict[str, float]  # CPU time of each a packet
    packets_per_turn: float
    # Of source, sink and what else the engine has: CPU time a packet that it handled, and the share
    # of the CPU in which it handled some.
    platform_ns: dict[str, float]
    platform_busy: dict[str, float]
    switch_ns: float | None = None  # CPU time of Open vSwitch a packet; None: there is none
    switch_busy: float | None = None
    stolen: float = 0.0  # share of the CPUs' time that a hypervisor gave to others
    waited: float = 0.0  # share of its time that the engine waited for its CPU

    @property
    def ns(self) -> float:
        """Between two packets."""
        return 1e9 / self.pps if self.pps else float("inf")

    @property
    def disturbed(self) -> float:
        """Share of the time that others had."""
        return max(self.stolen, self.waited)


# rounds[r][case.name]
ModelRounds = list[dict[str, ModelReading]]


@dataclass
class ModelBench:
    """Chains that are up."""

    run: Run
    shapes: Sequence[ModelShape]
    folder: Path  # of captures
    _shown: Path | None = field(default=None, init=False)
    _spare: int = field(default=0, init=False)  # windows that may be measured again

    def rounds(
        self,
        cases: Sequence[ModelCase],
        count: int,
        report: Callable[[int], None] = lambda _: None,
    ) -> ModelRounds:
        """Windows of all cases in each round, in a balanced order."""
        done: ModelRounds = []
        self._spare = round(_SPARE * count * len(cases))
        for number, turn in enumerate(order.rounds(cases, count), 1):
            report(number)
            done.append({case.name: self._calm(case) for case in turn})
        return done

    def _calm(self, case: ModelCase) -> ModelReading:
        """The least disturbed of a few windows, where the first one is disturbed."""
        found = [self.window(case)]
        while found[-1].disturbed > _DISTURBED and self._spare and len(found) <= _MOST_AGAIN:
            self._spare -= 1
            found.append(self.window(case))
        return min(found, key=lambda each: each.disturbed)

    def window(self, case: ModelCase, span: Span = SPAN) -> ModelReading:
        """At all that the chain takes."""
        self.send(case)
        before = self._looked()
        engine = self.run.unisd.process.pid if self.run.unisd else 0
        reply, waited = during(engine, lambda: self.measured(_HAND_OVER, _ALL, span))
        found = _reading(case.shape, reply, before, self._looked())
        # Beside Open vSwitch the engine has half of their CPU, and that is no disturbance.
        return found if found.switch_ns else found.model_copy(update={"waited": waited})

    def measured(self, arm: Arm, offered: Offered, span: Span) -> pb.MeasureReply:
        """What the engine says of a window."""
        self.run.check()
        asked = Arm(arm.policy, arm.controller, offered=offered)
        return measure(self.run.client, asked, span, self.run.plan.controller)

    def send(self, case: ModelCase) -> None:
        """From now on the source has packets of this case only."""
        file = capture_of(self.folder, self.shapes, case)
        if file == self._shown:
            return
        replay(self.run, file)
        self._shown = file

    def _looked(self) -> "_EngineLook":
        switch = self.run.state.ovs
        return _EngineLook(self.run.client.stats(), _cpu_ns(switch.process.pid) if switch else None)


@dataclass(frozen=True)
class _EngineLook:
    stats: pb.Stats
    switch_ns: int | None


def captures(folder: Path, shapes: Sequence[ModelShape]) -> None:
    """Writes those of all shapes."""
    for shape in shapes:
        for size in shape.sizes:
            case = ModelCase(shape, size)
            write_capture(capture_of(folder, shapes, case), port_of(shapes.index(shape)), size)


def capture_of(folder: Path, shapes: Sequence[ModelShape], case: ModelCase) -> Path:
    """Where it is."""
    return folder / f"{shapes.index(case.shape)}-{case.shape.name}-{case.size}.pcap"


def _cpu_ns(pid: int) -> int:
    """Of all threads of a process."""
    total = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # it has ended
            total += int(file.read_text().split()[0])
    return total


def _reading(
    shape: ModelShape, reply: pb.MeasureReply, before: _EngineLook, after: _EngineLook
) -> ModelReading:
    delivered = max(1, reply.delivered)
    seconds = reply.window_ns / 1e9
    chain = {chain.name: chain for chain in reply.chains}.get(shape.name)
    turns = sum(reply.function_turns[name] for name in shape.functions)
    passed = sum(now.delivered for now in after.stats.chains) - sum(
        then.delivered for then in before.stats.chains
    )
    elapsed = after.stats.time_ns - before.stats.time_ns
    parts = dict(_parts(before.stats, after.stats))
    switch = None
    if before.switch_ns is not None and after.switch_ns is not None:
        switch = after.switch_ns - before.switch_ns
    time = reply.window_ns * max(1, len(reply.stolen_ns))
    return ModelReading(
        pps=(chain.delivered if chain else reply.delivered) / seconds,
        offered=reply.offered / seconds,
        functions_ns={name: reply.function_cpu_ns[name] / delivered for name in shape.functions},
        packets_per_turn=delivered * len(shape.cycles) / turns if turns else 0.0,
        platform_ns={name: busy / max(1, handled) for name, (busy, handled) in parts.items()},
        platform_busy={name: busy / elapsed for name, (busy, _) in parts.items()},
        switch_ns=None if switch is None else switch / max(1, passed),
        switch_busy=None if switch is None else switch / elapsed,
        stolen=sum(reply.stolen_ns.values()) / time,
    )


def _parts(before: pb.Stats, after: pb.Stats) -> Iterator[tuple[str, tuple[int, int]]]:
    """By component: the time in which it handled something, and how much it did."""
    then = {part.name: part for part in before.components}
    for part in after.components:
        was = then.get(part.name)
        if was:
            yield part.name, (part.busy_ns - was.busy_ns, part.handled - was.handled)
