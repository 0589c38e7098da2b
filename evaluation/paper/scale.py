"""How many cores and functions one scheduler thread serves, and at which T, on virtual time.

Not in the paper. One thread schedules all cores; during a system call it observes no core.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from evaluation.paper import arms, ticks
from evaluation.paper.case import GAMMA
from evaluation.paper.results import Figure, Plot, Point
from evaluation.paper.ticks import Ticks
from unis.bench.synthetic import Stage, chain_of
from unis.calibrate.fit import RING
from unis.simulate.run import simulate
from unis.simulate.scenario import MachineCosts, scenario
from unis.v1 import simulator_pb2 as pb

_SECONDS = 0.02  # of virtual time
_COST_NS = 20.0  # per packet, of light functions
_KEEPS_UP = 0.9  # of the throughput of a single core: with less the scheduler does not keep up
CORES = (1, 2, 4, 8, 16, 32, 64)
FUNCTIONS = (2, 4, 8, 16, 32, 64)  # per core
INTERVALS_US = (1, 2, 5, 10, 20, 50, 100)
_FEW = (2, 4, 16)  # functions per core, in the sweeps over cores and T


@dataclass(frozen=True)
class Scale:
    """Mpps per core."""

    by_cores: Mapping[tuple[int, int], float]  # (cores, functions per core)
    by_interval: Mapping[tuple[float, int], float]  # (T in µs, functions per core), on one core
    by_functions: Mapping[int, float]  # functions per core, on one core
    switch_us: float
    ticks: Ticks = field(default_factory=dict)


def simulated(machine: MachineCosts, report: Callable[[str], None]) -> Scale:
    """Simulates all points, and measures the ticks."""
    report(f"scale: up to {CORES[-1]} cores, {FUNCTIONS[-1]} functions per core, T of 100 µs")
    return Scale(
        {
            (count, functions): _mpps(machine, count, functions, 1.0)
            for count, functions in itertools.product(CORES, _FEW)
        },
        {
            (interval, functions): _mpps(machine, 1, functions, interval)
            for interval, functions in itertools.product(INTERVALS_US, _FEW)
        },
        {functions: _mpps(machine, 1, functions, 1.0) for functions in FUNCTIONS},
        machine.switch_ns / 1e3,
        ticks.measured(report),
    )


def figure(scale: Scale) -> Figure:
    """The figure: where throughput per core falls."""
    cores = {
        functions: [
            (count, mpps)
            for (count, per_core), mpps in scale.by_cores.items()
            if per_core == functions
        ]
        for functions in _FEW
    }
    intervals = {
        functions: [
            (us, mpps)
            for (us, per_core), mpps in scale.by_interval.items()
            if per_core == functions
        ]
        for functions in _FEW
    }
    most = {functions: _last_good(points) for functions, points in cores.items()}
    longest = {functions: _last_good(points) for functions, points in intervals.items()}
    return Figure(
        key="scale", name="Scale", title="How many cores and functions one scheduler thread serves",
        paper="Up to two cores of functions, with T = 1 µs.",
        ours=f"With a switch of {scale.switch_us:.0f} µs, light functions, at least "
        f"{_KEEPS_UP:.0%} of the throughput of one core: "
        + ", ".join(f"{count:g} cores of {functions}" for functions, count in most.items())
        + "; T up to "
        + ", ".join(f"{us:g} µs with {functions}" for functions, us in longest.items())
        + "." + _ticks_text(scale.ticks),
        rule="",
        verdict="not in the paper", why="",
        source=["simulated", *(["measured"] if scale.ticks else [])],
        plots=[
            _plot("cores, one scheduler thread", "cores", cores),
            _plot("T, one core", "T, µs", intervals),
            Plot(
                kind="lines", title="functions on one core", x="functions", y="Mpps",
                series={
                    arms.PRIORITY: [Point(x=x, y=y) for x, y in scale.by_functions.items()]
                },
            ),
            *_tick_plots(scale.ticks),
        ],
    )  # fmt: skip


def _ticks_text(measured: Ticks) -> str:
    if not measured:
        return ""
    least, most = CORES[0], CORES[-1]
    return (
        f" Without system calls a tick of {least} core and of {most} cores with {ticks.FUNCTIONS} "
        "functions each takes "
        + ", ".join(
            f"{ns[least]:,.0f} and {ns[most]:,.0f} ns if {finding}"
            for finding, ns in measured.items()
        )
        + " (measured)."
    )


def _tick_plots(measured: Ticks) -> list[Plot]:
    if not measured:
        return []
    series = {
        finding: [Point(x=cores, y=ns / 1e3) for cores, ns in by_cores.items()]
        for finding, by_cores in measured.items()
    }
    title = f"a tick of all cores, {ticks.FUNCTIONS} functions per core, measured"
    return [Plot(kind="lines", title=title, x="cores", y="µs", series=series)]


def _plot(title: str, x: str, curves: Mapping[int, Sequence[tuple[float, float]]]) -> Plot:
    series = {
        f"{functions} functions per core": [
            Point(x=value, y=mpps / points[0][1]) for value, mpps in points
        ]
        for functions, points in curves.items()
    }
    return Plot(kind="lines", title=title, x=x, y="throughput per core ÷ the first", series=series)


def _last_good(points: Sequence[tuple[float, float]]) -> float:
    first = points[0][1]
    good = itertools.takewhile(lambda point: point[1] >= _KEEPS_UP * first, points)
    return [value for value, _ in good][-1]


def _mpps(machine: MachineCosts, cores: int, functions: int, interval_us: float) -> float:
    scheduler = {"gamma": GAMMA, "cost": "static", "interval_us": interval_us}
    chain = chain_of("scale", {"c0": [Stage("light", 1)] * 2}, ring=RING, scheduler=scheduler)
    simulation = scenario(
        chain, dict.fromkeys(chain.file.functions, _COST_NS), "unis", _SECONDS, machine,
        controller=arms.PRIORITY,
    )  # fmt: skip
    _multiply(simulation, cores, functions)
    result = simulate(simulation)
    return sum(chain.delivered for chain in result.chains) / result.duration_ns * 1e3 / cores


def _multiply(simulation: pb.Scenario, cores: int, functions: int) -> None:
    """Replaces the chain by one of `functions` on each core, more than a chain file may have."""
    function, chain = simulation.functions[0], simulation.chains[0]
    del simulation.functions[:], simulation.chains[:]
    for core in range(cores):
        path = [f"f{core}.{number}" for number in range(functions)]
        for name in path:
            simulation.functions.add(name=name, cpu=core + 1, cost_ns=function.cost_ns)
        capacity = [chain.capacity[0]] * (functions + 1)
        simulation.chains.add(
            name=f"c{core}", path=path, capacity=capacity, arrivals=chain.arrivals
        )
