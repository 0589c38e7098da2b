"""`unis bench unmodified`: programs that the project did not write, under UNiS and the kernel.

Their chain and the reference alternate in blocks (`unis.bench.blocks`). Within their half unis, rr
and other alternate as in every comparison.
"""

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from unis.bench import third_party
from unis.bench.alerts import Alerts, compare_alerts
from unis.bench.blocks import Block, measure_blocks
from unis.bench.cooperative import (
    COOPERATIVE,
    SECOND,
    TRIAL,
    TRIAL_ROUNDS,
    YIELD_EVERY,
    best_two,
    settled,
    trial_ratios,
)
from unis.chain.load import LoadedChain
from unis.measure import order
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Paired, Quartiles
from unis.measure.summary import ratio
from unis.measure.windows import Arm, Rounds, in_turn, throughput
from unis.plan.contract import scheduler_settings
from unis.plan.machine import Machine
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up

# unis as the chain file has it by default: hand-over.
UNIS = Arm("unis")
# What `unis` may choose too for threads that poll only rings inside their program: they are out of
# the line of those that hand over.
GROUPS = Arm("unis", name="unis/groups")
DEFAULT_ARMS = (UNIS, Arm("unis", "priority"), Arm("rr"), Arm("other"))


class PolicyResult(BaseModel):
    """A policy over all its windows."""

    mpps: Quartiles
    ratio_to_other: Paired | None  # None: `other` delivered nothing
    ratio_to_cooperative: Paired | None
    ratio_to_groups: Paired | None = None  # None: the chain has no threads that poll only rings
    disturbed: Disturbance


class BlockResult(BaseModel):
    """The figures of one block; blocks show how far the machine drifted."""

    mpps: dict[str, float]  # by policy, the median of its windows
    line_transfer_ns: float | None  # between the CPUs, median; None: it could not be measured


class ChainResult(BaseModel):
    """What was found of one chain."""

    programs: list[str]
    policies: dict[str, PolicyResult]
    yield_every: int  # of the reference: the better of the two best of those tried
    tried: dict[int, float]  # cooperative ÷ unis, both of the reference, medians, by yield_every
    blocks: int  # times that each of the two chains was brought up, and is in the figures
    line_transfer_ns: list[float] = []  # between the CPUs, in blocks where it could be measured
    blocks_left_out: int = 0  # in which that changed
    by_block: list[BlockResult] = []  # in the order in which they were measured
    windows: int  # of each policy
    alerts: Alerts | None = None  # of the chain with Suricata


class UnmodifiedResult(BaseModel):
    """All chains, by name."""

    chains: dict[str, ChainResult]


@dataclass(frozen=True)
class UnmodifiedSettings:
    """What the command line says."""

    rounds: int  # at least, over all blocks; whole squares are measured
    window: float  # seconds
    arms: tuple[Arm, ...] = DEFAULT_ARMS


def compare(name: str, settings: UnmodifiedSettings, report: Callable[[str], None]) -> ChainResult:
    """Measures the chain called `name`. LaunchError where a program of it is missing."""
    third_party.check(name)
    # Looked at before we keep ourselves off the CPU of the functions.
    window = settings.window * third_party.most_pollers(name)
    bench = _UnmodifiedBench(name, Machine.this(), window, report)
    report(f"{name}: the reference, a yield every {', '.join(map(str, YIELD_EVERY))} bursts")
    trials = trial_ratios(bench.reference(YIELD_EVERY[0], TRIAL, TRIAL_ROUNDS))
    two = best_two(trials)
    arms = settings.arms
    if UNIS in arms and third_party.has_ring_threads(name):
        arms += (GROUPS,)
    square = len(order.square(arms))
    count = order.balanced_rounds(len(arms), settings.rounds) // square
    blocks = measure_blocks(
        {
            "third party": lambda: bench.third_party(arms, square),
            "reference": lambda: bench.reference(two[0].yield_every, two, square),
        },
        count,
        (min(bench.machine.cpus), max(bench.machine.cpus)),
        name,
        report,
        _so_far,
    )
    rounds, best = settled(blocks.rounds, two)
    programs = [member.program for member in third_party.CHAINS[name]]
    result = summarise(rounds, programs, trials, best, count)
    result.by_block = [block_result(block) for block in blocks.blocks]
    result.line_transfer_ns = blocks.transfers
    result.blocks_left_out = blocks.left_out
    if name == "suricata":
        report(f"{name}: its alerts, once through each capture, alone and in the chain")
        result.alerts = compare_alerts(bench.machine, report)
    return result


class _UnmodifiedBench:
    """Brings the two chains up, one at a time."""

    def __init__(
        self, name: str, machine: Machine, window: float, report: Callable[[str], None]
    ) -> None:
        self._name = name
        self.machine = machine
        self._cpu = max(machine.cpus)
        self._window = window
        self._report = report

    def third_party(self, arms: Sequence[Arm], rounds: int) -> Rounds:
        def make(directory: Path) -> LoadedChain:
            return third_party.third_party_chain(self._name, self._cpu, directory)

        return self._measured(make, arms, rounds)

    def reference(self, yield_every: int, arms: Sequence[Arm], rounds: int) -> Rounds:
        def make(directory: Path) -> LoadedChain:
            return third_party.reference_chain(self._name, self._cpu, directory, yield_every)

        return self._measured(make, arms, rounds)

    def _measured(
        self, make: Callable[[Path], LoadedChain], arms: Sequence[Arm], rounds: int
    ) -> Rounds:
        def measured(run: Run) -> Rounds:
            own = scheduler_settings(run.plan.scheduler, run.plan.gamma.value)
            own.ring_turn_ns = 0
            asked = [arm.with_settings(own) if arm == GROUPS else arm for arm in arms]
            return in_turn(run, asked, rounds, self._window)

        with tempfile.TemporaryDirectory(prefix="unis-bench-") as directory:
            return brought_up(
                lambda: make(Path(directory)), self.machine, Options(), self._report, measured
            )


def block_result(block: Block) -> BlockResult:
    """One block: both its halves, and the distances measured around them."""
    rounds = block.rounds
    return BlockResult(
        mpps={policy: statistics.median(throughput(rounds, policy)) for policy in _arms(rounds)},
        line_transfer_ns=block.transfer_ns,
    )


def summarise(
    rounds: Rounds,
    programs: Sequence[str],
    trials: Mapping[int, float],
    yield_every: int,
    blocks: int,
) -> ChainResult:
    """Windows of all blocks, those of the reference beside the others.

    The reference yields every `yield_every` bursts.
    """
    arms = _arms(rounds)
    return ChainResult(
        programs=list(programs),
        policies={
            arm: PolicyResult(
                mpps=Quartiles.of(throughput(rounds, arm)),
                ratio_to_other=ratio(rounds, arm, "other", blocks) if "other" in arms else None,
                ratio_to_cooperative=ratio(rounds, arm, COOPERATIVE, blocks),
                ratio_to_groups=ratio(rounds, arm, str(GROUPS), blocks)
                if str(GROUPS) in arms
                else None,
                disturbed=Disturbance.of([windows[arm] for windows in rounds if arm in windows]),
            )
            for arm in arms
        },
        yield_every=yield_every,
        tried=dict(trials),
        blocks=blocks,
        windows=len(rounds),
    )


def _arms(rounds: Rounds) -> list[str]:
    """In the order in which they are shown: the engine's, the reference, the kernel's."""
    place = {"unis": 0, "cooperative": 1}
    arms = [arm for arm in rounds[0] if arm != SECOND]
    return sorted(arms, key=lambda arm: (place.get(arm.partition("/")[0], 2), arm))


def _so_far(rounds: Rounds) -> str:
    medians = [f"{arm} {statistics.median(throughput(rounds, arm)):.3f}" for arm in _arms(rounds)]
    return f"; Mpps so far: {', '.join(medians)}"
