"""A profile as `unis plan` reads it, and what must be known of it."""

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from unis.profile.bounds import Reading, Shape
from unis.profile.curve import Curve
from unis.profile.fits import Fit, Words, fit
from unis.profile.profiler import Wish
from unis.profile.store import StoredProfile
from unis.slo.profile import ImpossibleProfileError, Profile

_LOST = 0.005  # of the packets offered: beyond, a load is not borne
_NEXT_TO_NOTHING = 0.0001  # of what passes, with ways for which nothing is known
# Fewer packets wait than this part of a ring, though they come as fast as it takes them.
_KEPT_BUSY = 0.5
_DISTURBED = 0.5  # of the windows behind a reading

SHARES = Words(lambda ways: f"with {ways:g} ways", lambda share: f"{share:.1%}")
LATENCIES = Words(lambda load: f"at {load:g} % of the load", lambda us: f"{us:.1f} µs")


@dataclass(frozen=True)
class Modelled:
    """Throughput with 1, 2, … ways beside all ways, by a model of the cache."""

    shares: Sequence[float]
    source: str


class CurvePoint(BaseModel):
    """One reading, and what was made of it."""

    at: float  # ways, or percent of the load
    value: float
    spread: float
    fitted: float
    lost: float
    disturbed: float


class CurveResult(BaseModel):
    """A curve, and how far it may be off."""

    points: list[CurvePoint]
    shaped: bool  # concave or convex, within the spread
    may_be_off: float  # of a value, if the curve is of its shape
    doubts: list[str]  # what cannot be told, for measurements vary by more


class Profiled(BaseModel):
    """A profile, where it is from, and what it is worth."""

    name: str
    solo_mpps: float
    solo_spread: float
    percent_by_ways: list[float]
    p95_us_by_percent_of_load: dict[float, float]
    throughput_by_ways: str  # measured, modelled, unknown
    source: str
    remarks: list[str]
    measurements: int
    throughput: CurveResult | None
    latency: CurveResult

    def profile(self) -> Profile:
        """As the planner has it. ImpossibleProfileError if it is none."""
        return Profile(
            self.name,
            self.solo_mpps,
            tuple(percent / 100 for percent in self.percent_by_ways),
            tuple((load / 100, us) for load, us in self.p95_us_by_percent_of_load.items()),
            self.source,
        )

    def yaml(self) -> str:
        """The part of a workload file."""
        ways = ", ".join(f"{percent:g}" for percent in self.percent_by_ways)
        loads = self.p95_us_by_percent_of_load.items()
        latency = ", ".join(f"{load:.1f}: {us:g}" for load, us in loads)
        lines = [f"# {remark}" for remark in self.remarks]
        lines += [
            "functions:",
            f"  {self.name if self.name[0].isalpha() else json.dumps(self.name)}:",
            f"    solo_mpps: {self.solo_mpps:g}",
            f"    percent_by_ways: [{ways}]",
            f"    p95_us_by_percent_of_load: {{{latency}}}",
            f"    source: {json.dumps(self.source, ensure_ascii=False)}",
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class About:
    """Of what, and where."""

    name: str
    told: str  # function and arguments
    traffic: str
    place: str
    build: str
    ways: int  # of the machine
    cost_ns: float | None  # a packet, of all functions, each measured alone


def result(
    wish: Wish, kept: StoredProfile, about: About, modelled: Modelled | str | None = None
) -> Profiled:
    """Of all that was measured; throughput by ways, where it was not, of a model, or why the model
    has none.

    ImpossibleProfileError if that is no profile.
    """
    if kept.mpps is None or not kept.mpps.value > 0:
        raise ImpossibleProfileError("nothing passes")
    throughput, latency = wish.curves(kept)
    shares, how, by_ways_remarks, throughput_fit = _shares(
        throughput, modelled, about.ways, measurable=bool(wish.ways)
    )
    latency_fit = fit(latency.readings, Shape.CONVEX, LATENCIES)
    loads, lost_remarks = _borne(latency, latency_fit)
    measured = [kept.mpps, *kept.shares.values(), *kept.latencies.values()]
    disturbed = _disturbed(measured)
    day = datetime.datetime.fromtimestamp(kept.began, datetime.UTC).date()
    remarks = [
        *_limits(kept, about),
        *by_ways_remarks,
        *(throughput_fit.remarks if throughput_fit else ()),
        *latency_fit.remarks,
        *lost_remarks,
        *disturbed,
    ]
    found = Profiled(
        name=about.name,
        solo_mpps=float(f"{kept.mpps.value:.4g}"),
        solo_spread=kept.mpps.spread,
        percent_by_ways=[round(share * 100, 2) for share in shares],
        p95_us_by_percent_of_load={load: float(f"{us:.3g}") for load, us in loads.items()},
        throughput_by_ways=how,
        source=(
            f"{'disturbed; ' * bool(disturbed)}{about.told}; {about.traffic}, rings of "
            f"{kept.slots}; throughput by ways {how}, the "
            f"rest measured {day} on {about.place}; {about.build}"
        ),
        remarks=remarks,
        measurements=len(measured),
        throughput=_curved(throughput, throughput_fit, SHARES)
        if throughput and throughput_fit
        else None,
        latency=_curved(latency, latency_fit, LATENCIES),
    )
    found.profile()
    return found


def _shares(
    curve: Curve | None, modelled: Modelled | str | None, ways: int, *, measurable: bool
) -> tuple[list[float], str, list[str], Fit | None]:
    """Shares of throughput by ways: measured, else modelled, else hardly any below all ways."""
    if curve is not None:
        found = fit(curve.readings, Shape.CONCAVE, SHARES)
        smooth = Curve(
            curve.axis, curve.shape, {x: Reading(value) for x, value in found.values.items()}
        )
        values = [min(1.0, smooth.at(x)) for x in curve.axis.points()]
        return values, "measured", [], found
    if isinstance(modelled, Modelled):
        remark = f"throughput by ways is modelled, not measured: {modelled.source}"
        return [min(1.0, share) for share in modelled.shares], "modelled", [remark], None
    count = max(1, ways)
    why = "this machine lets nobody set cache ways (CAT, resctrl)"
    if measurable:
        why = "it is not measured yet"
    elif modelled:
        why += f", and it is not modelled: {modelled}"
    else:
        why += ". In a clone, `uv run python -m evaluation profile` models it for functions of UNiS"
    remark = (
        f"what passes with fewer than {count} ways is not known, and a plan counts on next to "
        f"nothing there: {why}"
    )
    return [_NEXT_TO_NOTHING] * (count - 1) + [1.0], "unknown", [remark], None


def _borne(latency: Curve, found: Fit) -> tuple[dict[float, float], list[str]]:
    """The loads at which hardly a packet is lost: promises reach no further."""
    borne: dict[float, float] = {}
    for load, us in found.values.items():
        if latency.readings[load].lost > _LOST:
            lost = latency.readings[load].lost
            if not borne:
                raise ImpossibleProfileError(
                    f"{lost:.1%} of the packets are lost at {load:g} % of its load already: "
                    "something else had the CPUs, or the rings are too short for bursts"
                )
            told = f"at {load:g} % of its load {lost:.1%} of the packets are lost: left out"
            return borne, [told]
        borne[load] = us
    return borne, []


def _limits(kept: StoredProfile, about: About) -> list[str]:
    """Whether it was the function that could not go faster."""
    if not kept.slots or kept.mpps is None or kept.waiting >= _KEPT_BUSY * kept.slots:
        return []
    alone = f": alone a packet costs {about.cost_ns:.0f} ns" if about.cost_ns else ""
    return [
        f"source and sink were the limit, not what is profiled: {kept.waiting:.0f} packets waited "
        f"in rings of {kept.slots}. It may pass more than {kept.mpps.value:.3g} Mpps{alone}"
    ]


def _disturbed(readings: Sequence[Reading]) -> list[str]:
    bad = sum(reading.disturbed > _DISTURBED for reading in readings)
    if not bad:
        return []
    return [
        f"disturbed: in {bad} of {len(readings)} measurements something else had the CPUs most of "
        "the time: do not plan with it; the next call measures these anew"
    ]


def _curved(curve: Curve, found: Fit, words: Words) -> CurveResult:
    points = [
        CurvePoint(
            at=x, value=reading.value, spread=reading.spread, fitted=found.values[x],
            lost=reading.lost, disturbed=reading.disturbed,
        )
        for x, reading in curve.readings.items()
    ]  # fmt: skip
    doubts = [
        f"{words.at(doubt.at)} it is {doubt.off:.1%} off the straight line from {doubt.least:g} to "
        f"{doubt.most:g}, which is less than it varies"
        for doubt in curve.doubts
    ]
    return CurveResult(
        points=points, shaped=found.shaped, may_be_off=curve.bound, doubts=doubts
    )  # fmt: skip
