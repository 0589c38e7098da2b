"""`python -m evaluation promises`: two promises planned onto one core, and measured there.

In each block two functions are profiled, each alone on the core: what it passes, and how late it is
by load. The planner places two promises, of parts of what each passes alone, on that one core, or
refuses them; it is asked too for the least latency that it would have promised, and for the least
parts that it refuses. Then both are brought up there, each in a chain of its own with packets that
come at random at the rate that was promised, and are held against it; and once more at the parts
that were refused.

The cache is shared as it comes: two functions that need little of it need no classes of service.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evaluation.promises.core import Core, Parts
from evaluation.promises.mixed import write_mixed
from evaluation.promises.result import (
    Block,
    FunctionProfile,
    PromiseKept,
    PromisesResult,
    Seen,
    Together,
    percent,
)
from evaluation.promises.windows import Window, calm, p95s, pooled_p95_us, window
from unis import built
from unis.chain.load import LoadedChain
from unis.chain.model import API_VERSION, ChainFile
from unis.engine import names
from unis.engine.transfer import line_transfer_ns, steady
from unis.measure.machine import this_machine
from unis.measure.paired import Quartiles
from unis.measure.windows import Arm
from unis.plan.machine import Machine
from unis.profile.machine import EngineLook
from unis.profile.windows import capacity, latency
from unis.runtime.bring_up import brought_up
from unis.runtime.options import Options
from unis.runtime.run import Run
from unis.slo.profile import Slo

_ARM = Arm("unis", "handover")
_LOADS = (0.1, 0.5, 0.8, 0.9)  # of what a function passes alone
_FIRST_PORT = 5001
_SWITCH_ROUNDS = 2000
_PATIENCE = 3  # times as many windows, where some are disturbed
_SHORT = 0.02  # of a throughput: what comes at random in a window, and is on its way


@dataclass(frozen=True)
class PromiseSettings:
    """What the command line says."""

    costs: tuple[str, str]  # of macswap
    parts: Parts
    p95_us: float  # promised to both
    blocks: int
    windows: int  # of both together, by block
    rounds: int  # of each reading of a profile, at least
    window: float  # seconds
    again: int  # retries per block, in the mean, where other processes disturbed it


def measure(
    settings: PromiseSettings, machine: Machine, report: Callable[[str], None]
) -> Iterator[tuple[list[Block], int]]:
    """All blocks so far and how many were left out, after each."""
    blocks: list[Block] = []
    left_out = 0
    cpus = min(machine.cpus), max(machine.cpus)
    while len(blocks) < settings.blocks:
        report(f"block {len(blocks) + 1} of {settings.blocks}")
        before = line_transfer_ns(*cpus)
        patience = left_out < settings.again * settings.blocks
        core = _core(settings, machine, report)
        if patience and not all(of.quiet for of in core.profiles):
            left_out += 1
            report("others disturbed the profiles: once more")
            continue
        block = _block(settings, machine, core, report)
        block.steady = steady([before, line_transfer_ns(*cpus)])
        if patience and not block.steady:
            left_out += 1
            report("the machine changed: once more")
            continue
        blocks.append(block)
        yield blocks, left_out


def result(
    blocks: list[Block], left_out: int, settings: PromiseSettings, machine: Machine
) -> PromisesResult:
    """What is written."""
    counting = [block.promised for block in blocks if block.counts]
    whole = bool(counting) and len(blocks) == settings.blocks
    least = all(one.least_kept is True for of in counting for one in of.promises)
    return PromisesResult(
        machine=this_machine(len(machine.cpus)),
        costs=settings.costs,
        parts=settings.parts,
        p95_us=settings.p95_us,
        blocks_asked=settings.blocks,
        blocks=blocks,
        left_out=left_out,
        kept=all(of.kept for of in counting) if whole else None,
        least_kept=least if whole else None,
    )


def _functions(settings: PromiseSettings) -> dict[str, str]:
    """Their costs, by name."""
    return {f"macswap{at}": cost for at, cost in enumerate(settings.costs, 1)}


def _core(settings: PromiseSettings, machine: Machine, report: Callable[[str], None]) -> Core:
    """Each function alone on it."""
    found = []
    for name, cost in _functions(settings).items():
        report(f"{name}, {cost} cycles a packet, alone on the core")
        make = partial(chain_of, {name: cost}, max(machine.cpus))
        look = partial(_profiled, name=name, settings=settings)
        options = Options(start=False, costs="anew")
        found.append(brought_up(make, machine, options, report, look))
    yield_us = statistics.median(us for _, us in found)
    return Core([of for of, _ in found], yield_us, settings.p95_us)


def _block(
    settings: PromiseSettings, machine: Machine, core: Core, report: Callable[[str], None]
) -> Block:
    _, placement = core.planned(settings.parts)
    beyond = core.refused(settings.parts)
    together = partial(_both, settings, machine, report, core)
    report(f"both on one core at {percent(settings.parts)}, within {settings.p95_us:g} µs")
    promised = together(settings.parts)
    report(f"at {percent(beyond)}, which is refused")
    return Block(
        profiles=[*core.profiles],
        yield_us=core.yield_us,
        load=placement.machines[0].cores[0].load,
        promised=promised,
        refused=together(beyond),
        steady=True,
    )


def _both(
    settings: PromiseSettings,
    machine: Machine,
    report: Callable[[str], None],
    core: Core,
    parts: Parts,
) -> Together:
    """Brought up at these parts, and looked at."""
    slos = core.slos(parts, [settings.p95_us] * len(parts))
    rates = {slo.name: slo.mpps for slo in slos}
    with tempfile.TemporaryDirectory(prefix="unis-promises-") as folder:
        make = partial(
            chain_of, _functions(settings), max(machine.cpus), rates, Path(folder) / "mixed.pcap"
        )
        seen = brought_up(make, machine, Options(costs="anew"), report, partial(_windows, settings))
    used = calm(seen)
    least: Sequence[float | None] = core.least_us(parts) or [None] * len(parts)
    return Together(
        parts=parts,
        promises=[kept(*of, used) for of in zip(slos, parts, least, strict=True)],
        windows=[_seen(window) for window in seen],
    )


def _seen(window: Window) -> Seen:
    return Seen(
        mpps={name: of.mpps for name, of in window.chains.items()},
        p95_us={name: of.p95_us for name, of in window.chains.items()},
        disturbance=window.disturbance,
    )


def _windows(settings: PromiseSettings, run: Run) -> list[Window]:
    """So many windows that count, or all that there is patience for."""
    seen: list[Window] = []
    while sum(of.counts for of in seen) < settings.windows:
        seen.append(window(run, _ARM, settings.window))
        if len(seen) >= _PATIENCE * settings.windows:
            break
    return seen


def _profiled(run: Run, name: str, settings: PromiseSettings) -> tuple[FunctionProfile, float]:
    """And what a yield takes, µs."""
    cpu = max(function.cpu for function in run.plan.functions)
    yield_us = run.client.switch_cost(cpu, _SWITCH_ROUNDS).yield_ns / 1e3
    run.client.start(names.policy(_ARM.policy), names.controller(run.plan.controller))
    look = EngineLook(run, settings.window)
    solo = capacity(look, settings.rounds)
    late = {load: latency(look, load, settings.rounds) for load in _LOADS}
    readings = [solo, *late.values()]
    return FunctionProfile(
        name=name,
        solo_mpps=solo.value,
        p95_us_by_load={load: of.value + of.spread for load, of in late.items()},
        disturbed=statistics.mean(of.disturbed for of in readings),
    ), yield_us


def kept(slo: Slo, part: float, least_p95_us: float | None, found: Sequence[Window]) -> PromiseKept:
    """What windows of its chain say of a promise, which is a part of what the function passes.

    `least_p95_us`: that the planner would have promised; None: it refuses.
    """
    chain = _CHAIN.format(slo.name)
    late, whole = p95s(found, chain), pooled_p95_us(found, chain)
    ratios = [window.chains[chain].mpps / slo.mpps for window in found]
    in_time = [
        us <= slo.p95_us and ratio >= 1 - _SHORT for us, ratio in zip(late, ratios, strict=True)
    ]
    throughput = statistics.median(ratios)
    enough = throughput >= 1 - _SHORT
    return PromiseKept(
        chain=chain,
        part=part,
        promised_mpps=slo.mpps,
        promised_p95_us=slo.p95_us,
        least_p95_us=least_p95_us,
        mpps=Quartiles.of([window.chains[chain].mpps for window in found]),
        offered_mpps=Quartiles.of([window.chains[chain].offered_mpps for window in found]),
        p95_us=Quartiles.of(late),
        pooled_p95_us=whole,
        throughput_ratio=throughput,
        p95_ratio=whole / slo.p95_us,
        windows=len(found),
        windows_kept=sum(in_time),
        kept=whole <= slo.p95_us and enough,
        least_kept=None if least_p95_us is None else whole <= least_p95_us and enough,
    )


_CHAIN = "of-{}"


def chain_of(
    functions: Mapping[str, str],
    cpu: int,
    mpps: Mapping[str, float] | None = None,
    capture: Path | None = None,
) -> LoadedChain:
    """A chain for each; with the packets of a capture, at these rates, or as fast as may be."""
    ports = {name: _FIRST_PORT + at for at, name in enumerate(functions)}
    traffic: dict[str, Any] = {"source": {"kind": "synthetic", "size": 64}}
    if mpps and capture:
        write_mixed(capture, {ports[name]: of for name, of in mpps.items()})
        traffic = {
            "source": {"kind": "pcap", "file": str(capture)},
            "rate": f"{sum(mpps.values()):.6f}Mpps",
            "arrivals": "poisson",
        }
    data = {
        "apiVersion": API_VERSION,
        "name": "bench-promises",
        "traffic": traffic,
        "scheduler": {"controller": "handover"},
        "functions": {
            name: {"program": "macswap", "args": ["--cost", cost], "cpu": cpu}
            for name, cost in functions.items()
        },
        "chains": {
            _CHAIN.format(name): {
                "path": [name],
                **({"match": [{"dst_port": port}]} if len(ports) > 1 else {}),
            }
            for name, port in ports.items()
        },
    }
    return LoadedChain(
        built.examples_directory() / "bench-promises", ChainFile.model_validate(data)
    )
