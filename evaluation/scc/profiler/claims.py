"""What is claimed of `unis profile chain`, and whether the rows bear it out. Pure."""

import itertools
import statistics
from collections.abc import Mapping, Sequence

from evaluation.scc.claims import NOT_ASKED, SccClaim, judge, step_name
from evaluation.scc.profiler.found import InjectedRow, LengthRow, ProfilerFound
from evaluation.scc.profiler.injections import INJECTIONS
from evaluation.scc.profiler.lengths import arm_name, profiled
from evaluation.scc.rows import SccRatio
from unis.measure.paired import interval, interval_of_blocks

EXPERIMENT = "profiler"
LENGTHS = (1, 2, 4, 8)
_PARTS_WITHIN = 0.15  # of what was injected
_COSTS = 0.05  # of throughput
_Bounds = tuple[float | None, float | None]


def length_title(spec_name: str) -> str:
    """Of the step that profiles a chain."""
    return f"profile, {spec_name}"


def injected_title(name: str) -> str:
    """Of the step that injects a delay."""
    return f"injected, {name}"


def profiler_claims(found: ProfilerFound, left_out: Mapping[str, str]) -> list[SccClaim]:
    """All of them, those that the rows bear out last."""
    claims = []
    rows = {(row.arm, row.length): row for row in found.lengths}
    for chain in profiled(LENGTHS):
        why = left_out.get(step_name(EXPERIMENT, length_title(chain.spec.name)), NOT_ASKED)
        for arm in chain.arms:
            name = arm_name(chain.spec, arm)
            row = rows.get((name, chain.spec.length))
            claims.append(_of_length(name, chain.spec.length, row, why))
    for link, chains in itertools.groupby(profiled(LENGTHS), key=lambda chain: chain.spec.link):
        mine = {arm_name(chain.spec, arm) for chain in chains for arm in chain.arms}
        claims.append(_of_cost(link, [row for row in found.lengths if row.arm in mine]))
    by_name = {row.name: row for row in found.injected}
    for injection in INJECTIONS:
        why = left_out.get(step_name(EXPERIMENT, injected_title(injection.name)), NOT_ASKED)
        claims += _of_injection(injection.name, by_name.get(injection.name), why)
    return sorted(claims, key=lambda claim: claim.verdict == "holds")


def _of_length(arm: str, length: int, row: LengthRow | None, why: str) -> SccClaim:
    explained = None
    bound = 0.15 if length <= 4 else 0.25
    if row:
        low, high = row.profile.residual_interval
        explained = SccRatio(
            median=1 - row.profile.residual, lo=1 - high, hi=1 - low, rounds=row.profile.rounds,
            bring_ups=1,
        )  # fmt: skip
    text = f"{arm}, length {length}: explained ÷ measured latency"
    return _claim(text, (1 - bound, 1 + bound), explained, why)


def _of_cost(link: str, rows: Sequence[LengthRow]) -> SccClaim:
    """Of all chains of a kind of link together, for each has few windows in overload. Chains of one
    length are of one bring-up.
    """
    ratio, note = None, ""
    if rows:
        by_chain = {f"{row.arm}, length {row.length}": throughput(row) for row in rows}
        ratio = _of_bring_ups(
            [[throughput(row) for row in rows if row.length == length]
             for length in dict.fromkeys(row.length for row in rows)]
        )  # fmt: skip
        worst = min(by_chain, key=by_chain.__getitem__)
        note = f"least: {by_chain[worst]:.2f}, {worst}"
    text = f"{link}: throughput while packets are followed ÷ while they are not, median of chains"
    claim = _claim(text, (1 - _COSTS, None), ratio, NOT_ASKED)
    return claim.model_copy(update={"note": note})


def _of_bring_ups(blocks: Sequence[Sequence[float]]) -> SccRatio:
    values = [value for block in blocks for value in block]
    low, high = interval(values) if len(blocks) == 1 else interval_of_blocks(blocks)
    return SccRatio(
        median=statistics.median(values), lo=low, hi=high, rounds=len(values),
        bring_ups=len(blocks),
    )  # fmt: skip


def throughput(row: LengthRow) -> float:
    """While packets are followed ÷ while they are not, in overload."""
    return row.profile.tracing_cost.throughput


def _of_injection(name: str, row: InjectedRow | None, why: str) -> list[SccClaim]:
    within = (1 - _PARTS_WITHIN, 1 + _PARTS_WITHIN)
    return [
        _claim(f"{name}: found in its part ÷ injected", within, row.share if row else None, why),
        _claim(
            f"{name}: most found in another part ÷ injected", (None, _PARTS_WITHIN),
            row.elsewhere_share if row else None, why,
        ),
    ]  # fmt: skip


def _claim(text: str, bounds: _Bounds, ratio: SccRatio | None, why: str) -> SccClaim:
    at_least, at_most = bounds
    verdict, reason = judge(ratio, at_least, at_most)
    return SccClaim(
        experiment=EXPERIMENT, claim=text, at_least=at_least, at_most=at_most, ratio=ratio,
        verdict=verdict, why=reason if ratio else why,
    )  # fmt: skip


def missing_first(rows: Sequence[LengthRow]) -> list[LengthRow]:
    """Those whose residual is too large come first."""
    return sorted(rows, key=lambda row: not row.misses)
