"""The points of figures 4, 7 and 8 in the simulator, and what no two CPUs can show."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace

from evaluation.paper import arms
from evaluation.paper.case import MAIN, Case
from evaluation.paper.cases import CONFIGURATIONS, paths_of, table_chain
from evaluation.paper.measured import Measured, ratio
from evaluation.paper.results import Agreement, ResultRow, SimulatedPoint
from evaluation.paper.rows import simulated_row
from unis.calibrate.fit import BESIDE, DISTANCES, RING, Calibrated, Readings, calibrated, chain_mpps
from unis.simulate.scenario import CostOf, MachineCosts

_HELD = (arms.PRIORITY, arms.HANDOVER)  # against the machine
FREE = "priority, a switch takes no time"
_NO_TIME = 1.0  # ns; 0 would be the simulator's own
FIGURES = ("fig4a", "fig4b", "fig7", "fig8")


def can_calibrate(case: Case) -> bool:
    """Whether the case has a single chain, and measures every arm that the fit needs."""
    wanted = {arms.SHORT, *(arms.K[every] for every in DISTANCES)}
    return wanted <= {*case.sets.get(MAIN, ())} and len(case.make().file.chains) == 1


def readings_of(case: Case, measured: Measured) -> Readings:
    """What the fit needs of a case."""
    seen = ratio(measured, arms.SHORT, arms.K[BESIDE])
    return Readings(
        chain=case.make(),
        costs_ns=measured.costs_ns,
        cpu_ns={
            name: {every: _cpu_ns(measured, arms.K[every], name) for every in DISTANCES}
            for name in measured.costs_ns
        },
        short_ratio=seen.median if seen else None,
        engine=MachineCosts(
            switch_call_ns=measured.platform_ns["scheduler"],
            yield_ns=measured.yield_ns,
            source_ns=measured.platform_ns["source"],
            sink_ns=measured.platform_ns["sink"],
            platform_has_three_cpus=measured.three_cpus,
            scheduled_switch_ns=measured.switch_ns,
        ),
        preempt_ns=measured.preempt_ns,
    )


def _cpu_ns(measured: Measured, arm: str, name: str) -> list[float]:
    """CPU time a packet, of each window in which packets passed."""
    windows = measured.values(arm, lambda window: window)
    return [1e3 * window.cpu_share[name] / window.mpps for window in windows if window.mpps]


def calibrated_by(case: Case, measured: Measured) -> Calibrated:
    """For chains like this one, as the machine was while the case ran."""
    return calibrated(readings_of(case, measured))


def mpps_of(case: Case, measured: Measured, arm: str, by: Calibrated) -> float:
    """Simulated Mpps of all chains of a case, with the costs that were estimated."""
    chain = case.make()
    wanted = arms.ALL[arm].of(chain.file.scheduler, RING)
    return sum(chain_mpps(chain, measured.costs_ns, wanted, by).values())


def simulate_case(case: Case, measured: Measured, by: Calibrated) -> dict[str, float]:
    """Mpps of UNiS as in the paper, under hand-over, and of co-operative functions.

    And of the first if a switch took it no time, nor the scheduler.
    """
    found = {arm: mpps_of(case, measured, arm, by) for arm in (*_HELD, arms.PAPER_K)}
    return {**found, FREE: mpps_of(case, measured, arms.PRIORITY, free_of(by))}


def free_of(by: Calibrated) -> Calibrated:
    """The same machine where a switch by priority takes no time."""
    machine = replace(
        by.machine, switch_ns=_NO_TIME, kernel_switch_ns=_NO_TIME, scheduled_switch_ns=_NO_TIME,
        switch_call_ns=_NO_TIME,
    )  # fmt: skip
    return replace(by, machine=machine)


def agreement(
    cases: Mapping[str, Case],
    measured: Mapping[str, Measured],
    simulated: Mapping[str, Mapping[str, float]],
    by: Mapping[str, Calibrated],
) -> Agreement:
    """Ratios of the simulator beside those of the machine."""
    points: list[SimulatedPoint] = []
    for key, mpps in simulated.items():
        case = cases[key]
        for arm in _HELD:
            found = ratio(measured[key], arm, arms.PAPER_K)
            if found is None or not mpps[arms.PAPER_K]:
                continue
            points.append(
                SimulatedPoint(
                    figure=_figure_of(case),
                    cost=case.cost,
                    length=case.length,
                    arm=arm,
                    measured=found.median,
                    simulated=mpps[arm] / mpps[arms.PAPER_K],
                    switch_us=by[key].machine.kernel_switch_ns / 1e3,
                    chain_factor=by[key].machine.chain_factor,
                )
            )
    return Agreement.of(points)


def rows_of(
    cases: Mapping[str, Case],
    measured: Mapping[str, Measured],
    simulated: Mapping[str, Mapping[str, float]],
) -> list[ResultRow]:
    """What the simulator says at the points of the figures."""
    return [
        simulated_row(_figure_of(cases[key]), cases[key], measured[key], arm, mpps[arm])
        for key, mpps in simulated.items()
        for arm in (*_HELD, arms.PAPER_K)
    ]


def _figure_of(case: Case) -> str:
    return next(name for name in FIGURES if name in case.figures)


def simulate_table(
    measured: Mapping[str, Measured],
    by: Mapping[str, Calibrated],
    report: Callable[[str], None],
) -> dict[str, dict[str, dict[str, float]]]:
    """Mpps by chain, by arm, of the configurations of Table 1 that were not measured."""
    medium = sorted(key for key in by if key.startswith("medium-"))
    if not medium:
        return {}
    key = medium[-1]  # of the longest chain
    costs_ns = measured[key].costs_ns.values()
    ns = statistics.median(statistics.fmean(sizes.values()) for sizes in costs_ns)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in CONFIGURATIONS:
        if f"table1{name}" in measured:
            continue
        report(f"Table 1 ({name}): simulated, for it needs more CPUs")
        chain = table_chain(paths_of(name, (1, 2)))
        costs: dict[str, CostOf] = dict.fromkeys(chain.file.functions, ns)
        found[name] = {
            arm: chain_mpps(
                chain,
                costs,
                arms.ALL[arm].of(chain.file.scheduler, RING),
                Calibrated(by[key].machine),
            )
            for arm in (*_HELD, arms.PAPER_K)
        }
    return found
