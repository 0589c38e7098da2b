"""Whether chains and functions that share a CPU get equal shares of it.

Two parts, each in one run:

- Two equal chains at full load: the throughput of the second relative to the first, per window.
- Many functions: each policy runs for some seconds, with a window per second. The result is the
  turns and packets of the function that got least in its worst second, and from a trace the longest
  gap between two turns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import BaseModel

from unis.bench.synthetic import macswap_chain
from unis.bench.throughput import POLICIES
from unis.chain.load import LoadedChain
from unis.measure import order
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Paired, Quartiles, Ratio
from unis.measure.summary import MachineSummary
from unis.measure.windows import Arm, Rounds, in_turn, throughput
from unis.plan.machine import Machine
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up
from unis.v1 import engine_pb2 as pb

_T = TypeVar("_T")
_CHAINS = 2
_SECOND = 1.0
_TRACED_SECONDS = 1.0  # per policy


class TwoChains(BaseModel):
    """One policy on two equal chains."""

    policy: str
    controller: str | None
    mpps: Quartiles  # of both chains together
    ratio: Ratio | None  # packets of the second chain ÷ first; None: the first had none
    worst: float  # smaller ÷ larger chain, in the worst window
    windows: int
    disturbed: Disturbance


class ManyFunctions(BaseModel):
    """One policy on many functions: the function that got least."""

    policy: str
    controller: str | None
    mpps: Quartiles
    window_s: float
    windows: int
    least_turns: int | None  # of any function in any window; None: the kernel schedules
    least_packets: int  # of any function in any window
    longest_gap_us: float | None  # between two turns of a function; None: the trace has gaps
    traced_s: float
    disturbed: Disturbance


class FairnessResult(BaseModel):
    """The results, and the machine they are from."""

    machine: MachineSummary
    cost: str
    length: int  # of each of the two chains
    functions: int  # of the second part, half of them in each of two chains
    two_chains: list[TwoChains]
    many_functions: list[ManyFunctions]


@dataclass(frozen=True)
class FairnessSettings:
    """What the command line says."""

    cost: str
    length: int
    functions: int  # an even number
    policies: tuple[str, ...]
    rounds: int  # minimum, of two chains
    window: float  # of two chains, seconds
    seconds: int  # of many functions, per policy


def measure(
    settings: FairnessSettings, machine: Machine, report: Callable[[str], None]
) -> FairnessResult:
    """Measures both parts."""
    bench = _FairnessBench(settings, machine, report)
    return FairnessResult(
        machine=MachineSummary.this(len(machine.cpus)),
        cost=settings.cost,
        length=settings.length,
        functions=settings.functions,
        two_chains=bench.two_chains(),
        many_functions=bench.many_functions(),
    )


def two_chains(arm: Arm, rounds: Rounds) -> TwoChains:
    """The result of an arm from its windows of two chains."""
    first, second = zip(*map(_delivered, _windows(rounds, arm)), strict=True)
    return TwoChains(
        policy=arm.policy,
        controller=arm.controller,
        mpps=Quartiles.of(throughput(rounds, str(arm))),
        ratio=Ratio.of(Paired.ratio(second, first)),
        worst=min(
            min(both) / max(both) if any(both) else 0.0 for both in zip(first, second, strict=True)
        ),
        windows=len(first),
        disturbed=Disturbance.of(_windows(rounds, arm)),
    )


def _delivered(window: pb.MeasureReply) -> tuple[int, int]:
    """Packets delivered by each of the two chains, in the order of their names."""
    first, second = sorted(window.chains, key=lambda chain: chain.name)
    return first.delivered, second.delivered


def many_functions(arm: Arm, rounds: Rounds, trace: pb.TraceReply) -> ManyFunctions:
    """The result of an arm from its windows of many functions, and from a trace under it."""
    windows = _windows(rounds, arm)
    functions = list(windows[0].function_packets)
    gap = None if trace.dropped_events else longest_gap_ns(trace, functions) / 1e3
    return ManyFunctions(
        policy=arm.policy,
        controller=arm.controller,
        mpps=Quartiles.of(throughput(rounds, str(arm))),
        window_s=sum(window.window_ns for window in windows) / len(windows) / 1e9,
        windows=len(windows),
        least_turns=min(window.function_turns[name] for window in windows for name in functions)
        if arm.policy == "unis"
        else None,
        least_packets=min(
            window.function_packets[name] for window in windows for name in functions
        ),
        longest_gap_us=gap,
        traced_s=(trace.end_ns - trace.begin_ns) / 1e9,
        disturbed=Disturbance.of(windows),
    )


def longest_gap_ns(trace: pb.TraceReply, functions: Sequence[str]) -> int:
    """The longest time in which one of the functions did not poll."""
    polled = dict.fromkeys(functions, trace.begin_ns)
    longest = 0
    for run in sorted(trace.runs, key=lambda run: run.begin_ns):
        longest = max(longest, run.begin_ns - polled[run.function])
        polled[run.function] = run.end_ns
    return max(longest, *(trace.end_ns - last for last in polled.values()))


def _windows(rounds: Rounds, arm: Arm) -> list[pb.MeasureReply]:
    return [windows[str(arm)] for windows in rounds]


class _FairnessBench:
    def __init__(
        self, settings: FairnessSettings, machine: Machine, report: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._machine = machine
        self._report = report
        self._arms = [replace(POLICIES[name], name=name) for name in settings.policies]

    def two_chains(self) -> list[TwoChains]:
        settings = self._settings
        self._report(f"two chains of {settings.length} {settings.cost}")
        rounds = self._brought_up(
            settings.length,
            lambda run: in_turn(
                run,
                self._arms,
                order.balanced_rounds(len(self._arms), settings.rounds),
                settings.window,
            ),
        )
        return [two_chains(arm, rounds) for arm in self._arms]

    def many_functions(self) -> list[ManyFunctions]:
        def every_arm(run: Run) -> list[ManyFunctions]:
            return [self._under(run, arm) for arm in self._arms]

        return self._brought_up(self._settings.functions // _CHAINS, every_arm)

    def _under(self, run: Run, arm: Arm) -> ManyFunctions:
        settings = self._settings
        self._report(f"{settings.functions} functions under {arm} for {settings.seconds} s")
        rounds = in_turn(run, [arm], settings.seconds, _SECOND)
        return many_functions(arm, rounds, run.client.trace(_TRACED_SECONDS))

    def _brought_up(self, length: int, measure: Callable[[Run], _T]) -> _T:
        cpu = max(self._machine.cpus)

        def make() -> LoadedChain:
            return macswap_chain("bench-fairness", self._settings.cost, length, cpu, chains=_CHAINS)

        return brought_up(make, self._machine, Options(costs="anew"), self._report, measure)
