"""γ, the share of its egress that a time slice fills, where the chain file does not say.

A switch is begun so early that it is done when the slice ends (the lead), but turns end with whole
bursts and looks come a little late. So γ leaves room for two bursts: the longer the links, the
nearer it is to 1, and the fewer the switches. Never below what the paper has, for short links, nor
quite 1, for what a packet costs is known to a few percent. The controller does not matter, and may
be changed while the chains run.
"""

from dataclasses import dataclass

from unis.chain import defaults
from unis.chain.model import SchedulerPart

_ROOM = 2 * defaults.BATCH  # packets
_MOST = 0.95


@dataclass(frozen=True)
class GammaChoice:
    """γ of a run, and why."""

    value: float
    why: str


def gamma_of(part: SchedulerPart, slots: int) -> float:
    """For links of so many slots, the shortest."""
    if part.gamma != "auto":
        return part.gamma
    return max(defaults.PAPER_GAMMA, min(_MOST, round(1 - _ROOM / slots, 2)))


def gamma_choice(part: SchedulerPart, slots: int) -> GammaChoice:
    """The same, and why."""
    value = gamma_of(part, slots)
    if part.gamma != "auto":
        return GammaChoice(value, "stated")
    why = f"so two bursts find room in the shortest link of a function, of {slots} slots"
    if value == defaults.PAPER_GAMMA:
        why = f"the paper's; the shortest link of a function has {slots} slots"
    elif value == _MOST:
        why += f"; {_MOST:g} is the most"
    return GammaChoice(value, why)
