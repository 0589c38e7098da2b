"""`python -m evaluation promises`: two promises planned onto one core, and measured there.

A block has four steps:

1. Profile two functions, each alone on the core: its throughput, and its latency by load.
2. Plan: the planner places two promises on that core or refuses them. A promise is a part of the
   throughput that the function has alone. The planner also gives the smallest latency that it would
   promise, and the smallest load that it would refuse.
3. Run both functions, each in a chain of its own, with Poisson arrivals at the promised rate, and
   compare throughput and latency with the promise.
4. Run both again at the refused load.

Both functions share the cache without classes of service, because they need little of it.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evaluation.promises.core import CorePlanner, LoadParts
from evaluation.promises.mixed import write_mixed
from evaluation.promises.result import (
    FunctionProfile,
    PromiseBlock,
    PromiseKept,
    PromisesResult,
    Together,
    WindowReadings,
    percent,
)
from evaluation.promises.windows import RunWindow, measure_window, p95s, pooled_p95_us, undisturbed
from unis import built
from unis.chain.load import LoadedChain
from unis.chain.model import API_VERSION, ChainFile
from unis.engine import names
from unis.engine.transfer import line_transfer_ns, steady
from unis.measure.paired import Quartiles
from unis.measure.summary import MachineSummary
from unis.measure.windows import Arm
from unis.plan.machine import Machine
from unis.profile.machine import EngineWindows
from unis.profile.windows import OnMachine
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up
from unis.slo.profile import Slo

_ARM = Arm("unis", "handover")
_LOADS = (0.1, 0.5, 0.8, 0.9)  # of what a function passes alone
_FIRST_PORT = 5001
_SWITCH_ROUNDS = 2000
_PATIENCE = 3  # at most so many times the wanted windows, if some are disturbed
_SHORT = 0.02  # of a throughput: random arrivals, and packets in flight at a window's end


@dataclass(frozen=True)
class PromiseSettings:
    """What the command line says."""

    costs: tuple[str, str]  # of macswap, cycles a packet
    parts: LoadParts
    p95_us: float  # promised to both
    blocks: int
    windows: int  # with both functions together, per block
    rounds: int  # minimum number of windows per point of a profile
    window: float  # seconds
    again: int  # mean number of retries per block that other processes disturbed


def measure(
    settings: PromiseSettings, machine: Machine, report: Callable[[str], None]
) -> Iterator[tuple[list[PromiseBlock], int]]:
    """After each block: all blocks so far, and the number of those that were left out."""
    blocks: list[PromiseBlock] = []
    left_out = 0
    cpus = min(machine.cpus), max(machine.cpus)
    while len(blocks) < settings.blocks:
        report(f"block {len(blocks) + 1} of {settings.blocks}")
        before = line_transfer_ns(*cpus)
        patience = left_out < settings.again * settings.blocks
        core = _profile_both(settings, machine, report)
        if patience and not all(profile.quiet for profile in core.profiles):
            left_out += 1
            report("other processes disturbed the profiles: repeating the block")
            continue
        block = _block(settings, machine, core, report)
        block.steady = steady([before, line_transfer_ns(*cpus)])
        if patience and not block.steady:
            left_out += 1
            report("the machine changed: repeating the block")
            continue
        blocks.append(block)
        yield blocks, left_out


def result(
    blocks: list[PromiseBlock], left_out: int, settings: PromiseSettings, machine: Machine
) -> PromisesResult:
    """The content of results.json."""
    counting = [block.promised for block in blocks if block.counts]
    complete = bool(counting) and len(blocks) == settings.blocks
    least = all(promise.least_kept is True for both in counting for promise in both.promises)
    return PromisesResult(
        machine=MachineSummary.this(len(machine.cpus)),
        costs=settings.costs,
        parts=settings.parts,
        p95_us=settings.p95_us,
        blocks_asked=settings.blocks,
        blocks=blocks,
        left_out=left_out,
        kept=all(both.kept for both in counting) if complete else None,
        least_kept=least if complete else None,
    )


def _functions(settings: PromiseSettings) -> dict[str, str]:
    """The cost of each function, cycles a packet, by name."""
    return {f"macswap{number}": cost for number, cost in enumerate(settings.costs, 1)}


def _profile_both(
    settings: PromiseSettings, machine: Machine, report: Callable[[str], None]
) -> CorePlanner:
    """Measures each function alone on the core."""
    measured = []
    for name, cost in _functions(settings).items():
        report(f"{name}, {cost} cycles a packet, alone on the core")
        make = partial(chain_of, {name: cost}, max(machine.cpus))
        profile = partial(_profiled, name=name, settings=settings)
        options = Options(start=False, costs="anew")
        measured.append(brought_up(make, machine, options, report, profile))
    yield_us = statistics.median(us for _, us in measured)
    return CorePlanner([profile for profile, _ in measured], yield_us, settings.p95_us)


def _block(
    settings: PromiseSettings, machine: Machine, core: CorePlanner, report: Callable[[str], None]
) -> PromiseBlock:
    _, placement = core.planned(settings.parts)
    refused = core.refused(settings.parts)
    run_both = partial(_run_both, settings, machine, report, core)
    report(f"both on one core at {percent(settings.parts)}, within {settings.p95_us:g} µs")
    promised = run_both(settings.parts)
    report(f"both on one core at {percent(refused)}, which the planner refuses")
    return PromiseBlock(
        profiles=[*core.profiles],
        yield_us=core.yield_us,
        load=placement.machines[0].cores[0].load,
        promised=promised,
        refused=run_both(refused),
        steady=True,
    )


def _run_both(
    settings: PromiseSettings,
    machine: Machine,
    report: Callable[[str], None],
    core: CorePlanner,
    parts: LoadParts,
) -> Together:
    """Measures both functions together at these parts of what each passes alone."""
    slos = core.slos(parts, [settings.p95_us] * len(parts))
    rates = {slo.name: slo.mpps for slo in slos}
    with tempfile.TemporaryDirectory(prefix="unis-promises-") as folder:
        make = partial(
            chain_of, _functions(settings), max(machine.cpus), rates, Path(folder) / "mixed.pcap"
        )
        windows = brought_up(
            make, machine, Options(costs="anew"), report, partial(_windows, settings)
        )
    used = undisturbed(windows)
    least: Sequence[float | None] = core.least_us(parts) or [None] * len(parts)
    return Together(
        parts=parts,
        promises=[
            judged(slo, part, least_us, used)
            for slo, part, least_us in zip(slos, parts, least, strict=True)
        ],
        windows=[_readings(window) for window in windows],
    )


def _readings(window: RunWindow) -> WindowReadings:
    return WindowReadings(
        mpps={name: chain.mpps for name, chain in window.chains.items()},
        p95_us={name: chain.p95_us for name, chain in window.chains.items()},
        disturbance=window.disturbance,
    )


def _windows(settings: PromiseSettings, run: Run) -> list[RunWindow]:
    """As many undisturbed windows as wanted, and the disturbed ones between them."""
    windows: list[RunWindow] = []
    while sum(window.counts for window in windows) < settings.windows:
        windows.append(measure_window(run, _ARM, settings.window))
        if len(windows) >= _PATIENCE * settings.windows:
            break
    return windows


def _profiled(run: Run, name: str, settings: PromiseSettings) -> tuple[FunctionProfile, float]:
    """The profile, and the time of a yield, µs."""
    cpu = max(function.cpu for function in run.plan.functions)
    yield_us = run.client.switch_cost(cpu, _SWITCH_ROUNDS).yield_ns / 1e3
    run.client.start(names.policy(_ARM.policy), names.controller(run.plan.controller))
    machine = OnMachine(EngineWindows(run, settings.window), settings.rounds)
    solo, _ = machine.capacity()
    latencies = {load: machine.latency(load) for load in _LOADS}
    readings = [solo, *latencies.values()]
    return FunctionProfile(
        name=name,
        solo_mpps=solo.value,
        p95_us_by_load={load: p95.value + p95.spread for load, p95 in latencies.items()},
        disturbed=statistics.mean(reading.disturbed for reading in readings),
    ), yield_us


def judged(
    slo: Slo, part: float, least_p95_us: float | None, windows: Sequence[RunWindow]
) -> PromiseKept:
    """Compares a promise with the windows of its chain.

    `part`: the promised throughput relative to what the function passes alone. `least_p95_us`: the
    smallest latency that the planner would promise; None: it refuses the throughput.
    """
    chain = _CHAIN_NAME.format(slo.name)
    p95_us, pooled_us = p95s(windows, chain), pooled_p95_us(windows, chain)
    ratios = [window.chains[chain].mpps / slo.mpps for window in windows]
    in_time = [
        us <= slo.p95_us and ratio >= 1 - _SHORT for us, ratio in zip(p95_us, ratios, strict=True)
    ]
    throughput = statistics.median(ratios)
    enough = throughput >= 1 - _SHORT
    return PromiseKept(
        chain=chain,
        part=part,
        promised_mpps=slo.mpps,
        promised_p95_us=slo.p95_us,
        least_p95_us=least_p95_us,
        mpps=Quartiles.of([window.chains[chain].mpps for window in windows]),
        offered_mpps=Quartiles.of([window.chains[chain].offered_mpps for window in windows]),
        p95_us=Quartiles.of(p95_us),
        pooled_p95_us=pooled_us,
        throughput_ratio=throughput,
        p95_ratio=pooled_us / slo.p95_us,
        windows=len(windows),
        windows_kept=sum(in_time),
        kept=pooled_us <= slo.p95_us and enough,
        least_kept=None if least_p95_us is None else pooled_us <= least_p95_us and enough,
    )


_CHAIN_NAME = "of-{}"  # in results


def chain_of(
    functions: Mapping[str, str],
    cpu: int,
    mpps: Mapping[str, float] | None = None,
    capture: Path | None = None,
) -> LoadedChain:
    """A chain for each function.

    `mpps`: the rate of each chain; its packets are written to `capture`. Without both, the source
    sends as fast as the chain takes packets.
    """
    ports = {name: _FIRST_PORT + index for index, name in enumerate(functions)}
    traffic: dict[str, Any] = {"source": {"kind": "synthetic", "size": 64}}
    if mpps and capture:
        write_mixed(capture, {ports[name]: rate for name, rate in mpps.items()})
        traffic = {
            "source": {"kind": "pcap", "file": str(capture)},
            "rate": f"{sum(mpps.values()):.6f}Mpps",
            "arrivals": "poisson",
        }
    data = {
        "apiVersion": API_VERSION,
        "name": "bench-promises",
        "traffic": traffic,
        "scheduler": {"controller": "handover", "max_delay_us": 0},  # as profiled
        "functions": {
            name: {"program": "macswap", "args": ["--cost", cost], "cpu": cpu}
            for name, cost in functions.items()
        },
        "chains": {
            _CHAIN_NAME.format(name): {
                "path": [name],
                **({"match": [{"dst_port": port}]} if len(ports) > 1 else {}),
            }
            for name, port in ports.items()
        },
    }
    return LoadedChain(
        built.examples_directory() / "bench-promises", ChainFile.model_validate(data)
    )
