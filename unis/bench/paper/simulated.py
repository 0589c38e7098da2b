"""The points of figures 4, 7 and 8 in the simulator, and what no two CPUs can show."""

import statistics
from collections.abc import Callable, Mapping

from unis.bench.paper import arms
from unis.bench.paper.cases import CONFIGURATIONS, Case, paths_of, table_chain
from unis.bench.paper.measured import Measured
from unis.bench.paper.rows import ratio
from unis.bench.paper.virtual import Calibrated, chain_mpps, mpps_of
from unis.report.evaluation import Agreement, SimulatedPoint
from unis.simulate.scenario import CostOf

_HELD = (arms.PRIORITY, arms.HANDOVER)  # against the machine
FIGURES = ("fig4a", "fig4b", "fig7", "fig8")


def simulate_case(case: Case, measured: Measured, by: Calibrated) -> dict[str, float]:
    """Mpps of UNiS as in the paper, under hand-over, and of co-operative functions."""
    return {arm: mpps_of(case, measured, arm, by) for arm in (*_HELD, arms.PAPER_K)}


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
                    figure=next(name for name in FIGURES if name in case.figures),
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


def simulate_table(
    measured: Mapping[str, Measured],
    by: Mapping[str, Calibrated],
    report: Callable[[str], None],
) -> dict[str, dict[str, dict[str, float]]]:
    """Mpps by chain, by arm, of the configurations of Table 1 that were not measured."""
    medium = [key for key in by if key.startswith("medium-")]
    if not medium:
        return {}
    key = medium[-1]
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
            arm: chain_mpps(chain, costs, arm, Calibrated(by[key].machine))
            for arm in (*_HELD, arms.PAPER_K)
        }
    return found
