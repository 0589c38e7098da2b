"""`unis bench promises`: two promises planned onto one core, and measured there.

In each block two functions are profiled, each alone on the core: what it passes, and how late it is
by load. The planner places two promises, of parts of what each passes alone, on that one core, or
refuses them; it is asked too for the least latency that it would have promised. Then both are
brought up there, each in a chain of its own with packets that come at random at the rate that was
promised, and are held against it.

The cache is shared as it comes: two functions that need little of it need no classes of service.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from unis import built
from unis.bench.mixed import write_mixed
from unis.bench.promised import Window, calm, p95s, window
from unis.chain.load import LoadedChain
from unis.chain.model import API_VERSION, ChainFile
from unis.engine import names
from unis.engine.transfer import line_transfer_ns, steady
from unis.errors import UnisError
from unis.measure.machine import this_machine
from unis.measure.paired import Quartiles
from unis.measure.summary import MachineSummary
from unis.measure.windows import Arm
from unis.plan.machine import Machine
from unis.profile.machine import EngineLook
from unis.profile.windows import capacity, latency
from unis.runtime.bring_up import brought_up
from unis.runtime.options import Options
from unis.runtime.run import Run
from unis.slo.cores import Part, SharedPlacement, added_by_part
from unis.slo.profile import Profile, Server, Slo, Workload
from unis.slo.shared import shared
from unis.slo.verify_shared import shared_problems

_ARM = Arm("unis", "handover")
_LOADS = (0.1, 0.5, 0.8, 0.9)  # of what a function passes alone
_ROUNDS = 5  # of a profile
_FIRST_PORT = 5001
_SWITCH_ROUNDS = 2000
_STEPS, _STEP = 60, 1.05  # longer latencies that are tried, where the least is not promised
_PATIENCE = 3  # times as many windows, where some are disturbed
_SHORT = 0.02  # of a throughput: what comes at random in a window, and is on its way
_HALF = 0.5
_AGAIN = 2  # times the blocks: so often one is measured once more, where CPUs moved apart


class FunctionProfile(BaseModel):
    """Alone on the core."""

    name: str
    solo_mpps: float
    p95_us_by_load: dict[float, float]  # the upper end of what was measured at each load
    disturbed: float  # share of the windows that count


class Kept(BaseModel):
    """One promise, and what came of it."""

    chain: str
    part: float  # of what the function passes alone
    promised_mpps: float
    promised_p95_us: float
    least_p95_us: float  # that the planner would have promised
    mpps: Quartiles
    offered_mpps: Quartiles
    p95_us: Quartiles
    throughput_ratio: float  # delivered by what was promised, or came; median
    p95_ratio: float  # by what was promised; median
    windows: int  # that count
    windows_kept: int
    kept: bool


class Block(BaseModel):
    """Profiles, the plan, and both together."""

    profiles: list[FunctionProfile]
    yield_us: float  # measured: what passing the core on takes
    load: float  # of the core, as planned
    promises: list[Kept]
    windows: int  # of both together
    disturbed: int
    counts: bool  # half of its windows or more were not disturbed, of the profiles too
    kept: bool  # both


class Result(BaseModel):
    """results.json."""

    schema_version: int = 1
    machine: MachineSummary
    costs: tuple[str, str]  # of macswap, cycles a packet
    parts: tuple[float, float]
    p95_us: float  # promised to both
    blocks: list[Block]
    left_out: int  # blocks in which the distance of the CPUs changed
    kept: bool | None  # in all blocks that count; None: none counts

    @property
    def verdict(self) -> str:
        """A sentence."""
        counting = [block for block in self.blocks if block.counts]
        if self.kept is None:
            return "Too disturbed to tell: others had the engine's CPU in most windows."
        late = max(of.p95_ratio for block in counting for of in block.promises)
        short = min(of.throughput_ratio for block in counting for of in block.promises)
        told = f"p95 at most {late:.0%} of what was promised, throughput at least {short:.1%}"
        return f"Both promises {'hold' if self.kept else 'do not hold'}: {told}."

    @property
    def tightness(self) -> str:
        """How near the least latencies that the planner would have promised were, a sentence."""
        of = [one for block in self.blocks if block.counts for one in block.promises]
        held = sum(one.p95_us.median <= one.least_p95_us for one in of)
        return f"The least latency that would have been promised held for {held} of {len(of)}."


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    costs: tuple[str, str]  # of macswap
    parts: tuple[float, float]  # of what each passes alone
    p95_us: float  # promised to both
    blocks: int
    windows: int  # of both together, by block
    window: float  # seconds


def measure(
    settings: Settings, machine: Machine, report: Callable[[str], None]
) -> Iterator[tuple[list[Block], int]]:
    """All blocks so far and how many were left out, after each."""
    blocks: list[Block] = []
    left_out = 0
    cpus = min(machine.cpus), max(machine.cpus)
    while len(blocks) < settings.blocks:
        report(f"block {len(blocks) + 1} of {settings.blocks}")
        before = line_transfer_ns(*cpus)
        block = _block(settings, machine, report)
        if not steady([before, line_transfer_ns(*cpus)]) and left_out < _AGAIN * settings.blocks:
            left_out += 1
            report("the machine changed: once more")
            continue
        blocks.append(block)
        yield blocks, left_out


def result(blocks: list[Block], left_out: int, settings: Settings, machine: Machine) -> Result:
    """What is written."""
    counting = [block for block in blocks if block.counts]
    return Result(
        machine=this_machine(len(machine.cpus)),
        costs=settings.costs,
        parts=settings.parts,
        p95_us=settings.p95_us,
        blocks=blocks,
        left_out=left_out,
        kept=all(block.kept for block in counting) if counting else None,
    )


def _block(settings: Settings, machine: Machine, report: Callable[[str], None]) -> Block:
    functions = {f"macswap{at}": cost for at, cost in enumerate(settings.costs, 1)}
    found = {}
    for name, cost in functions.items():
        report(f"{name}, {cost} cycles a packet, alone on the core")
        make = partial(chain_of, {name: cost}, max(machine.cpus))
        look = partial(_profiled, name=name, seconds=settings.window)
        options = Options(start=False, use_cache=False)
        found[name] = brought_up(make, machine, options, report, look)
    profiles = [of for of, _ in found.values()]
    yield_us = statistics.median(us for _, us in found.values())
    workload, placement = planned(profiles, settings.parts, settings.p95_us, yield_us)
    least = least_us(profiles, settings.parts, settings.p95_us, yield_us)
    promised = {slo.name: slo for slo in workload.slos}
    told = ", ".join(f"{of.name} {of.mpps:.3f} Mpps within {of.p95_us:g} µs (least {us:.0f})"
                     for of, us in zip(promised.values(), least, strict=True))  # fmt: skip
    report(f"both on one core: {told}")
    rates = {name: slo.mpps for name, slo in promised.items()}
    with tempfile.TemporaryDirectory(prefix="unis-promises-") as folder:
        make = partial(chain_of, functions, max(machine.cpus), rates, Path(folder) / "mixed.pcap")
        seen = brought_up(
            make, machine, Options(use_cache=False), report,
            partial(_together, settings),
        )  # fmt: skip
    disturbed = sum(not of.counts for of in seen)
    promises = [
        kept(promised[name], part, us, calm(seen))
        for name, part, us in zip(functions, settings.parts, least, strict=True)
    ]
    return Block(
        profiles=profiles,
        yield_us=yield_us,
        load=placement.machines[0].cores[0].load,
        promises=promises,
        windows=len(seen),
        disturbed=disturbed,
        counts=2 * disturbed <= len(seen) and all(of.disturbed <= _HALF for of in profiles),
        kept=all(of.kept for of in promises),
    )


def _together(settings: Settings, run: Run) -> list[Window]:
    """So many windows that count, or all that there is patience for."""
    seen: list[Window] = []
    while sum(of.counts for of in seen) < settings.windows:
        seen.append(window(run, _ARM, settings.window))
        if len(seen) >= _PATIENCE * settings.windows:
            break
    return seen


def _profiled(run: Run, name: str, seconds: float) -> tuple[FunctionProfile, float]:
    """And what a yield takes, µs."""
    cpu = max(function.cpu for function in run.plan.functions)
    yield_us = run.client.switch_cost(cpu, _SWITCH_ROUNDS).yield_ns / 1e3
    run.client.start(names.policy(_ARM.policy), names.controller(run.plan.controller))
    look = EngineLook(run, seconds)
    solo = capacity(look, _ROUNDS)
    late = {load: latency(look, load, _ROUNDS) for load in _LOADS}
    readings = [solo, *late.values()]
    return FunctionProfile(
        name=name,
        solo_mpps=solo.value,
        p95_us_by_load={load: of.value + of.spread for load, of in late.items()},
        disturbed=statistics.mean(of.disturbed for of in readings),
    ), yield_us


def planned(
    profiles: Sequence[FunctionProfile], parts: Sequence[float], p95_us: float, yield_us: float
) -> tuple[Workload, SharedPlacement]:
    """Onto one core, with that latency for each. UnisError where the planner refuses that."""
    if sum(parts) >= 1:
        raise UnisError(f"{_percent(parts)} are more than a core")
    found = _placed(profiles, parts, [p95_us] * len(parts), yield_us)
    if found is None:
        raise UnisError(
            f"{p95_us:g} µs cannot be promised at {_percent(parts)} of what these functions pass "
            "alone on this machine as it is now"
        )
    return found


def least_us(
    profiles: Sequence[FunctionProfile], parts: Sequence[float], p95_us: float, yield_us: float
) -> list[float]:
    """For each the least latency, at the same distance from its own, that is promised to both.

    `p95_us` is promised, and the most that is said.
    """
    core = [
        Part(of.name, 0, part * of.solo_mpps, 1, part)
        for of, part in zip(profiles, parts, strict=True)
    ]
    added = added_by_part(core, yield_us)
    floor = [_profile(of).latency_us[0][1] + us for of, us in zip(profiles, added, strict=True)]
    for step in range(_STEPS):
        tried = [min(_STEP**step * us, p95_us) for us in floor]
        if _placed(profiles, parts, tried, yield_us):
            return tried
    return [p95_us] * len(parts)


def _placed(
    profiles: Sequence[FunctionProfile],
    parts: Sequence[float],
    p95_us: Sequence[float],
    yield_us: float,
) -> tuple[Workload, SharedPlacement] | None:
    """None: refused."""
    server = Server("this machine", 1, cores=1, ways=len(profiles))
    slos = tuple(
        Slo(of.name, _profile(of), part * of.solo_mpps, us)
        for of, part, us in zip(profiles, parts, p95_us, strict=True)
    )
    workload = Workload("measured", slos, (server,))
    try:
        placement = shared(workload, yield_us)
    except UnisError:  # they do not fit onto the one core
        return None
    if placement.refused:
        return None
    if wrong := [*shared_problems(workload, placement, yield_us)]:
        raise UnisError("the plan does not hold: " + "; ".join(wrong), bad_input=False)
    return workload, placement


def _percent(parts: Sequence[float]) -> str:
    return " and ".join(f"{part:.0%}" for part in parts)


def _profile(of: FunctionProfile) -> Profile:
    """Latencies as the planner wants them: none falls with load."""
    grown = accumulate(of.p95_us_by_load.values(), max)
    curve = tuple(zip(of.p95_us_by_load, grown, strict=True))
    return Profile(of.name, of.solo_mpps, (1.0,), curve, "measured just before")


def kept(slo: Slo, part: float, least_p95_us: float, found: Sequence[Window]) -> Kept:
    """What windows of its chain say of a promise, which is a part of what the function passes.

    `least_p95_us`: that the planner would have promised.
    """
    chain = _CHAIN.format(slo.name)
    late = p95s(found, chain)
    ratios = [
        window.chains[chain].mpps / min(slo.mpps, window.chains[chain].offered_mpps)
        for window in found
    ]
    in_time = [
        us <= slo.p95_us and ratio >= 1 - _SHORT for us, ratio in zip(late, ratios, strict=True)
    ]
    p95_ratio, throughput = statistics.median(late) / slo.p95_us, statistics.median(ratios)
    return Kept(
        chain=chain,
        part=part,
        promised_mpps=slo.mpps,
        promised_p95_us=slo.p95_us,
        least_p95_us=least_p95_us,
        mpps=Quartiles.of([window.chains[chain].mpps for window in found]),
        offered_mpps=Quartiles.of([window.chains[chain].offered_mpps for window in found]),
        p95_us=Quartiles.of(late),
        throughput_ratio=throughput,
        p95_ratio=p95_ratio,
        windows=len(found),
        windows_kept=sum(in_time),
        kept=p95_ratio <= 1 and throughput >= 1 - _SHORT,
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
