"""What is compared: the paper's approaches, each at its best, and ours beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unis.bench.cooperative import COOPERATIVE, YIELD_EVERY
from unis.chain import defaults
from unis.chain.model import SchedulerPart
from unis.measure.windows import Arm, Offered
from unis.plan.contract import scheduler_settings
from unis.plan.gamma import gamma_of
from unis.plan.model import Plan
from unis.simulate.scenario import PAPER_YIELD_EVERY

PRIORITY, AGAIN = "priority", "priority again"
WITHOUT = "priority without occupancy"
HANDOVER = "handover"
OTHER, RR = "other", "rr"
FUSED = "fused"
BEST = COOPERATIVE  # at the best of the distances below
PAPER_K = f"cooperative/{PAPER_YIELD_EVERY}"
K = {every: f"cooperative/{every}" for every in YIELD_EVERY}  # bursts between yields

FILLS = (0.25, 0.5, 0.75, 1.0, 1.25)  # of an egress, by a time slice (Fig. 15)


def fills(share: float, *, occupancy: bool) -> str:
    """The arm whose slices fill so much of their egress."""
    return f"{share:.0%}{'' if occupancy else ' without occupancy'}"


@dataclass(frozen=True)
class Wanted:
    """An arm, and what of the scheduler's settings is its own."""

    arm: Arm
    scheduler: Mapping[str, Any] = field(default_factory=dict)  # as in SchedulerPart
    slice_factor: float | None = None

    def of(self, plan: Plan, offered: Offered | None = None) -> Arm:
        """The arm in a run of `plan`."""
        arm = replace(self.arm, offered=offered)
        if not self.scheduler and self.slice_factor is None:
            return arm
        # Anew, so that what a chain file could not have is refused here too.
        part = SchedulerPart.model_validate({**plan.scheduler.model_dump(), **self.scheduler})
        slots = min(link.slots for link in plan.links)
        settings = scheduler_settings(part, gamma_of(part, slots))
        if self.slice_factor is not None:
            settings.slice_factor = self.slice_factor
        return replace(arm, scheduler=settings.SerializeToString(deterministic=True))


def _unis(name: str, controller: str = PRIORITY, **scheduler: Any) -> Wanted:
    return Wanted(Arm("unis", controller, name=name), scheduler)


# The runs have the paper's settings: rings of 2048, γ of 0.75, costs that are measured once and
# stay. Hand-over, which it does not know, has the γ that `unis up` would take for these rings.
ALL: dict[str, Wanted] = {
    PRIORITY: _unis(PRIORITY),
    AGAIN: _unis(AGAIN),
    WITHOUT: _unis(WITHOUT, occupancy=False),
    HANDOVER: _unis(HANDOVER, HANDOVER, gamma="auto"),
    OTHER: Wanted(Arm("other", name=OTHER)),
    RR: Wanted(Arm("rr", name=RR)),
    FUSED: _unis(FUSED),
    **{name: Wanted(Arm("cooperative", yield_every=k, name=name)) for k, name in K.items()},
    **{
        fills(share, occupancy=occupancy): Wanted(
            Arm("unis", PRIORITY, name=fills(share, occupancy=occupancy)),
            {"occupancy": occupancy},
            share / defaults.PAPER_GAMMA,
        )
        for share in FILLS
        for occupancy in (True, False)
    },
}
CHAIN: Sequence[str] = (PRIORITY, WITHOUT, HANDOVER, *K.values())
LATENCY: Sequence[str] = (PRIORITY, HANDOVER, PAPER_K, K[16])
