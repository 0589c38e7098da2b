"""Rows of results.json, made of windows. Pure."""

from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import BaseModel

from evaluation.scc.arms import BLOCKING, DEFAULT, SccArm
from evaluation.scc.chains import ChainSpec
from evaluation.scc.outside import NO_TIME
from evaluation.scc.paper import PaperValue
from evaluation.scc.windows import SccRounds, SccWindow, pairs
from unis.engine.histogram import Latency
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Paired, Quartiles, Ratio

Load = Literal["half", "overload", "saturates batch 1"]
PERCENTILES = (5, 25, 50, 75, 95, 99)


class SccRow(BaseModel):
    """One arm on one chain at one load. Ratios are of windows of one round: a throughput or a
    latency of this arm ÷ that of the base. Null: not measured, or the base had none.
    """

    experiment: str
    link: str
    driver: str
    program: str
    length: int
    batch: int | None
    calls: str
    size: int
    slots: int | None  # of a link, where it is stated
    load: Load
    policy: str
    mode: str  # what functions do without packets: polling, blocking, sleeping
    quantum_ms: float | None  # null: as the kernel has it
    nice: int | None
    order: str | None
    kernel_class: list[str]  # of the functions, as read back
    offered_kpps: float  # median
    kpps: float  # median of the windows
    kpps_quartiles: Quartiles
    latency_us: dict[str, float | None]  # over all windows
    default: str  # the base of ratio_to_default
    ratio_to_default: dict[str, Ratio | None]  # kpps, p50
    ratio_to_blocking: dict[str, Ratio | None]
    times_lower: dict[str, Ratio | None]  # p50 of the base ÷ this one's, by base: default, blocking
    contention: float | None  # run delay ÷ run time of the functions
    wait: float | None  # time off the CPU ÷ run time
    out_of_order: float | None  # share of the switches that led to another than the next function
    rounds: int
    bring_ups: int
    disturbed: Disturbance
    paper: PaperValue | None = None
    verdict: str | None = None  # of the claims that this row is part of


def row_of(
    experiment: str,
    spec: ChainSpec,
    arm: SccArm,
    load: Load,
    rounds: SccRounds,
    *,
    key: str | None = None,
    default: str = DEFAULT.name,
    bring_ups: int = 1,
    paper: PaperValue | None = None,
) -> SccRow:
    """An arm over all its windows. In the rounds it is called `key` (by default as it is), and the
    base of its ratios `default`.
    """
    name = key or arm.name
    windows = [windows[name] for windows in rounds if name in windows]
    latency = Latency(window.reply.latency for window in windows)
    times = sum((window.times for window in windows), NO_TIME)
    seen = [window.order for window in windows if window.order]
    switches = sum(each for each, _ in seen)
    return SccRow(
        experiment=experiment,
        link=spec.link,
        driver=spec.driver,
        program=spec.program,
        length=spec.length,
        batch=spec.batch,
        calls=spec.calls,
        size=spec.size,
        slots=spec.slots,
        load=load,
        policy=arm.policy,
        mode=arm.mode,
        quantum_ms=arm.quantum_ms,
        nice=arm.nice,
        order=arm.order,
        kernel_class=sorted({each for window in windows for each in window.classes}),
        offered_kpps=Quartiles.of([window.offered_kpps for window in windows]).median,
        kpps=Quartiles.of([window.kpps for window in windows]).median,
        kpps_quartiles=Quartiles.of([window.kpps for window in windows]),
        latency_us=latency.percentiles_us(PERCENTILES),
        default=default,
        ratio_to_default=ratios(rounds, name, default, bring_ups),
        ratio_to_blocking=ratios(rounds, name, BLOCKING.name, bring_ups),
        times_lower={
            "default": ratios(rounds, default, name, bring_ups)["p50"],
            "blocking": ratios(rounds, BLOCKING.name, name, bring_ups)["p50"],
        },
        contention=times.contention,
        wait=times.wait,
        out_of_order=sum(out for _, out in seen) / switches if switches else None,
        rounds=len(windows),
        bring_ups=bring_ups,
        disturbed=Disturbance.of([window.reply for window in windows]),
        paper=paper,
    )


def ratios(rounds: SccRounds, arm: str, base: str, bring_ups: int = 1) -> dict[str, Ratio | None]:
    """Throughput and median latency of an arm by those of another, round by round."""
    if arm == base:
        return {"kpps": None, "p50": None}
    return {
        "kpps": _ratio(rounds, arm, base, lambda window: window.kpps, bring_ups),
        "p50": _ratio(rounds, arm, base, lambda window: window.percentile_us(50), bring_ups),
    }


def _ratio(
    rounds: SccRounds,
    arm: str,
    base: str,
    value: Callable[[SccWindow], float | None],
    bring_ups: int,
) -> Ratio | None:
    found = pairs(rounds, arm, base, value)
    if not found["base"]:
        return None
    whole = len(found["base"]) % bring_ups == 0  # else some windows are missing
    return Ratio.of(Paired.ratio(found["values"], found["base"], bring_ups if whole else 1))


def joined(parts: Sequence[tuple[str, SccRounds]], arm: SccArm) -> SccRounds:
    """Rounds of one arm on several chains, side by side, each under the name of its chain."""
    rounds: SccRounds = []
    for name, measured in parts:
        for at, windows in enumerate(measured):
            while len(rounds) <= at:
                rounds.append({})
            if arm.name in windows:
                rounds[at][name] = windows[arm.name]
    return rounds


class LatencyFit(BaseModel):
    """Median latency of chains by their length, from two functions on: a line."""

    experiment: str
    link: str
    driver: str
    batch: int | None
    load: Load
    arm: str
    slope_us: float
    intercept_us: float
    paper: PaperValue | None


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Slope and intercept, least squares; None for fewer than two x."""
    xs = [x for x, _ in points]
    if len({*xs}) < 2:
        return None
    mean_x = sum(xs) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x in xs)
    return slope, mean_y - slope * mean_x


def arm_of(row: SccRow) -> SccArm:
    """What it was an arm of."""
    return SccArm(row.policy, row.mode, row.quantum_ms, row.nice, row.order)  # type: ignore[arg-type]


def fits(
    rows: Sequence[SccRow], paper: Callable[[str, str], PaperValue | None]
) -> list[LatencyFit]:
    """Of each arm with three lengths or more."""
    found: dict[tuple[object, ...], list[SccRow]] = {}
    for row in rows:
        if row.experiment in ("policy", "ovs") and row.length > 1 and row.latency_us["p50"]:
            key = (row.experiment, row.link, row.driver, row.batch, row.load, arm_of(row).name)
            found.setdefault(key, []).append(row)
    lines = []
    for of_arm in found.values():
        points = [(row.length, row.latency_us["p50"] or 0.0) for row in of_arm]
        fit = line(points) if len(points) > 2 else None
        if fit is None:
            continue
        first, plain = of_arm[0], arm_of(of_arm[0])
        usual = plain.mode == "polling" and plain.quantum_ms is None and plain.nice is None
        lines.append(
            LatencyFit(
                experiment=first.experiment,
                link=first.link,
                driver=first.driver,
                batch=first.batch,
                load=first.load,
                arm=plain.name,
                slope_us=fit[0],
                intercept_us=fit[1],
                paper=paper(first.link, _PAPER_NAMES.get(first.policy, "")) if usual else None,
            )
        )
    return lines


_PAPER_NAMES = {"other": "default", "batch": "batch"}


def paper_name(arm: SccArm) -> str:
    """What the paper calls this arm; empty: it has none such."""
    plain = arm.mode == "polling" and arm.quantum_ms is None and arm.nice is None
    return _PAPER_NAMES.get(arm.policy, "") if plain else ""
