"""Fig. 5, Tables 5 and 8: chains by their length. Pure, but for `profile_of` and `waits_of`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from evaluation.scc import outside, paper
from evaluation.scc.arms import BATCH_800, BLOCKING, DEFAULT, HAND_OVER, SccArm
from evaluation.scc.chains import ChainSpec
from evaluation.scc.outside import NO_TIME, SchedTimes
from evaluation.scc.profiler.found import LengthRow, SlopeRow, WaitRow
from evaluation.scc.rows import line, paper_name
from evaluation.scc.windows import Bench, SccRounds
from unis.engine import names
from unis.parts.profiler import PartsProfiler, PartsSettings
from unis.parts.result import ChainParts

_SPECS = (
    (ChainSpec(1), (BLOCKING, DEFAULT, HAND_OVER)),
    (ChainSpec(1, "ring", "", None), (HAND_OVER,)),
    (ChainSpec(1, "memif", "memif", None), (HAND_OVER,)),
)
WAIT_ARMS = (DEFAULT, BATCH_800, BLOCKING, HAND_OVER)
_WAIT_ROUNDS = 2


@dataclass(frozen=True)
class ProfiledChain:
    """A chain, and the arms that it is profiled under in one bring-up."""

    spec: ChainSpec
    arms: Sequence[SccArm]

    @property
    def waits(self) -> bool:
        """Whether the kernel's classes are compared on it: Tables 5 and 8."""
        return self.spec.may_wait


def profiled(lengths: Sequence[int]) -> list[ProfiledChain]:
    """All of them."""
    return [
        ProfiledChain(replace(spec, length=length), arms)
        for spec, arms in _SPECS
        for length in lengths
    ]


def arm_name(spec: ChainSpec, arm: SccArm) -> str:
    """Of a line in the picture."""
    return f"{spec.link}, {arm.name}"


def profile_of(
    bench: Bench,
    arm: SccArm,
    settings: PartsSettings,
    cpus: int,
    report: Callable[[str], None],
) -> ChainParts:
    """Of a chain that is up, under an arm. UnisError: it cannot be followed."""
    run = bench.run
    if run.unisd is None:
        raise RuntimeError("a run that is up has an engine")
    outside.let_wait(bench.sockets, arm.mode == "blocking")
    asked = arm.arm
    run.client.set_policy(
        names.policy(asked.policy), names.controller(asked.controller or run.plan.controller)
    )
    profiler = PartsProfiler(
        run.plan, run.client, settings, run.unisd.process.pid, cpus, report, run.check
    )
    return profiler.profile()


def slopes(rows: Sequence[LengthRow]) -> list[SlopeRow]:
    """Of arms with two lengths or more from two functions on, as in the paper."""
    found = []
    measured_in_paper, explained_in_paper = paper.fig5()
    for arm in dict.fromkeys(row.arm for row in rows):
        mine = [row for row in rows if row.arm == arm and row.length > 1]
        measured = line([(row.length, row.measured_us) for row in mine])
        explained = line([(row.length, row.explained_us) for row in mine])
        if measured is None or explained is None:
            continue
        found.append(
            SlopeRow(
                arm=arm,
                measured_us=measured[0],
                explained_us=explained[0],
                share=explained[0] / measured[0] if measured[0] > 0 else None,
                paper_measured=measured_in_paper,
                paper_explained=explained_in_paper,
            )
        )
    return found


# ------------------------------------------------------------------ waiting


def waits_of(bench: Bench, spec: ChainSpec, window: float) -> list[WaitRow]:
    """In overload, as the paper's."""
    rounds = bench.rounds(WAIT_ARMS, _WAIT_ROUNDS, window, None)
    return [wait_row(spec, arm, rounds) for arm in WAIT_ARMS]


def wait_row(spec: ChainSpec, arm: SccArm, rounds: SccRounds) -> WaitRow:
    """Of an arm over all its windows. The paper's are of functions that poll, with one frame a call
    where it has none with as many as ours.
    """
    windows = [each[arm.name] for each in rounds if arm.name in each]
    times: SchedTimes = sum((each.times for each in windows), NO_TIME)
    ours, one = paper_name(spec, arm), paper_name(replace(spec, batch=1), arm)
    off = None if times.wait is None else times.wait - (times.contention or 0.0)
    return WaitRow(
        arm=arm.name,
        length=spec.length,
        wait=None if off is None else max(0.0, off),
        contention=times.contention,
        kpps=sum(each.kpps for each in windows) / len(windows),
        paper_wait=paper.wait("ovs", one, spec.length),
        paper_contention=paper.contention(spec.link, ours, spec.length)
        or paper.contention(spec.link, one, spec.length),
    )
