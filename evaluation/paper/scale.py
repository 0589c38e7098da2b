"""What one thread of the scheduler serves, on virtual time: cores, functions a core, and T.

Not in the paper. The schedulers of all cores share one thread, whose system calls take time in
which it looks at no core.
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
_COST_NS = 20.0  # a packet, of light functions
_PATIENT = 0.9  # of what a core alone passes: less is a scheduler that does not keep up
CORES = (1, 2, 4, 8, 16, 32, 64)
FUNCTIONS = (2, 4, 8, 16, 32, 64)  # a core
INTERVALS_US = (1, 2, 5, 10, 20, 50, 100)
_SOME = (2, 4, 16)  # functions a core, where cores or T vary


@dataclass(frozen=True)
class Scale:
    """Mpps a core."""

    by_cores: Mapping[tuple[int, int], float]  # (cores, functions a core)
    by_interval: Mapping[tuple[float, int], float]  # (T, functions a core), on one core
    by_functions: Mapping[int, float]  # a core, on one core
    switch_us: float
    ticks: Ticks = field(default_factory=dict)


def simulated(machine: MachineCosts, report: Callable[[str], None]) -> Scale:
    """Simulates all."""
    report(f"scale: {CORES[-1]} cores, {FUNCTIONS[-1]} functions a core, T to 100 µs, simulated")
    return Scale(
        {
            (count, functions): _mpps(machine, count, functions, 1.0)
            for count, functions in itertools.product(CORES, _SOME)
        },
        {
            (interval, functions): _mpps(machine, 1, functions, interval)
            for interval, functions in itertools.product(INTERVALS_US, _SOME)
        },
        {functions: _mpps(machine, 1, functions, 1.0) for functions in FUNCTIONS},
        machine.switch_ns / 1e3,
        ticks.measured(report),
    )


def figure(scale: Scale) -> Figure:
    """Where it breaks."""
    cores = {
        functions: [
            (count, of) for (count, each), of in scale.by_cores.items() if each == functions
        ]
        for functions in _SOME
    }
    intervals = {
        functions: [(us, of) for (us, each), of in scale.by_interval.items() if each == functions]
        for functions in _SOME
    }
    most = {functions: _last_good(points) for functions, points in cores.items()}
    longest = {functions: _last_good(points) for functions, points in intervals.items()}
    return Figure(
        key="scale", name="Scale", title="What one thread of the scheduler serves",
        paper="Up to two cores of functions, and T of 1 µs.",
        ours=f"With a switch of {scale.switch_us:.0f} µs, light functions, {_PATIENT:.0%} or more "
        "of what a core alone passes: "
        + ", ".join(f"{count:g} cores of {functions}" for functions, count in most.items())
        + "; T up to "
        + ", ".join(f"{us:g} µs with {functions}" for functions, us in longest.items())
        + "." + _told(scale.ticks),
        rule="",
        verdict="not in the paper", why="",
        source=["simulated", *(["measured"] if scale.ticks else [])],
        plots=[
            _plot("cores, one thread of the scheduler", "cores", cores),
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


def _told(of: Ticks) -> str:
    if not of:
        return ""
    least, most = CORES[0], CORES[-1]
    return (
        f" Without system calls a tick of {least} and of {most} cores of {ticks.FUNCTIONS} takes "
        + ", ".join(
            f"{ns[least]:,.0f} and {ns[most]:,.0f} ns where {what}" for what, ns in of.items()
        )
        + " (measured)."
    )


def _tick_plots(of: Ticks) -> list[Plot]:
    if not of:
        return []
    series = {
        what: [Point(x=cores, y=ns / 1e3) for cores, ns in by_cores.items()]
        for what, by_cores in of.items()
    }
    title = f"a tick of all cores, {ticks.FUNCTIONS} functions a core, measured"
    return [Plot(kind="lines", title=title, x="cores", y="µs", series=series)]


def _plot(title: str, x: str, of: Mapping[int, Sequence[tuple[float, float]]]) -> Plot:
    series = {
        f"{functions} functions a core": [Point(x=at, y=mpps / points[0][1]) for at, mpps in points]
        for functions, points in of.items()
    }
    return Plot(kind="lines", title=title, x=x, y="of the first, a core", series=series)


def _last_good(points: Sequence[tuple[float, float]]) -> float:
    first = points[0][1]
    good = itertools.takewhile(lambda point: point[1] >= _PATIENT * first, points)
    return [at for at, _ in good][-1]


def _mpps(machine: MachineCosts, cores: int, functions: int, interval_us: float) -> float:
    scheduler = {"gamma": GAMMA, "cost": "static", "interval_us": interval_us}
    chain = chain_of("scale", {"c0": [Stage("light", 1)] * 2}, ring=RING, scheduler=scheduler)
    wanted = scenario(
        chain, dict.fromkeys(chain.file.functions, _COST_NS), "unis", _SECONDS, machine,
        controller=arms.PRIORITY,
    )  # fmt: skip
    _multiply(wanted, cores, functions)
    result = simulate(wanted)
    return sum(of.delivered for of in result.chains) / result.duration_ns * 1e3 / cores


def _multiply(of: pb.Scenario, cores: int, functions: int) -> None:
    """A chain of so many functions on each core; more than a chain file may have."""
    function, chain = of.functions[0], of.chains[0]
    del of.functions[:], of.chains[:]
    for core in range(cores):
        path = [f"f{core}.{at}" for at in range(functions)]
        for name in path:
            of.functions.add(name=name, cpu=core + 1, cost_ns=function.cost_ns)
        capacity = [chain.capacity[0]] * (functions + 1)
        of.chains.add(name=f"c{core}", path=path, capacity=capacity, arrivals=chain.arrivals)
