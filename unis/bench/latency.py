"""`unis bench latency`: how long packets take, by how many there are, and what throughput costs.

Two experiments. In the first the source sends at its own pace, whether the chain keeps up or not
(open loop), from little to more than co-operative functions sustain; what counts is the time from
when a packet was due. In the second it sends as fast as rings take packets, on rings of several
lengths: each policy so has pairs of throughput and latency, and the best throughput within a bound
on latency is its frontier.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from pydantic import BaseModel

from unis.bench.blocks import measure_blocks
from unis.bench.cooperative import COOPERATIVE, best_distance
from unis.bench.synthetic import macswap_chain
from unis.bench.throughput import POLICIES
from unis.chain.load import LoadedChain
from unis.links.kind import BATCH
from unis.measure import order
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Quartiles, Ratio
from unis.measure.summary import MachineSummary, latency_ratio, summarise_arm
from unis.measure.windows import Arm, Offered, Rounds, in_turn, throughput
from unis.plan.machine import Machine
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up

_T = TypeVar("_T")

ARRIVALS = ("constant", "poisson")
BOUNDS_US = (50, 100, 200, 500, 1000, 2000, 5000)
_FRONTIER_YIELDS = (1, 2, 4, 8, 16, 32, 64)  # bursts: each a point of co-operative
_LEAST_OF_RING = 8  # less than this part of a ring between yields is switching


class LatencyRow(BaseModel):
    """One policy at one load, or on rings of one length."""

    experiment: Literal["load", "frontier"]
    cost: str
    length: int
    ring: int  # slots
    policy: str
    controller: str | None
    yield_every: int | None  # bursts, of cooperative
    load: float | None  # of what cooperative sustains; None: as fast as rings take packets
    arrivals: str | None
    offered_mpps: float
    mpps: Quartiles
    drops: float  # a second
    latency_us: dict[str, float | None]
    # p50 and p95 by those of cooperative in the same round; None: it is not there, or no load
    latency_to_cooperative: dict[str, Ratio] | None
    disturbed: Disturbance


class LatencyResult(BaseModel):
    """All that was measured, and where."""

    machine: MachineSummary
    sustained_mpps: float  # by cooperative, at its best distance: load 1
    rows: list[LatencyRow]

    def frontier(self, policy: str, bound_us: float) -> float | None:
        """The most Mpps with a p95 latency within the bound; None: none of its points is."""
        return max(
            (
                row.mpps.median
                for row in self.rows
                if row.experiment == "frontier"
                and called(row) == policy
                and (p95 := row.latency_us["p95"]) is not None
                and p95 <= bound_us
            ),
            default=None,
        )


@dataclass(frozen=True)
class LatencySettings:
    """What the command line says."""

    cost: str
    length: int
    ring: int | None  # slots, of the first experiment; None: as `unis up` would choose
    policies: tuple[str, ...]
    loads: tuple[float, ...]
    rings: tuple[int, ...]  # of the second
    rounds: int  # at least, of each bring-up
    blocks: int  # of the second
    window: float  # seconds


def called(row: LatencyRow) -> str:
    """The policy as one asks for it: priority, handover, cooperative."""
    return row.controller or row.policy


def compare(
    settings: LatencySettings, machine: Machine, report: Callable[[str], None]
) -> LatencyResult:
    """Both experiments."""
    bench = _LatencyBench(settings, machine, report)
    sustained, rows = bench.loads()
    rows += bench.frontier()
    return LatencyResult(
        machine=MachineSummary.this(len(machine.cpus)), sustained_mpps=sustained, rows=rows
    )


def yields_on(ring: int) -> list[int]:
    """Distances between yields that are worth a try on rings of `ring` slots, bursts.

    Beyond its length the packets of a turn find no room.
    """
    return [
        every
        for every in _FRONTIER_YIELDS
        if ring <= every * BATCH * _LEAST_OF_RING and every * BATCH <= ring
    ]


class _LatencyBench:
    def __init__(
        self, settings: LatencySettings, machine: Machine, report: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._machine = machine
        self._report = report
        self._cpu = max(machine.cpus)

    def loads(self) -> tuple[float, list[LatencyRow]]:
        """What cooperative sustains, and a row for each policy, load and kind of arrivals."""
        return self._brought_up(self._settings.ring, self._loads)

    def _loads(self, run: Run) -> tuple[float, list[LatencyRow]]:
        self._report("what co-operative functions sustain, at their best distance between yields")
        best, at_best = best_distance(lambda arms, rounds: self._windows(run, arms, rounds))
        sustained = Quartiles.of(throughput(at_best, COOPERATIVE)).median
        rows: list[LatencyRow] = []
        for arrivals in ARRIVALS:
            for load in self._settings.loads:
                self._report(f"{load:.0%} of {sustained:.2f} Mpps, arrivals {arrivals}")
                offered = Offered(load * sustained * 1e6, arrivals)
                arms = {
                    name: replace(
                        POLICIES[name],
                        yield_every=best if name == COOPERATIVE else 0,
                        name=name,
                        offered=offered,
                    )
                    for name in self._settings.policies
                }
                windows = self._windows(run, tuple(arms.values()), self._settings.rounds)
                slots = run.plan.links[0].slots
                rows += [
                    self._row("load", arm, slots, windows, load, arrivals) for arm in arms.values()
                ]
        return sustained, rows

    def frontier(self) -> list[LatencyRow]:
        """A row for each policy, and distance between yields, on rings of each length."""
        rings = self._settings.rings
        parts: dict[str, Callable[[], Rounds]] = {
            str(ring): lambda ring=ring: self._on_rings(ring)  # type: ignore[misc]
            for ring in rings
        }
        blocks = self._settings.blocks
        measured = measure_blocks(
            parts,
            blocks,
            (min(self._machine.cpus), self._cpu),
            "frontier",
            self._report,
        )
        return [
            self._row("frontier", arm, ring, measured.rounds)
            for ring in rings
            for arm in self._arms_on(ring)
        ]

    def _on_rings(self, ring: int) -> Rounds:
        self._report(f"frontier: rings of {ring}")
        arms = self._arms_on(ring)
        return self._brought_up(ring, lambda run: self._windows(run, arms, self._settings.rounds))

    def _arms_on(self, ring: int) -> list[Arm]:
        policies = self._settings.policies
        arms = [replace(POLICIES[name], name=name) for name in policies if name != COOPERATIVE]
        if COOPERATIVE in policies:
            arms += [Arm("cooperative", yield_every=every) for every in yields_on(ring)]
        return [replace(arm, name=f"{arm} on {ring}") for arm in arms]

    def _windows(self, run: Run, arms: Sequence[Arm], rounds: int) -> Rounds:
        return in_turn(run, arms, order.balanced_rounds(len(arms), rounds), self._settings.window)

    def _brought_up(self, ring: int | None, look: Callable[[Run], _T]) -> _T:
        def make() -> LoadedChain:
            cost, length = self._settings.cost, self._settings.length
            return macswap_chain("bench-latency", cost, length, self._cpu, ring=ring)

        return brought_up(make, self._machine, Options(costs="anew"), self._report, look)

    def _row(
        self,
        experiment: Literal["load", "frontier"],
        arm: Arm,
        slots: int,
        rounds: Rounds,
        load: float | None = None,
        arrivals: str | None = None,
    ) -> LatencyRow:
        summary = summarise_arm(rounds, str(arm))
        return LatencyRow(
            experiment=experiment,
            cost=self._settings.cost,
            length=self._settings.length,
            ring=slots,
            policy=arm.policy,
            controller=arm.controller,
            yield_every=arm.yield_every or None,
            load=load,
            arrivals=arrivals,
            offered_mpps=summary.offered_mpps,
            mpps=summary.mpps,
            drops=summary.drops.per_second,
            latency_us=summary.latency_us,
            latency_to_cooperative=_to_cooperative(rounds, str(arm)),
            disturbed=summary.disturbed,
        )


def _to_cooperative(rounds: Rounds, arm: str) -> dict[str, Ratio] | None:
    if COOPERATIVE not in rounds[0]:
        return None
    found = {
        f"p{percentile}": Ratio.of(latency_ratio(rounds, arm, COOPERATIVE, percentile))
        for percentile in (50, 95)
    }
    return {name: ratio for name, ratio in found.items() if ratio}
