"""The arms of the comparison: the paper's approaches, each at its best, and UNiS' own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unis.bench.cooperative import COOPERATIVE, SECOND, YIELD_EVERY
from unis.calibrate.fit import RING, SHORT_FILL
from unis.chain.model import SchedulerPart
from unis.measure.windows import Arm, Offered
from unis.plan.contract import scheduler_settings
from unis.plan.rings import gamma_choice
from unis.simulate.scenario import PAPER_YIELD_EVERY

PRIORITY = "priority"
NO_OCCUPANCY = "priority without occupancy"
HANDOVER, HANDOVER_AGAIN = "handover", "handover again"
OTHER, RR = "other", "rr"
FUSED = "fused"
BEST = COOPERATIVE  # with the best of the distances between yields below
PAPER_K = f"cooperative/{PAPER_YIELD_EVERY}"
# A slice that fills 75 % of RING slots takes 24 bursts of 64 packets (section 5.6).
_BURST = 64  # packets
# By bursts between yields, as many as a ring holds.
K = {bursts: f"cooperative/{bursts}" for bursts in YIELD_EVERY if bursts * _BURST <= RING}

FILLS = (SHORT_FILL, 0.5, 0.75, 1.0, 1.25)  # share of an egress that a time slice fills (Fig. 15)
FEW_FILLS = (0.25, 0.75, 1.0, 1.25)  # for variants that the paper does not have


def fill_name(share: float, *, occupancy: bool) -> str:
    """The arm whose slices fill this share of their egress."""
    return f"{share:.0%}{'' if occupancy else ' without occupancy'}"


def handover_fill_name(share: float) -> str:
    """The same under hand-over."""
    return f"{share:.0%} {HANDOVER}"


def online_cost_fill_name(share: float) -> str:
    """The same by priority with costs estimated online, as `unis up` does."""
    return f"{share:.0%} costs followed"


@dataclass(frozen=True)
class ArmSpec:
    """An arm, and the scheduler settings in which it differs from the run."""

    arm: Arm
    scheduler: Mapping[str, Any] = field(default_factory=dict)  # as in SchedulerPart
    fill: float | None = None  # share of an egress that a slice fills; None: γ

    def in_run(self, part: SchedulerPart, slots: int, offered: Offered | None = None) -> Arm:
        """The arm in a run with the scheduler section `part` and `slots` in its shortest ring."""
        arm = replace(self.arm, offered=offered)
        if not self.scheduler and self.fill is None:
            return arm
        # Validated again, so that values which a chain file may not have are refused.
        own = SchedulerPart.model_validate({**part.model_dump(), **self.scheduler})
        gamma = gamma_choice(own, slots).value
        settings = scheduler_settings(own, gamma)
        if self.fill is not None:
            settings.slice_factor = self.fill / gamma
        return arm.with_settings(settings)


def _unis(name: str, controller: str = PRIORITY, **scheduler: Any) -> ArmSpec:
    return ArmSpec(Arm("unis", controller, name=name), scheduler)


# The runs have the paper's settings: rings of 2048, γ of 0.75, costs measured once. The paper has
# no hand-over: its γ is the one that `unis up` would choose for these rings.
SPECS: dict[str, ArmSpec] = {
    PRIORITY: _unis(PRIORITY),
    NO_OCCUPANCY: _unis(NO_OCCUPANCY, occupancy=False),
    HANDOVER: _unis(HANDOVER, HANDOVER, gamma="auto"),
    HANDOVER_AGAIN: _unis(HANDOVER_AGAIN, HANDOVER, gamma="auto"),
    OTHER: ArmSpec(Arm("other", name=OTHER)),
    RR: ArmSpec(Arm("rr", name=RR)),
    FUSED: _unis(FUSED),
    **{name: ArmSpec(Arm("cooperative", yield_every=k, name=name)) for k, name in K.items()},
    **{
        fill_name(share, occupancy=occupancy): ArmSpec(
            Arm("unis", PRIORITY, name=fill_name(share, occupancy=occupancy)),
            {"occupancy": occupancy},
            share,
        )
        for share in FILLS
        for occupancy in (True, False)
    },
    **{
        handover_fill_name(share): ArmSpec(
            Arm("unis", HANDOVER, name=handover_fill_name(share)), {"gamma": "auto"}, share
        )
        for share in FEW_FILLS
    },
    **{
        online_cost_fill_name(share): ArmSpec(
            Arm("unis", PRIORITY, name=online_cost_fill_name(share)), {"cost": "online"}, share
        )
        for share in FEW_FILLS
    },
}
# Slices so short that switches take much of the time: they show what a switch costs.
SHORT = fill_name(SHORT_FILL, occupancy=True)
CHAIN: Sequence[str] = (PRIORITY, NO_OCCUPANCY, HANDOVER, SHORT, *K.values())
TUNED: Sequence[str] = (HANDOVER, HANDOVER_AGAIN, BEST, SECOND)
TABLE: Sequence[str] = (PRIORITY, HANDOVER, PAPER_K, K[32])
KERNEL: Sequence[str] = (OTHER, HANDOVER)
LATENCY: Sequence[str] = (PRIORITY, HANDOVER, PAPER_K, K[16])
