"""What UNiS claims of chains on kernel devices, and whether the rows bear it out. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from evaluation.scc.arms import BLOCKING, HANDOVER
from evaluation.scc.chains import ChainSpec, batch_title, chain_of_testpmd
from evaluation.scc.rows import MIN_ROUNDS, SATURATED, SccRatio, SccRow, arm_of

NOT_ASKED = "these windows were not asked for"
NOT_YET = "the command ended before it measured this"
Verdict = Literal["holds", "does not hold", "too close to tell", "not measured"]


class SccClaim(BaseModel):
    """A claim, and the verdict."""

    experiment: str
    claim: str
    at_least: float | None
    at_most: float | None = None  # null: there is no upper bound, or no lower one above
    ratio: SccRatio | None  # how many times as much, or as low, with its 95 % interval
    verdict: Verdict
    why: str  # empty if it holds
    note: str = ""  # what else to know of the ratio: which of the two had full queues

    @property
    def bounds(self) -> str:
        """For people."""
        if self.at_most is None:
            return "–" if self.at_least is None else f"≥ {self.at_least:g}"
        if self.at_least is None:
            return f"≤ {self.at_most:g}"
        return f"{self.at_least:g}–{self.at_most:g}"

    def __str__(self) -> str:
        told = f"{self.verdict}: {self.why}" if self.verdict == "not measured" else self.verdict
        return f"{told} ({self.note})" if self.note else told


def judge(
    ratio: SccRatio | None, at_least: float | None, at_most: float | None = None
) -> tuple[Verdict, str]:
    """By the interval: it is within the bounds, beyond one of them, or around it."""
    if ratio is None:
        return "not measured", "there are no windows of both"
    if ratio.confidence < 0.95:
        return "not measured", f"too few rounds: {ratio.rounds} of {MIN_ROUNDS}"
    if at_least is not None and ratio.hi < at_least:
        return "does not hold", f"the interval ends below {at_least:g}"
    if at_most is not None and ratio.lo > at_most:
        return "does not hold", f"the interval begins above {at_most:g}"
    around = [
        f"{bound:g}"
        for bound, is_met in (
            (at_least, ratio.lo >= (at_least or 0)),
            (at_most, ratio.hi <= (at_most or 0)),
        )
        if bound is not None and not is_met
    ]
    if around:
        return "too close to tell", f"the interval has {' and '.join(around)} in it"
    return "holds", ""


@dataclass(frozen=True)
class _Wanted:
    """A claim, and the row that it is of."""

    experiment: str
    title: str  # of the step that measures it
    claim: str
    at_least: float
    picks: Callable[[SccRow], bool]
    ratio: Callable[[SccRow], SccRatio | None]
    base: Literal["default", "blocking"] = "default"


def step_name(experiment: str, title: str) -> str:
    """What a step is called where something is to be said of it."""
    return f"{experiment}, {title}"


def _policy(
    length: int,
    load: str,
    base: Literal["default", "blocking"],
    name: str,
    at_least: float,
    claim: str,
) -> _Wanted:
    def picks(row: SccRow) -> bool:
        mine = (row.experiment, row.policy, row.mode, row.length, row.load, row.batch)
        return mine == ("policy", HANDOVER, "polling", length, load, 32)

    def ratio(row: SccRow) -> SccRatio | None:
        if name == "p50":
            return row.times_lower[base]
        return (row.ratio_to_default if base == "default" else row.ratio_to_blocking)[name]

    return _Wanted("policy", ChainSpec(length).name, claim, at_least, picks, ratio, base)


def _frames(length: int, base: Literal["default", "blocking"], at_least: float) -> _Wanted:
    def picks(row: SccRow) -> bool:
        return (row.experiment, row.policy, row.length) == ("frames", HANDOVER, length)

    def ratio(row: SccRow) -> SccRatio | None:
        return (row.ratio_to_default if base == "default" else row.ratio_to_blocking)["kpps"]

    other = "polling under the default" if base == "default" else "blocking"
    return _Wanted(
        "frames", ChainSpec(length, frames="local").name,
        f"frames that are not IP, {length} functions overloaded: hand-over ÷ {other}",
        at_least, picks, ratio, base,
    )  # fmt: skip


def _testpmd(link: str, mode: str, at_least: float, claim: str) -> _Wanted:
    def picks(row: SccRow) -> bool:
        mine = (row.experiment, row.link, row.policy, row.mode, row.load)
        return mine == ("testpmd", link, HANDOVER, mode, "overload")

    return _Wanted(
        "testpmd", chain_of_testpmd(link).name, claim, at_least, picks,
        lambda row: row.ratio_to_default["kpps"],
    )  # fmt: skip


def _order(row: SccRow) -> bool:
    return row.experiment == "order" and row.order == "chain" and row.length == 8


def _batch(batch: int) -> _Wanted:
    def picks(row: SccRow) -> bool:
        mine = (row.experiment, row.batch, row.calls, row.size, row.policy, row.mode)
        return mine == ("batch", batch, "vector", 64, "other", "blocking")

    return _Wanted(
        "batch", batch_title(64, 256),
        f"batch {batch}: median latency by that of batch 1, times lower", 3, picks,
        lambda row: row.times_lower["default"],
    )  # fmt: skip


_WANTED = (
    *(
        wanted
        for length in (4, 8)
        for wanted in (
            _policy(
                length, "overload", "default", "kpps", 8,
                f"overload, {length} functions: hand-over ÷ polling under the default, throughput",
            ),
            _policy(
                length, "overload", "blocking", "kpps", 1.7,
                f"overload, {length} functions: hand-over ÷ blocking, throughput",
            ),
            _policy(
                length, "half", "default", "p50", 500,
                f"half load, {length} functions: median latency by polling's, times lower",
            ),
            _policy(
                length, "half", "blocking", "p50", 1.5,
                f"half load, {length} functions: median latency by blocking's, times lower",
            ),
            _frames(length, "default", 8),
            _frames(length, "blocking", 1.7),
        )
    ),
    _Wanted(
        "order", ChainSpec(8).name,
        "half load, 8 functions: median latency in chain order by reverse, times lower", 2.5,
        _order, lambda row: row.times_lower["default"],
    ),
    _testpmd("veth", "polling", 7, "four dpdk-testpmd on af_packet: hand-over ÷ default"),
    _testpmd("veth", "sleeping", 7, "the same, functions that sleep between packets"),
    _testpmd("xdp", "polling", 10, "four dpdk-testpmd on af_xdp: hand-over ÷ default"),
    _testpmd("xdp", "sleeping", 10, "the same, functions that sleep between packets"),
    *(_batch(batch) for batch in (8, 32, 128, 256)),
)  # fmt: skip


def claims(
    rows: Sequence[SccRow], left_out: Mapping[str, str], doubted: Mapping[str, str]
) -> list[SccClaim]:
    """All claims. By the name of a step: `left_out` says why it has no rows, `doubted` why its rows
    do not show what they are to show.
    """
    return [_judged(wanted, rows, left_out, doubted) for wanted in _WANTED]


def _judged(
    wanted: _Wanted,
    rows: Iterable[SccRow],
    left_out: Mapping[str, str],
    doubted: Mapping[str, str],
) -> SccClaim:
    step = step_name(wanted.experiment, wanted.title)
    row = next((row for row in rows if wanted.picks(row)), None)
    ratio = wanted.ratio(row) if row else None
    verdict, why = judge(ratio, wanted.at_least)
    if row is None:
        why = left_out.get(step, NOT_ASKED)
    elif step in doubted and ratio is not None:
        verdict, why = "not measured", doubted[step]
    claim = SccClaim(
        experiment=wanted.experiment, claim=wanted.claim, at_least=wanted.at_least, ratio=ratio,
        verdict=verdict, why=why, note=_full_queues(row, wanted.base) if row and ratio else "",
    )  # fmt: skip
    if row is not None:
        row.verdict = "; ".join([*([row.verdict] if row.verdict else []), str(claim)])
    return claim


def _full_queues(row: SccRow, base: Literal["default", "blocking"]) -> str:
    """Which of the two passed so little of the load that its latency is that of full queues."""
    if row.load == "overload":
        return ""
    of_base = row.default if base == "default" else BLOCKING.name
    passed = {of_base: row.base_passed[base], arm_of(row).name: row.passed}
    told = [
        f"`{name}` passed {share:.0%} of this load"
        for name, share in passed.items()
        if share is not None and share < SATURATED
    ]
    return f"{' and '.join(told)}: that latency is of full queues" if told else ""


class Kept(BaseModel):
    """The account of a chain when it went down."""

    chain: str
    offered: int
    delivered: int
    dropped_on_links: int
    dropped: int  # elsewhere, `by_functions` among them
    by_functions: int  # of programs that count nothing, all that is missing
    in_flight: int
    unaccounted: int
    exact: bool
    doubt: str


def accounts_claim(accounts: Sequence[Kept]) -> SccClaim:
    """Offered = delivered + dropped + in flight. What is missing on the way through programs that
    count nothing counts as dropped by them: how much that was is said beside the verdict.
    """
    missing = [one.chain for one in accounts if one.exact and one.unaccounted]
    doubts = dict.fromkeys(one.doubt for one in accounts if not one.exact)
    count = len(accounts)
    share = 1 - len(missing) / count if accounts else 0.0
    verdict: Verdict = "holds"
    why = ""
    if missing:
        verdict, why = "does not hold", f"packets are missing: {'; '.join(missing[:3])}"
    elif doubts:
        verdict, why = "not measured", "; ".join(doubts)
    elif not accounts:
        verdict, why = "not measured", "no chain was brought up"
    ratio = SccRatio(median=share, lo=share, hi=share, rounds=count, bring_ups=count)
    lost = sum(one.by_functions for one in accounts)
    return SccClaim(
        experiment="account",
        claim=f"every packet of {count} bring-ups is accounted for: share of these",
        at_least=1,
        ratio=None if verdict == "not measured" else ratio,
        verdict=verdict,
        why=why,
        note=f"{lost:,} packets by functions: nobody counted them, they are what is missing"
        if lost
        else "",
    )
