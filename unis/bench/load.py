"""`unis bench load`: whether the CPU follows the load, and what packets pay for it.

The source sends at its own pace (open loop), from one packet a second to what the chain passes at
most. At each load windows alternate: functions that poll, functions that sleep between packets, and
functions that co-operate.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel

from unis.bench import third_party
from unis.bench.synthetic import macswap_chain
from unis.bench.throughput import POLICIES
from unis.chain.load import LoadedChain
from unis.measure import order
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Quartiles
from unis.measure.summary import MachineSummary, summarise_arm
from unis.measure.windows import Arm, Offered, Rounds, in_turn
from unis.plan.contract import scheduler_settings
from unis.plan.machine import Machine
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up

POLLING, SLEEPING, COOPERATIVE = "handover", "handover, sleeping", "cooperative"
TESTPMD = "testpmd"
CHAINS = ("light", "medium", TESTPMD)
LENGTH = 3  # functions of each chain
LOADS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_NEARLY_NOTHING = 1.0  # packets a second, at load 0
_PERCENTILES = ("p50", "p95", "p99")
_ROUNDS_AT_MOST = 6  # of windows for what the chain passes at most


class LoadRow(BaseModel):
    """One policy on one chain at one load."""

    chain: str
    policy: str
    max_delay_us: float  # 0: functions do not sleep between packets
    load: float  # of what the chain passes at most under hand-over; 0: one packet a second
    offered_mpps: float
    # Shares of a CPU, medians over the windows: all functions together, and all of the engine.
    cpu_functions: float
    cpu_platform: float
    quartiles: dict[str, Quartiles]  # of both
    latency_us: dict[str, float | None]
    lost: float  # share of what was offered
    windows: int
    disturbed: Disturbance


class LoadResult(BaseModel):
    """All that was measured, and where."""

    machine: MachineSummary
    most_mpps: dict[str, float]  # load 1, by chain
    rows: list[LoadRow]


@dataclass(frozen=True)
class ChainLoads:
    """What a chain passes at most, and a row for each load and policy."""

    most_mpps: float
    rows: list[LoadRow]


@dataclass(frozen=True)
class LoadSettings:
    """What the command line says."""

    loads: tuple[float, ...]
    max_delay_us: float
    rounds: int  # at least
    window: float  # seconds


def compare(
    name: str, settings: LoadSettings, machine: Machine, report: Callable[[str], None]
) -> ChainLoads:
    """The chain `name`, brought up once. LaunchError: a program of it is not there."""
    cpu = max(machine.cpus)
    with tempfile.TemporaryDirectory() as folder:

        def make() -> LoadedChain:
            if name == TESTPMD:
                return third_party.third_party_chain(name, cpu, Path(folder))
            return macswap_chain("bench-load", name, LENGTH, cpu)

        def measure(run: Run) -> ChainLoads:
            return _loads(run, name, settings, report)

        return brought_up(make, machine, Options(costs="anew"), report, measure)


def _loads(
    run: Run, chain: str, settings: LoadSettings, report: Callable[[str], None]
) -> ChainLoads:
    arms = _arms(run, chain, settings.max_delay_us)
    report(f"{chain}: what it passes at most")
    best = in_turn(run, arms[:1], _ROUNDS_AT_MOST, settings.window)
    most = summarise_arm(best, POLLING).mpps.median
    rounds = order.balanced_rounds(len(arms), settings.rounds)
    rows: list[LoadRow] = []
    for load in settings.loads:
        report(f"{chain}: {100 * load:g}% of {most:.2f} Mpps")
        offered = Offered(max(load * most * 1e6, _NEARLY_NOTHING), "constant")
        asked = [replace(arm, offered=offered) for arm in arms]
        windows = in_turn(run, asked, rounds, settings.window)
        rows += [row_of(chain, arm, load, windows, settings.max_delay_us) for arm in asked]
    return ChainLoads(most, rows)


def _arms(run: Run, chain: str, max_delay_us: float) -> list[Arm]:
    """POLLING first."""
    gamma = run.plan.gamma.value

    def handing_over(name: str, delay_us: float) -> Arm:
        part = run.plan.scheduler.model_copy(update={"max_delay_us": delay_us})
        own = scheduler_settings(part, gamma).SerializeToString(deterministic=True)
        return replace(POLICIES["handover"], name=name, scheduler=own)

    arms = [handing_over(POLLING, 0.0), handing_over(SLEEPING, max_delay_us)]
    if chain != TESTPMD:  # it does not co-operate
        arms.append(replace(POLICIES["cooperative"], name=COOPERATIVE))
    return arms


def row_of(chain: str, arm: Arm, load: float, rounds: Rounds, max_delay_us: float) -> LoadRow:
    """An arm over all its windows."""
    summary = summarise_arm(rounds, arm.name)
    windows = [windows[arm.name] for windows in rounds]
    functions = Quartiles.of(
        [sum(window.function_cpu_ns.values()) / window.window_ns for window in windows]
    )
    platform = Quartiles.of([window.engine_cpu_ns / window.window_ns for window in windows])
    drops = summary.drops
    return LoadRow(
        chain=chain,
        policy=arm.name,
        max_delay_us=max_delay_us if arm.name == SLEEPING else 0.0,
        load=load,
        offered_mpps=summary.offered_mpps,
        cpu_functions=functions.median,
        cpu_platform=platform.median,
        quartiles={"cpu_functions": functions, "cpu_platform": platform},
        latency_us={name: summary.latency_us[name] for name in _PERCENTILES},
        lost=drops.dropped / drops.offered if drops.offered else 0.0,
        windows=len(windows),
        disturbed=summary.disturbed,
    )
