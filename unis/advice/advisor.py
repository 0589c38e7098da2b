"""Advice on a chain of this machine: what the rules need is read here."""

from unis import links
from unis.advice.change import changed_chain
from unis.advice.rules import Situation, advise, driver_change
from unis.chain.load import LoadedChain
from unis.errors import UnisError
from unis.links.kind import driver_missing
from unis.measure import primitives
from unis.measure.primitives import Primitives
from unis.parts.advised import Advice, ChainUse
from unis.parts.result import ChainParts
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.runtime.costs import known_costs
from unis.runtime.planning import others, plan_chain

_DRIVERS = ("mmsg", "af_packet", "af_xdp")


def with_advice(
    found: ChainParts, chain: LoadedChain, plan: Plan, use: ChainUse | None, machine: Machine
) -> ChainParts:
    """The profile with advice; without where nothing is known of its use of the CPUs."""
    if use is None:
        return found
    situation = Situation(
        file=chain.file,
        plan=plan,
        parts=found,
        use=use,
        primitives=_calibrated(),
        free=_free(plan, machine),
        costs=_costs(chain, machine),
        lacking=_lacking(),
    )
    advice, considered = advise(situation)
    advice, impossible = _possible(advice, chain, machine)
    considered += impossible
    if situation.primitives is None:
        considered.append("The machine is not calibrated: `unis calibrate` lets more be said.")
    return found.model_copy(update={"use": use, "advice": advice, "considered": considered})


def _possible(
    advice: list[Advice], chain: LoadedChain, machine: Machine
) -> tuple[list[Advice], list[str]]:
    """What can be planned, and of the rest why it cannot."""
    possible: list[Advice] = []
    impossible: list[str] = []
    for each in advice:
        try:
            plan_chain(changed_chain(chain, each.change), machine)
        except (UnisError, ValueError) as error:
            impossible.append(f"{each.what} It cannot be planned: {error}")
        else:
            possible.append(each)
    return possible, impossible


def _calibrated() -> Primitives | None:
    try:
        return primitives.kept()
    except UnisError:
        return None


def _free(plan: Plan, machine: Machine) -> frozenset[int]:
    taken = {cpu for other in others() for cpu in other.cpus | other.packet_cpus}
    return frozenset(machine.cpus - taken - plan.packet_cpus - {*plan.cpus})


def _costs(chain: LoadedChain, machine: Machine) -> dict[str, dict[str, float]]:
    """Of functions by driver, where all are known of a chain whose links are all of kind veth."""
    found: dict[str, dict[str, float]] = {}
    if not chain.file.links or any(link.kind not in ("veth", "xdp") for link in chain.file.links):
        return found
    for driver in _DRIVERS:
        try:
            plan = plan_chain(changed_chain(chain, driver_change(chain.file, driver)), machine)
        except (UnisError, ValueError):  # it cannot be made here, or not of this chain
            continue
        costs = {name: cost.ns for name, cost in known_costs(plan).items()}
        if len(costs) == len(plan.functions):
            found[driver] = costs
    return found


def _lacking() -> dict[str, str]:
    told = {
        "af_packet": driver_missing("net_af_packet"),
        "af_xdp": links.KINDS["xdp"].lacks(),
    }
    return {driver: lack for driver, lack in told.items() if lack}
