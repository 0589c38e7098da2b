"""What is compared: the paper's approaches, each at its best, and ours beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unis.bench.cooperative import COOPERATIVE, SECOND, YIELD_EVERY
from unis.calibrate.fit import RING, SHORT_FILL
from unis.chain.model import SchedulerPart
from unis.measure.windows import Arm, Offered
from unis.plan.contract import scheduler_settings
from unis.plan.rings import gamma_of
from unis.simulate.scenario import PAPER_YIELD_EVERY

PRIORITY = "priority"
WITHOUT = "priority without occupancy"
HANDOVER, AGAIN = "handover", "handover again"
OTHER, RR = "other", "rr"
FUSED = "fused"
BEST = COOPERATIVE  # at the best of the distances below
PAPER_K = f"cooperative/{PAPER_YIELD_EVERY}"
# Of RING slots a slice that fills 75 % takes 24 bursts of 64 (section 5.6).
_BURST = 64  # packets
# Bursts between yields; those that a ring holds.
K = {every: f"cooperative/{every}" for every in YIELD_EVERY if every * _BURST <= RING}

FILLS = (SHORT_FILL, 0.5, 0.75, 1.0, 1.25)  # of an egress, by a time slice (Fig. 15)
SOME_FILLS = (0.25, 0.75, 1.0, 1.25)  # of what the paper does not have


def fills(share: float, *, occupancy: bool) -> str:
    """The arm whose slices fill so much of their egress."""
    return f"{share:.0%}{'' if occupancy else ' without occupancy'}"


def handed(share: float) -> str:
    """The same where functions hand the CPU over."""
    return f"{share:.0%} {HANDOVER}"


def followed(share: float) -> str:
    """The same by priority where costs are followed, as `unis up` does."""
    return f"{share:.0%} costs followed"


@dataclass(frozen=True)
class Wanted:
    """An arm, and what of the scheduler's settings is its own."""

    arm: Arm
    scheduler: Mapping[str, Any] = field(default_factory=dict)  # as in SchedulerPart
    fill: float | None = None  # of an egress, by a slice; None: γ

    def of(self, part: SchedulerPart, slots: int, offered: Offered | None = None) -> Arm:
        """The arm in a run whose file says `part` and whose shortest ring has `slots`."""
        arm = replace(self.arm, offered=offered)
        if not self.scheduler and self.fill is None:
            return arm
        # Anew, so that what a chain file could not have is refused here too.
        own = SchedulerPart.model_validate({**part.model_dump(), **self.scheduler})
        gamma = gamma_of(own, slots)
        settings = scheduler_settings(own, gamma)
        if self.fill is not None:
            settings.slice_factor = self.fill / gamma
        return replace(arm, scheduler=settings.SerializeToString(deterministic=True))


def _unis(name: str, controller: str = PRIORITY, **scheduler: Any) -> Wanted:
    return Wanted(Arm("unis", controller, name=name), scheduler)


# The runs have the paper's settings: rings of 2048, γ of 0.75, costs that are measured once and
# stay. Hand-over, which it does not know, has the γ that `unis up` would take for these rings.
ALL: dict[str, Wanted] = {
    PRIORITY: _unis(PRIORITY),
    WITHOUT: _unis(WITHOUT, occupancy=False),
    HANDOVER: _unis(HANDOVER, HANDOVER, gamma="auto"),
    AGAIN: _unis(AGAIN, HANDOVER, gamma="auto"),
    OTHER: Wanted(Arm("other", name=OTHER)),
    RR: Wanted(Arm("rr", name=RR)),
    FUSED: _unis(FUSED),
    **{name: Wanted(Arm("cooperative", yield_every=k, name=name)) for k, name in K.items()},
    **{
        fills(share, occupancy=occupancy): Wanted(
            Arm("unis", PRIORITY, name=fills(share, occupancy=occupancy)),
            {"occupancy": occupancy},
            share,
        )
        for share in FILLS
        for occupancy in (True, False)
    },
    **{
        handed(share): Wanted(Arm("unis", HANDOVER, name=handed(share)), {"gamma": "auto"}, share)
        for share in SOME_FILLS
    },
    **{
        followed(share): Wanted(
            Arm("unis", PRIORITY, name=followed(share)), {"cost": "online"}, share
        )
        for share in SOME_FILLS
    },
}
# Slices so short that switches take a large part of the time: what one takes is seen by them.
SHORT = fills(SHORT_FILL, occupancy=True)
CHAIN: Sequence[str] = (PRIORITY, WITHOUT, HANDOVER, SHORT, *K.values())
TUNED: Sequence[str] = (HANDOVER, AGAIN, BEST, SECOND)
TABLE: Sequence[str] = (PRIORITY, HANDOVER, PAPER_K, K[32])
KERNEL: Sequence[str] = (OTHER, HANDOVER)
LATENCY: Sequence[str] = (PRIORITY, HANDOVER, PAPER_K, K[16])
