"""One arm of a case in the simulator."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from unis.calibrate import arms
from unis.calibrate.case import Case
from unis.calibrate.measured import Measured
from unis.chain.load import LoadedChain
from unis.simulate.run import simulate
from unis.simulate.scenario import CostOf, MachineCosts, scenario

_SECONDS = 0.15  # of virtual time


@dataclass(frozen=True)
class Calibrated:
    """What the simulator must know of the machine."""

    machine: MachineCosts
    # By function: what a packet costs it in the chain by what it costs it alone.
    factors: Mapping[str, float] = field(default_factory=dict)


def mpps_of(case: Case, measured: Measured, arm: str, by: Calibrated) -> float:
    """What all chains of a case pass, with the costs of its functions as they were estimated."""
    costs = {name: _cost(by_size) for name, by_size in measured.costs_ns.items()}
    return sum(chain_mpps(case.make(), costs, arm, by).values())


def chain_mpps(
    chain: LoadedChain, costs: Mapping[str, CostOf], arm: str, by: Calibrated
) -> dict[str, float]:
    """Mpps by chain."""
    wanted = arms.ALL[arm]
    settings = wanted.settings(chain.file.scheduler, arms.RING)
    run = scenario(
        chain, costs, wanted.arm.policy, _SECONDS, by.machine, controller=wanted.arm.controller,
        factors=by.factors,
    )  # fmt: skip
    if settings is not None:
        run.scheduler.CopyFrom(settings)
    if wanted.arm.yield_every:
        for function in run.functions:
            function.yield_every = wanted.arm.yield_every
    result = simulate(run)
    return {of.name: of.delivered / result.duration_ns * 1e3 for of in result.chains}


def _cost(by_size: Mapping[int, float]) -> CostOf:
    return dict(by_size) if len(by_size) > 1 else next(iter(by_size.values()))
