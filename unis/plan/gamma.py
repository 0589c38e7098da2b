"""γ, the share of its egress that a time slice fills, where the chain file does not say.

Until a switch is done the function goes on, and what it then sends finds the rest of the egress. So
γ leaves room for what is sent while a switch is under way, no more: the longer the links, the
nearer it is to 1, and the fewer the switches. Never below what the paper has, for short links, nor
quite 1, for what a packet costs is known to a few percent.
"""

from dataclasses import dataclass

from unis.chain import defaults
from unis.chain.model import SchedulerPart

_MOST = 0.95


@dataclass(frozen=True)
class GammaChoice:
    """γ of a run, and why."""

    value: float
    why: str


def gamma_of(part: SchedulerPart, slots: int, cost_ns: float, switch_ns: float) -> float:
    """For links of so many slots (the shortest) and a packet of so many ns (the cheapest)."""
    if part.gamma != "auto":
        return part.gamma
    return max(defaults.PAPER_GAMMA, min(_MOST, round(1 - switch_ns / (cost_ns * slots), 2)))


def gamma_choice(part: SchedulerPart, slots: int, cost_ns: float, switch_ns: float) -> GammaChoice:
    """The same, and why."""
    value = gamma_of(part, slots, cost_ns, switch_ns)
    if part.gamma != "auto":
        return GammaChoice(value, "stated")
    sent = round(switch_ns / cost_ns)
    why = f"in a switch a function sends up to {sent} packets, and the shortest link holds {slots}"
    if value == defaults.PAPER_GAMMA:
        why += "; no less than this"
    elif value == _MOST:
        why += "; no more than this"
    return GammaChoice(value, why)
