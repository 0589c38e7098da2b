"""Rows of results.json, made of windows. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel

from evaluation.scc.arms import BLOCKING, DEFAULT, SccArm
from evaluation.scc.chains import ChainSpec
from evaluation.scc.outside import NO_TIME
from evaluation.scc.paper import PaperValue, slope
from evaluation.scc.windows import SccRounds, SccWindow, pairs
from unis.engine.histogram import Latency
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Paired, Quartiles, Ratio

# light: half of what polling passes under the default; half: of what blocking passes, or the arm
# that stands in for it.
Load = Literal["light", "half", "overload", "saturates batch 1"]
PERCENTILES = (5, 25, 50, 75, 95, 99)
SATURATED = 0.95  # an arm that passes a smaller share of what is offered has full queues
MIN_ROUNDS = 6  # for an interval of 95 %


class SccRatio(Ratio):
    """With what the interval rests on."""

    rounds: int
    bring_ups: int

    @property
    def confidence(self) -> float:
        """Of the interval, which of few rounds is from the least to the greatest."""
        few = self.bring_ups == 1 and self.rounds < MIN_ROUNDS
        return 1 - 2.0 ** (1 - self.rounds) if few else 0.95


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
    frames: str  # ipv4, or local: of an EtherType that the kernel has no layer for
    load: Load
    policy: str
    mode: str  # what functions do without packets: polling, blocking, sleeping
    quantum_ms: float | None  # null: as the kernel has it
    nice: int | None
    order: str | None
    kernel_class: list[str]  # of the functions, as read back
    offered_kpps: float  # median
    kpps: float  # median of the windows
    passed: float | None  # delivered ÷ offered, over all windows
    saturated: bool  # passed less than 95 %: its latency is that of full queues
    kpps_quartiles: Quartiles
    latency_us: dict[str, float | None]  # over all windows
    default: str  # the base of ratio_to_default
    ratio_to_default: dict[str, SccRatio | None]  # kpps, p50
    ratio_to_blocking: dict[str, SccRatio | None]
    times_lower: dict[str, SccRatio | None]  # p50 of the base ÷ this one's: default, blocking
    base_passed: dict[str, float | None]  # delivered ÷ offered of the same bases
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
    paper: PaperValue | None = None,
) -> SccRow:
    """An arm over all its windows. In the rounds it is called `key` (by default as it is), and the
    base of its ratios `default`.
    """
    name = key or arm.name
    windows = [windows[name] for windows in rounds if name in windows]
    passed = _passed(rounds, name)
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
        frames=spec.frames,
        load=load,
        policy=arm.policy,
        mode=arm.mode,
        quantum_ms=arm.quantum_ms,
        nice=arm.nice,
        order=arm.order,
        kernel_class=sorted({each for window in windows for each in window.classes}),
        offered_kpps=Quartiles.of([window.offered_kpps for window in windows]).median,
        kpps=Quartiles.of([window.kpps for window in windows]).median,
        passed=passed,
        saturated=passed is not None and passed < SATURATED,
        kpps_quartiles=Quartiles.of([window.kpps for window in windows]),
        latency_us=latency.percentiles_us(PERCENTILES),
        default=default,
        ratio_to_default=ratios(rounds, name, default),
        ratio_to_blocking=ratios(rounds, name, BLOCKING.name),
        times_lower={
            "default": ratios(rounds, default, name)["p50"],
            "blocking": ratios(rounds, BLOCKING.name, name)["p50"],
        },
        base_passed={
            "default": _passed(rounds, default),
            "blocking": _passed(rounds, BLOCKING.name),
        },
        contention=times.contention,
        wait=times.wait,
        out_of_order=sum(out for _, out in seen) / switches if switches else None,
        rounds=len(windows),
        bring_ups=len({window.block for window in windows}),
        disturbed=Disturbance.of([window.reply for window in windows]),
        paper=paper,
    )


def _passed(rounds: SccRounds, name: str) -> float | None:
    replies = [windows[name].reply for windows in rounds if name in windows]
    offered = sum(reply.offered for reply in replies)
    return sum(reply.delivered for reply in replies) / offered if offered else None


def ratios(rounds: SccRounds, arm: str, base: str) -> dict[str, SccRatio | None]:
    """Throughput and median latency of an arm by those of another, round by round."""
    if arm == base:
        return {"kpps": None, "p50": None}
    return {
        "kpps": _ratio(rounds, arm, base, lambda window: window.kpps),
        "p50": _ratio(rounds, arm, base, lambda window: window.percentile_us(50)),
    }


def _ratio(
    rounds: SccRounds, arm: str, base: str, value: Callable[[SccWindow], float | None]
) -> SccRatio | None:
    blocks = pairs(rounds, arm, base, value)
    found = Paired.of_blocks(blocks)
    if found is None:
        return None
    return SccRatio(
        median=found.median, lo=found.low, hi=found.high, rounds=found.rounds,
        bring_ups=sum(any(base) for _, base in blocks),
    )  # fmt: skip


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


def spec_of(row: SccRow) -> ChainSpec:
    """The chain that it is of."""
    return ChainSpec(
        row.length, row.link, row.driver, row.batch, row.calls, row.size, row.slots, row.program,
        row.frames,  # type: ignore[arg-type]
    )  # fmt: skip


def fits(rows: Sequence[SccRow]) -> list[LatencyFit]:
    """Of each arm with three lengths or more."""
    found: dict[tuple[object, ...], list[SccRow]] = {}
    for row in rows:
        if row.experiment in ("policy", "ovs") and row.length > 1 and row.latency_us["p50"]:
            key = (replace(spec_of(row), length=0), row.experiment, row.load, arm_of(row).name)
            found.setdefault(key, []).append(row)
    lines = []
    for of_arm in found.values():
        points = [(row.length, row.latency_us["p50"] or 0.0) for row in of_arm]
        fit = line(points) if len(points) > 2 else None
        if fit is None:
            continue
        first = of_arm[0]
        overload = first.load == "overload"
        lines.append(
            LatencyFit(
                experiment=first.experiment,
                link=first.link,
                driver=first.driver,
                batch=first.batch,
                load=first.load,
                arm=arm_of(first).name,
                slope_us=fit[0],
                intercept_us=fit[1],
                paper=slope(first.link, paper_name(spec_of(first), arm_of(first)))
                if overload
                else None,
            )
        )
    return lines


def paper_name(spec: ChainSpec, arm: SccArm) -> str:
    """What `paper.toml` calls this arm on this chain; empty: the paper has none such. Its arms of
    policy batch have nice values; without multiplexing a call has one frame.
    """
    if arm.mode != "polling" or arm.quantum_ms is not None:
        return ""
    name = {("other", None): "default", ("batch", -1): "batch_420", ("batch", -19): "batch_800"}
    found = name.get((arm.policy, arm.nice), "")
    if spec.calls == "single" or spec.batch == 1:
        return found
    return f"{found}_mux{spec.batch}" if found and spec.batch else ""
