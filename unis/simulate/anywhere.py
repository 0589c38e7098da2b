"""A chain's plan on a machine that has any CPU: to look up what is known of its functions."""

from unis.chain.load import LoadedChain
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.plan.planner import make_plan
from unis.runtime.planning import places

_ANY_CPU = frozenset(range(1024))  # the simulator has them all


def plan_anywhere(chain: LoadedChain) -> Plan:
    """Nothing is run by it. ChainFileError where its programs are not here, or it has faults."""
    return make_plan(chain, Machine(_ANY_CPU), [], places)
