"""`unis bench load`: whether the CPU follows the load, and what packets pay for it.

The source sends at its own pace (open loop), from one packet a second to what the chain passes at
most. At each load windows alternate: functions that poll, functions that sleep between packets, and
functions that co-operate. For Open vSwitch, alone on its CPU, the third is its own sleep.

Each chain is brought up several times, because bring-ups differ by more than windows do. What the
chain passes at most is measured in each. The loads ascend in one bring-up and descend in the next.
"""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel

from unis.bench import third_party
from unis.bench.beside import BesideRow, beside_rows
from unis.bench.synthetic import macswap_chain
from unis.bench.throughput import POLICIES
from unis.chain.load import LoadedChain
from unis.measure import order
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Paired, Quartiles, Ratio
from unis.measure.summary import MachineSummary, latency_of, summarise_arm
from unis.measure.windows import Arm, Offered, Rounds, functions_ns, functions_share, in_turn
from unis.plan.contract import scheduler_settings
from unis.plan.machine import Machine
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up
from unis.v1 import engine_pb2 as pb

POLLING, SLEEPING, COOPERATIVE = "handover", "handover, sleeping", "cooperative"
PMD_MAXSLEEP = "pmd-maxsleep"
OPENVSWITCH = "openvswitch"
THIRD_PARTY = ("testpmd", OPENVSWITCH)
CHAINS = ("light", "medium", *THIRD_PARTY)
LENGTH = 3  # functions of each chain
LOADS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
BESIDE_LOAD = 0.1
_NEARLY_NOTHING = 1.0  # packets a second, at load 0
_PERCENTILES = (50, 95, 99)
_TAKEN = 0.04  # of the platform's CPU, by others
_ROUNDS_AT_MOST = 6  # of windows for what the chain passes at most


class LoadRow(BaseModel):
    """One policy on one chain at one load."""

    chain: str
    policy: str
    load: float  # of `most_mpps`; 0: one packet a second
    most_mpps: float  # that the chain passes under hand-over, median of the bring-ups
    offered_mpps: float
    # Shares of a CPU, medians over the windows: all functions together, and all of the engine.
    cpu_functions: float
    cpu_platform: float
    quartiles: dict[str, Quartiles]  # of both
    cpu_functions_by_run: list[float]  # medians of each bring-up, as they came
    ns_per_packet: float  # CPU time of the functions by packets delivered, median
    ratio_to_pmd_maxsleep: Ratio | None  # of that, in the same round
    latency_us: dict[str, float | None]  # over all windows
    added_us: dict[str, Quartiles | None]  # to a percentile of POLLING in the same round
    lost: float  # share of what was offered
    windows: int
    disturbed: Disturbance


class LoadSettings(BaseModel):
    """What the command line says."""

    loads: tuple[float, ...]
    max_delay_us: float  # of SLEEPING and PMD_MAXSLEEP
    runs: int  # bring-ups of each chain
    rounds: int  # of each bring-up, at least
    window: float  # seconds


class LoadResult(BaseModel):
    """All that was measured, and where."""

    machine: MachineSummary
    settings: LoadSettings
    rows: list[LoadRow]
    beside: list[BesideRow]  # with a process that computes on the functions' CPU


@dataclass(frozen=True)
class _BroughtUp:
    """What was measured in one bring-up."""

    most_mpps: float
    rounds: dict[float, Rounds]  # by load
    beside: list[BesideRow]


def compare(
    name: str, settings: LoadSettings, machine: Machine, report: Callable[[str], None]
) -> tuple[list[LoadRow], list[BesideRow]]:
    """The chain `name`. LaunchError: a program of it is not there."""
    runs = [_one_run(name, settings, machine, report, at) for at in range(settings.runs)]
    rows = [
        row_of(name, policy, load, [(run.most_mpps, run.rounds[load]) for run in runs])
        for load in settings.loads
        for policy in runs[0].rounds[load][0]
    ]
    return rows, [row for run in runs for row in run.beside]


def _one_run(
    name: str, settings: LoadSettings, machine: Machine, report: Callable[[str], None], at: int
) -> _BroughtUp:
    cpu = max(machine.cpus)
    said = f"{name}, {at + 1} of {settings.runs}"
    with tempfile.TemporaryDirectory() as folder:

        def make() -> LoadedChain:
            if name in THIRD_PARTY:
                alone = name == OPENVSWITCH
                return third_party.third_party_chain(name, cpu, Path(folder), alone=alone)
            return macswap_chain("bench-load", name, LENGTH, cpu)

        def measure(run: Run) -> _BroughtUp:
            arms = _arms(run, name, settings.max_delay_us, Path(folder))
            report(f"{said}: what it passes at most")
            best = in_turn(run, arms[:1], _ROUNDS_AT_MOST, settings.window)
            most = summarise_arm(best, POLLING).mpps.median
            count = order.balanced_rounds(len(arms), settings.rounds)
            rounds: dict[float, Rounds] = {}
            for load in settings.loads[:: -1 if at % 2 else 1]:
                report(f"{said}: {100 * load:g}% of {most:.2f} Mpps")
                asked = [replace(arm, offered=_offered(load, most)) for arm in arms]
                rounds[load] = in_turn(run, asked, count, settings.window)
            beside: list[BesideRow] = []
            if at == settings.runs - 1 and name != OPENVSWITCH:
                report(f"{said}: beside a process that computes")
                sleeping = replace(arms[1], offered=_offered(BESIDE_LOAD, most))
                beside = beside_rows(run, name, sleeping, BESIDE_LOAD, cpu)
            return _BroughtUp(most, rounds, beside)

        return brought_up(make, machine, Options(costs="anew"), report, measure)


def took_from_platform(rows: Sequence[LoadRow]) -> str | None:
    """A sentence where other processes used the platform's CPU: there it polls, beside functions
    that poll. None: they hardly did.
    """
    shares = [row.cpu_platform for row in rows if row.policy == POLLING and row.load > 0]
    taken = 1 - min(shares, default=1)
    if taken < _TAKEN:
        return None
    return (
        f"Other processes used up to {taken:.0%} of the platform's CPU: latency and loss are "
        "theirs too. Measure again without them."
    )


def _offered(load: float, most: float) -> Offered:
    return Offered(max(load * most * 1e6, _NEARLY_NOTHING), "constant")


def _arms(run: Run, chain: str, max_delay_us: float, folder: Path) -> list[Arm]:
    """POLLING first."""
    gamma = run.plan.gamma.value

    def handing_over(name: str, delay_us: float) -> Arm:
        part = run.plan.scheduler.model_copy(update={"max_delay_us": delay_us})
        arm = replace(POLICIES["handover"], name=name)
        return arm.with_settings(scheduler_settings(part, gamma))

    arms = [handing_over(POLLING, 0.0), handing_over(SLEEPING, max_delay_us)]
    if chain not in THIRD_PARTY:  # those do not co-operate
        arms.append(replace(POLICIES["cooperative"], name=COOPERATIVE))
    if chain != OPENVSWITCH:
        return arms

    let_sleep = lru_cache(maxsize=1)(third_party.let_openvswitch_sleep)  # again only if it differs

    def prepared(arm: Arm, us: float) -> Arm:
        return replace(arm, prepare=lambda: let_sleep(folder, us))

    peer = prepared(Arm("other", name=PMD_MAXSLEEP), max_delay_us)
    return [*(prepared(arm, 0) for arm in arms), peer]


def row_of(chain: str, policy: str, load: float, runs: Sequence[tuple[float, Rounds]]) -> LoadRow:
    """An arm over all its windows; `runs`: what the chain passes at most, and the rounds."""
    rounds = [windows for _, each in runs for windows in each]
    summary = summarise_arm(rounds, policy)
    windows = [windows[policy] for windows in rounds]
    functions = Quartiles.of([functions_share(window) for window in windows])
    platform = Quartiles.of([window.engine_cpu_ns / window.window_ns for window in windows])
    own = [_ns_per_packet(window) for window in windows]
    peer = [_ns_per_packet(each[PMD_MAXSLEEP]) for each in rounds if PMD_MAXSLEEP in each]
    return LoadRow(
        chain=chain,
        policy=policy,
        load=load,
        most_mpps=statistics.median(most for most, _ in runs),
        offered_mpps=summary.offered_mpps,
        cpu_functions=functions.median,
        cpu_platform=platform.median,
        quartiles={"cpu_functions": functions, "cpu_platform": platform},
        cpu_functions_by_run=[
            statistics.median(functions_share(windows[policy]) for windows in each)
            for _, each in runs
        ],
        ns_per_packet=statistics.median(own),
        ratio_to_pmd_maxsleep=Ratio.of(Paired.ratio(own, peer, len(runs)) if peer else None),
        latency_us={f"p{at}": summary.latency_us[f"p{at}"] for at in _PERCENTILES},
        added_us={f"p{at}": _added(rounds, policy, at) for at in _PERCENTILES},
        lost=summary.drops.share,
        windows=len(windows),
        disturbed=summary.disturbed,
    )


def _added(rounds: Rounds, policy: str, percentile: int) -> Quartiles | None:
    """None where nothing came, and for POLLING itself."""
    if policy == POLLING:
        return None
    pairs = [
        [latency_of([windows], name).percentile_us(percentile) for name in (policy, POLLING)]
        for windows in rounds
    ]
    added = [own - base for own, base in pairs if own is not None and base is not None]
    return Quartiles.of(added) if added else None


def _ns_per_packet(window: pb.MeasureReply) -> float:
    """Of a window without a packet: as of one packet."""
    return functions_ns(window) / max(window.delivered, 1)
