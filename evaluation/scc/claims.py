"""What UNiS claims of chains on kernel devices, and whether the rows bear it out. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from evaluation.scc.arms import HANDOVER
from evaluation.scc.rows import SccRow
from unis.measure.paired import Ratio

NOT_ASKED = "these windows were not asked for"
Verdict = Literal["holds", "does not hold", "too close to tell", "not measured"]


class SccClaim(BaseModel):
    """A claim, and the verdict."""

    experiment: str
    claim: str
    at_least: float
    ratio: Ratio | None  # how many times as much, or as low, with its 95 % interval
    verdict: Verdict
    why: str  # empty if it holds


def judge(ratio: Ratio | None, at_least: float) -> tuple[Verdict, str]:
    """By the interval: it is above the least, below it, or around it."""
    if ratio is None:
        return "not measured", "there are no windows of both"
    if ratio.lo >= at_least:
        return "holds", ""
    if ratio.hi < at_least:
        return "does not hold", f"the interval ends below {at_least:g}"
    return "too close to tell", f"the interval has {at_least:g} in it"


@dataclass(frozen=True)
class _Wanted:
    """A claim, and the row that it is of."""

    experiment: str
    claim: str
    at_least: float
    picks: Callable[[SccRow], bool]
    ratio: Callable[[SccRow], Ratio | None]


def _policy(length: int, load: str, base: str, name: str, at_least: float, claim: str) -> _Wanted:
    def picks(row: SccRow) -> bool:
        mine = (row.experiment, row.policy, row.mode, row.length, row.load, row.batch)
        return mine == ("policy", HANDOVER, "polling", length, load, 32)

    def ratio(row: SccRow) -> Ratio | None:
        if name == "p50":
            return row.times_lower[base]
        return (row.ratio_to_default if base == "default" else row.ratio_to_blocking)[name]

    return _Wanted("policy", claim, at_least, picks, ratio)


def _testpmd(link: str, mode: str, at_least: float, claim: str) -> _Wanted:
    def picks(row: SccRow) -> bool:
        mine = (row.experiment, row.link, row.policy, row.mode, row.load)
        return mine == ("testpmd", link, HANDOVER, mode, "overload")

    return _Wanted("testpmd", claim, at_least, picks, lambda row: row.ratio_to_default["kpps"])


def _order(row: SccRow) -> bool:
    return row.experiment == "order" and row.order == "chain" and row.length == 8


def _batch(batch: int) -> _Wanted:
    def picks(row: SccRow) -> bool:
        mine = (row.experiment, row.batch, row.calls, row.size, row.policy, row.mode)
        return mine == ("batch", batch, "vector", 64, "other", "blocking")

    return _Wanted(
        "batch", f"batch {batch}: median latency by that of batch 1, times lower", 3, picks,
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
        )
    ),
    _Wanted(
        "order", "half load, 8 functions: median latency in chain order by reverse, times lower",
        2.5, _order, lambda row: row.times_lower["default"],
    ),
    _testpmd("veth", "polling", 7, "four dpdk-testpmd on af_packet: hand-over ÷ default"),
    _testpmd("veth", "sleeping", 7, "the same, functions that sleep between packets"),
    _testpmd("xdp", "polling", 10, "four dpdk-testpmd on af_xdp: hand-over ÷ default"),
    _testpmd("xdp", "sleeping", 10, "the same, functions that sleep between packets"),
    *(_batch(batch) for batch in (8, 32, 128, 256)),
)  # fmt: skip


def claims(rows: Sequence[SccRow], left_out: dict[str, str]) -> list[SccClaim]:
    """All claims; `left_out`: why an experiment, or one of a link, was not measured."""
    return [_judged(wanted, rows, left_out) for wanted in _WANTED]


def _judged(wanted: _Wanted, rows: Iterable[SccRow], left_out: dict[str, str]) -> SccClaim:
    row = next((row for row in rows if wanted.picks(row)), None)
    ratio = wanted.ratio(row) if row else None
    verdict, why = judge(ratio, wanted.at_least)
    if row is None:
        why = next(
            (
                reason
                for part, reason in left_out.items()
                if part == wanted.experiment
                or (part == f"{wanted.experiment} af_xdp" and "af_xdp" in wanted.claim)
            ),
            NOT_ASKED,
        )
    elif wanted.experiment in left_out and ratio is not None:
        verdict, why = "not measured", left_out[wanted.experiment]
    claim = SccClaim(
        experiment=wanted.experiment, claim=wanted.claim, at_least=wanted.at_least, ratio=ratio,
        verdict=verdict, why=why,
    )  # fmt: skip
    if row is not None:
        row.verdict = f"{row.verdict}; {verdict}" if row.verdict else verdict
    return claim


class Kept(BaseModel):
    """The account of a chain when it went down."""

    chain: str
    offered: int
    delivered: int
    dropped_on_links: int
    dropped: int  # elsewhere
    in_flight: int
    unaccounted: int
    exact: bool
    doubt: str

    @property
    def whole(self) -> bool:
        """Whether no packet is missing."""
        return self.exact and self.unaccounted == 0


def accounts_claim(accounts: Sequence[Kept]) -> SccClaim:
    """Offered = delivered + dropped + in flight."""
    missing = [one.chain for one in accounts if not one.whole]
    share = 1 - len(missing) / len(accounts) if accounts else 0.0
    verdict: Verdict = "not measured"
    why = "no chain was brought up"
    if accounts:
        verdict, why = "holds", ""
        if missing:
            verdict, why = "does not hold", f"packets are missing: {'; '.join(missing[:3])}"
    return SccClaim(
        experiment="account",
        claim=f"every packet of {len(accounts)} bring-ups is accounted for: share of these",
        at_least=1,
        ratio=Ratio(median=share, lo=share, hi=share) if accounts else None,
        verdict=verdict,
        why=why,
    )
