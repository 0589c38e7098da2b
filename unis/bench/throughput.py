"""`unis bench throughput`: how much a chain passes under each policy, beside the best there is.

Two baselines. `cooperative` yields at the distance that is best for this chain on these rings.
`fused` does the work of all functions in one process, burst by burst, run to completion: nothing
is switched and nothing passed on, so it is what could be had at most. The policies alternate in
windows of one run; `fused` and they alternate in blocks (`unis.bench.blocks`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel

from unis.bench.blocks import Blocks, measure_blocks
from unis.bench.cooperative import (
    COOPERATIVE,
    TRIAL,
    TRIAL_ROUNDS,
    best_two,
    settled,
    trial_ratios,
)
from unis.bench.synthetic import macswap_chain
from unis.chain import defaults
from unis.chain.load import LoadedChain
from unis.chain.values import ControllerName
from unis.measure import order
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Quartiles, Ratio
from unis.measure.summary import MachineSummary, ratio, summarise_arm
from unis.measure.windows import Arm, Rounds, in_turn
from unis.plan.machine import Machine
from unis.runtime.planning import plan_chain
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up

FUSED = "fused"
_CHAIN = "chain"
# As one asks for them; `fused` is another chain.
POLICIES = {
    "priority": Arm("unis", "priority"),
    "handover": Arm("unis", "handover"),
    "signal": Arm("unis", "signal"),
    COOPERATIVE: Arm("cooperative"),
    "rr": Arm("rr"),
    "other": Arm("other"),
}
_ALONE = Arm("unis", name=FUSED)  # a single function is never switched
EXPERIMENT = "throughput"


class ThroughputRow(BaseModel):
    """One policy on one chain."""

    experiment: str
    cost: str
    length: int
    ring: int  # slots
    policy: str
    controller: str | None
    yield_every: int | None  # bursts, of cooperative: the better of the two best of those tried
    tried: dict[int, float] | None  # cooperative ÷ unis by yield_every, medians
    costs_ns: dict[str, float]  # as measured before the first block, or fused: of the process
    offered_mpps: float  # where it is what was delivered, source or sink were the limit
    mpps: Quartiles
    ratio_to_cooperative: Ratio | None
    ratio_to_fused: Ratio | None
    drops: float  # a second
    switches_per_s: float  # the engine's
    latency_us: dict[str, float | None]
    disturbed: Disturbance
    windows: int
    line_transfer_ns: list[float]  # between the CPUs, by block
    blocks_left_out: int  # in which that changed


class ThroughputResult(BaseModel):
    """All that was measured, and where."""

    machine: MachineSummary
    rows: list[ThroughputRow]


@dataclass(frozen=True)
class ThroughputCase:
    """A chain of the paper's functions."""

    cost: str
    length: int
    ring: int | None  # slots; None: as `unis up` would choose under `controller`
    controller: ControllerName = defaults.CONTROLLER


@dataclass(frozen=True)
class ThroughputSettings:
    """What the command line says."""

    policies: tuple[str, ...]
    rounds: int  # at least, over all blocks; whole squares are measured
    blocks: int
    window: float  # seconds


def compare(
    case: ThroughputCase,
    settings: ThroughputSettings,
    machine: Machine,
    report: Callable[[str], None],
) -> Iterator[list[ThroughputRow]]:
    """The rows of a case, in the order of the policies.

    Controllers for which `unis up` would choose rings of other lengths are compared on theirs each,
    with all that is no controller.
    """
    for part, policies in _apart(case, settings.policies, machine, report):
        yield _CaseBench(part, replace(settings, policies=policies), machine, report).rows()


def _apart(
    case: ThroughputCase,
    policies: Sequence[str],
    machine: Machine,
    report: Callable[[str], None],
) -> Iterator[tuple[ThroughputCase, tuple[str, ...]]]:
    if case.ring is not None:
        yield case, tuple(policies)
        return
    named = [POLICIES[name].controller for name in policies if name != FUSED]
    by_slots: dict[int, list[ControllerName]] = {}
    for controller in filter(None, named if any(named) else [case.controller]):
        slots = _slots(replace(case, controller=controller), machine, report)
        by_slots.setdefault(slots, []).append(controller)
    for slots, together in by_slots.items():
        others = {controller for controller in named if controller and controller not in together}
        yield (
            # As long in every block: what auto says may change with what costs were measured.
            replace(case, controller=together[0], ring=slots),
            tuple(
                name
                for name in policies
                if name == FUSED or POLICIES[name].controller not in others
            ),
        )


def _slots(case: ThroughputCase, machine: Machine, report: Callable[[str], None]) -> int:
    """Slots of rings that are `auto`, after costs and a switch were measured."""

    def make() -> LoadedChain:
        return _chain(case, max(machine.cpus), fused=False)

    report(f"{case.length} {case.cost}: what `unis up` would choose under {case.controller}")
    brought_up(make, machine, Options(costs="measured"), report, lambda _: None)
    return plan_chain(make(), machine).links[0].slots


def _chain(case: ThroughputCase, cpu: int, *, fused: bool) -> LoadedChain:
    return macswap_chain(
        "bench-throughput",
        case.cost,
        case.length,
        cpu,
        ring=case.ring,
        fused=fused,
        controller=case.controller,
    )


class _CaseBench:
    def __init__(
        self,
        case: ThroughputCase,
        settings: ThroughputSettings,
        machine: Machine,
        report: Callable[[str], None],
    ) -> None:
        self._case = case
        self._settings = settings
        self._machine = machine
        self._report = report
        self._cpu = max(machine.cpus)
        self._title = f"{case.length} {case.cost}"
        self._slots: dict[str, int] = {}  # of the rings, as they were, by part
        self._costs: dict[str, dict[str, float]] = {}  # likewise

    def rows(self) -> list[ThroughputRow]:
        wanted = self._settings.policies
        tried = self._trials() if COOPERATIVE in wanted else {}
        arms = {name: replace(POLICIES[name], name=name) for name in wanted if name != FUSED}
        if tried:
            arms |= {str(arm): arm for arm in best_two(tried)}
        blocks = self._settings.blocks
        square = len(order.square(list(arms.values()))) if arms else 1
        in_block = -(-self._settings.rounds // blocks // square) * square
        parts: dict[str, Callable[[], Rounds]] = {}
        if arms:
            parts[_CHAIN] = lambda: self._measured(list(arms.values()), in_block, fused=False)
        if FUSED in wanted:
            parts[FUSED] = lambda: self._measured([_ALONE], in_block, fused=True)
        measured = measure_blocks(
            parts,
            blocks,
            (min(self._machine.cpus), self._cpu),
            self._title,
            self._report,
        )
        yields = None
        if tried:
            measured, yields = _settled(measured, best_two(tried))
        return [self._row(name, measured, tried, yields) for name in wanted]

    def _trials(self) -> dict[int, float]:
        tried = ", ".join(str(arm.yield_every) for arm in TRIAL[1:])
        self._report(f"{self._title}: which distance between yields is best, of {tried} bursts")
        return trial_ratios(self._measured(TRIAL, TRIAL_ROUNDS, fused=False))

    def _measured(self, arms: Sequence[Arm], rounds: int, *, fused: bool) -> Rounds:
        def make() -> LoadedChain:
            return _chain(self._case, self._cpu, fused=fused)

        def measured(run: Run) -> Rounds:
            part = FUSED if fused else _CHAIN
            self._slots[part] = run.plan.links[0].slots
            self._costs[part] = {name: cost.ns for name, cost in run.costs.items()}
            return in_turn(run, arms, rounds, self._settings.window)

        return brought_up(make, self._machine, Options(costs="anew"), self._report, measured)

    def _row(
        self, name: str, measured: Blocks, tried: Mapping[int, float], yield_every: int | None
    ) -> ThroughputRow:
        rounds, blocks = measured.rounds, len(measured.blocks)
        summary = summarise_arm(rounds, name)
        part = FUSED if name == FUSED else _CHAIN
        yields = name == COOPERATIVE
        return ThroughputRow(
            experiment=EXPERIMENT,
            cost=self._case.cost,
            length=self._case.length,
            ring=self._slots[part],
            policy=FUSED if name == FUSED else POLICIES[name].policy,
            controller=None if name == FUSED else POLICIES[name].controller,
            yield_every=yield_every if yields else None,
            tried=dict(tried) if yields else None,
            costs_ns=self._costs[part],
            offered_mpps=summary.offered_mpps,
            mpps=summary.mpps,
            ratio_to_cooperative=Ratio.of(ratio(rounds, name, COOPERATIVE, blocks)),
            ratio_to_fused=Ratio.of(ratio(rounds, name, FUSED, blocks)),
            drops=summary.drops.per_second,
            switches_per_s=summary.switches_per_second,
            latency_us=summary.latency_us,
            disturbed=summary.disturbed,
            windows=len(rounds),
            line_transfer_ns=measured.transfers,
            blocks_left_out=measured.left_out,
        )


def _settled(measured: Blocks, two: tuple[Arm, Arm]) -> tuple[Blocks, int]:
    """As `settled`, of all blocks."""
    rounds, best = settled(measured.rounds, two)
    left = iter(rounds)
    blocks = [
        replace(block, rounds=[next(left) for _ in block.rounds]) for block in measured.blocks
    ]
    return replace(measured, blocks=tuple(blocks)), best


def result(rows: Sequence[ThroughputRow], machine: Machine) -> ThroughputResult:
    """What is written."""
    return ThroughputResult(machine=MachineSummary.this(len(machine.cpus)), rows=list(rows))
