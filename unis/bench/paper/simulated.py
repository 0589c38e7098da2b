"""The points of figures 4, 7 and 8 in the simulator, and what no two CPUs can show."""

import statistics
from collections.abc import Callable, Mapping

from unis.bench.paper import arms
from unis.bench.paper.cases import CONFIGURATIONS, Case, paths_of, table_chain
from unis.bench.paper.measured import Measured
from unis.bench.paper.rows import ratio
from unis.chain.load import LoadedChain
from unis.report.evaluation import Agreement, SimulatedPoint
from unis.simulate.run import simulate
from unis.simulate.scenario import CostOf, MachineCosts, scenario

_SECONDS = 0.15  # of virtual time
FIGURES = ("fig4a", "fig4b", "fig7", "fig8")


def simulate_case(case: Case, measured: Measured) -> dict[str, float]:
    """Mpps of UNiS as in the paper and of co-operative functions, with the costs measured."""
    costs = {name: _cost(by_size) for name, by_size in measured.costs_ns.items()}
    machine = measured.machine_costs()
    return {
        arm: sum(_mpps(case.make(), costs, arm, machine).values())
        for arm in (arms.PRIORITY, arms.PAPER_K)
    }


def agreement(
    cases: Mapping[str, Case],
    measured: Mapping[str, Measured],
    simulated: Mapping[str, Mapping[str, float]],
) -> Agreement:
    """Ratios of the simulator beside those of the machine."""
    points: list[SimulatedPoint] = []
    for key, mpps in simulated.items():
        case = cases[key]
        found = ratio(measured[key], arms.PRIORITY, arms.PAPER_K)
        if found is None or not mpps[arms.PAPER_K]:
            continue
        points.append(
            SimulatedPoint(
                figure=next(name for name in FIGURES if name in case.figures),
                cost=case.cost,
                length=case.length,
                measured=found.median,
                simulated=mpps[arms.PRIORITY] / mpps[arms.PAPER_K],
                switch_us=measured[key].switch_ns / 1e3,
            )
        )
    return Agreement.of(points)


def simulate_table(
    measured: Mapping[str, Measured], report: Callable[[str], None]
) -> dict[str, dict[str, dict[str, float]]]:
    """Mpps by chain, by arm, of the configurations of Table 1 that were not measured."""
    medium = (of for key, of in measured.items() if key.startswith(("medium-", "table1")))
    source = next(medium, None)
    if source is None:
        return {}
    ns = statistics.median(statistics.fmean(sizes.values()) for sizes in source.costs_ns.values())
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in CONFIGURATIONS:
        if f"table1{name}" in measured:
            continue
        report(f"Table 1 ({name}): simulated, for it needs more CPUs")
        chain = table_chain(paths_of(name, (1, 2)))
        costs: dict[str, CostOf] = dict.fromkeys(chain.file.functions, ns)
        machine = source.machine_costs()
        found[name] = {
            arm: _mpps(chain, costs, arm, machine) for arm in (arms.PRIORITY, arms.PAPER_K)
        }
    return found


def _cost(by_size: Mapping[int, float]) -> CostOf:
    return dict(by_size) if len(by_size) > 1 else next(iter(by_size.values()))


def _mpps(
    chain: LoadedChain, costs: Mapping[str, CostOf], arm: str, machine: MachineCosts
) -> dict[str, float]:
    policy = arms.ALL[arm].arm.policy
    result = simulate(scenario(chain, costs, policy, _SECONDS, machine))
    return {chain.name: chain.delivered / result.duration_ns * 1e3 for chain in result.chains}
