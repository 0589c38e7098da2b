"""The simulator at the points of figures 4, 7 and 8, and Table 1 where CPUs are missing."""

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

_COMPARED = (arms.PRIORITY, arms.HANDOVER)  # with the machine
FREE = "priority, a switch takes no time"
_NO_TIME = 1.0  # ns; 0 would select the simulator's default
FIGURES = ("fig4a", "fig4b", "fig7", "fig8")


def can_calibrate(case: Case) -> bool:
    """Whether the case is a single chain with all arms that the fit needs."""
    needed = {arms.SHORT, *(arms.K[distance] for distance in DISTANCES)}
    return needed <= {*case.sets.get(MAIN, ())} and len(case.make().file.chains) == 1


def readings_of(case: Case, measured: Measured) -> Readings:
    """The input of the fit from a measured case."""
    short_ratio = ratio(measured, arms.SHORT, arms.K[BESIDE])
    return Readings(
        chain=case.make(),
        costs_ns=measured.costs_ns,
        cpu_ns={
            name: {distance: _cpu_ns(measured, arms.K[distance], name) for distance in DISTANCES}
            for name in measured.costs_ns
        },
        short_ratio=short_ratio.median if short_ratio else None,
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
    """CPU time per packet, ns, in each window in which packets passed."""
    windows = measured.values(arm, lambda window: window)
    return [1e3 * window.cpu_share[name] / window.mpps for window in windows if window.mpps]


def calibration_of(case: Case, measured: Measured) -> Calibrated:
    """The costs of the machine while the case ran."""
    return calibrated(readings_of(case, measured))


def mpps_of(case: Case, measured: Measured, arm: str, calibration: Calibrated) -> float:
    """Simulated Mpps of all chains of a case, with its measured costs."""
    chain = case.make()
    arm_in_run = arms.SPECS[arm].in_run(chain.file.scheduler, RING)
    return sum(chain_mpps(chain, measured.costs_ns, arm_in_run, calibration).values())


def simulate_case(case: Case, measured: Measured, calibration: Calibrated) -> dict[str, float]:
    """Mpps of UNiS as in the paper, of hand-over, of k = 8, and of UNiS with free switches."""
    mpps = {arm: mpps_of(case, measured, arm, calibration) for arm in (*_COMPARED, arms.PAPER_K)}
    return {**mpps, FREE: mpps_of(case, measured, arms.PRIORITY, with_free_switches(calibration))}


def with_free_switches(calibration: Calibrated) -> Calibrated:
    """The same machine with switches by priority that take no time."""
    machine = replace(
        calibration.machine, switch_ns=_NO_TIME, kernel_switch_ns=_NO_TIME,
        scheduled_switch_ns=_NO_TIME, switch_call_ns=_NO_TIME,
    )  # fmt: skip
    return replace(calibration, machine=machine)


def agreement(
    cases: Mapping[str, Case],
    measured: Mapping[str, Measured],
    simulated: Mapping[str, Mapping[str, float]],
    calibrations: Mapping[str, Calibrated],
) -> Agreement:
    """Compares the ratios of the simulator with those of the machine."""
    points: list[SimulatedPoint] = []
    for key, mpps in simulated.items():
        case = cases[key]
        for arm in _COMPARED:
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
                    switch_us=calibrations[key].machine.kernel_switch_ns / 1e3,
                    chain_factor=calibrations[key].machine.chain_factor,
                )
            )
    return Agreement.of(points)


def rows_of(
    cases: Mapping[str, Case],
    measured: Mapping[str, Measured],
    simulated: Mapping[str, Mapping[str, float]],
) -> list[ResultRow]:
    """Rows with the simulated throughput at the points of the figures."""
    return [
        simulated_row(_figure_of(cases[key]), cases[key], measured[key], arm, mpps[arm])
        for key, mpps in simulated.items()
        for arm in (*_COMPARED, arms.PAPER_K)
    ]


def _figure_of(case: Case) -> str:
    return next(name for name in FIGURES if name in case.figures)


def simulate_table(
    measured: Mapping[str, Measured],
    calibrations: Mapping[str, Calibrated],
    report: Callable[[str], None],
) -> dict[str, dict[str, dict[str, float]]]:
    """Mpps by configuration, arm and chain, of the configurations that were not measured."""
    medium = sorted(key for key in calibrations if key.startswith("medium-"))
    if not medium:
        return {}
    key = medium[-1]  # the longest chain
    costs_ns = measured[key].costs_ns.values()
    ns = statistics.median(statistics.fmean(sizes.values()) for sizes in costs_ns)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in CONFIGURATIONS:
        if f"table1{name}" in measured:
            continue
        report(f"Table 1 ({name}): simulated, because it needs more CPUs")
        chain = table_chain(paths_of(name, (1, 2)))
        costs: dict[str, CostOf] = dict.fromkeys(chain.file.functions, ns)
        found[name] = {
            arm: chain_mpps(
                chain,
                costs,
                arms.SPECS[arm].in_run(chain.file.scheduler, RING),
                Calibrated(calibrations[key].machine),
            )
            for arm in (*_COMPARED, arms.PAPER_K)
        }
    return found
