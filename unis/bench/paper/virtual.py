"""One arm of a case in the simulator."""

from collections.abc import Mapping

from unis.bench.paper import arms
from unis.bench.paper.cases import Case
from unis.bench.paper.measured import Measured
from unis.chain.load import LoadedChain
from unis.simulate.run import simulate
from unis.simulate.scenario import CostOf, MachineCosts, scenario

_SECONDS = 0.15  # of virtual time


def mpps_of(case: Case, measured: Measured, arm: str, machine: MachineCosts) -> float:
    """What all chains of a case pass, with the costs of its functions as they were estimated."""
    costs = {name: _cost(by_size) for name, by_size in measured.costs_ns.items()}
    return sum(chain_mpps(case.make(), costs, arm, machine).values())


def chain_mpps(
    chain: LoadedChain, costs: Mapping[str, CostOf], arm: str, machine: MachineCosts
) -> dict[str, float]:
    """Mpps by chain."""
    wanted = arms.ALL[arm]
    settings = wanted.settings(chain.file.scheduler, arms.RING)
    run = scenario(
        chain, costs, wanted.arm.policy, _SECONDS, machine, controller=wanted.arm.controller
    )
    if settings is not None:
        run.scheduler.CopyFrom(settings)
    if wanted.arm.yield_every:
        for function in run.functions:
            function.yield_every = wanted.arm.yield_every
    result = simulate(run)
    return {of.name: of.delivered / result.duration_ns * 1e3 for of in result.chains}


def _cost(by_size: Mapping[int, float]) -> CostOf:
    return dict(by_size) if len(by_size) > 1 else next(iter(by_size.values()))
