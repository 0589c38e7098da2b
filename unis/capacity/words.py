"""A result in words and numbers, for terminal and page."""

from collections.abc import Iterable

from unis.capacity.result import Arrangement, CapacityResult, ResourceRow

_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BUSIEST = 5  # resources that are told
_EQUAL = 1e-4  # a gain that is none


def rate(mpps: float, unit: str = " Mpps") -> str:
    """A throughput: three decimals."""
    return f"{mpps:,.3f}{unit}"


def amount(value: float, unit: str) -> str:
    """With a prefix: `2.00 Gcycles/s`."""
    scale, prefix = next((each for each in _UNITS if value >= each[0]), (1.0, ""))
    shown = f"{value / scale:,.2f}" if scale > 1 else f"{value:,.4g}"
    return f"{shown} {prefix}{unit}"


def gain(share: float) -> str:
    """A share that is gained, with its sign."""
    return "–" if abs(share) < _EQUAL else f"{share:+.1%}"


def taken(row: ResourceRow) -> str:
    """What a packet takes of it: of one chain, or from the least to the most."""
    sums = sorted(sum(parts.values()) for parts in row.per_packet.values())
    if not sums:
        return "–"
    low, high = f"{sums[0]:,.0f}", f"{sums[-1]:,.0f}"
    return f"{low} {row.unit}" if low == high else f"{low} to {high} {row.unit}"


def listed(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def headline(found: CapacityResult) -> str:
    """The result in a sentence or two."""
    main = found.main
    limit = listed(main.bottlenecks) if main.bottlenecks else "nothing"
    whose = "The chain passes" if len(main.mpps) == 1 else "The chains pass"
    told = f"{whose} at most {rate(main.total_mpps)}; the bottleneck is {limit}."
    if len(main.mpps) > 1:
        each = ", ".join(f"{name} {rate(mpps)}" for name, mpps in main.mpps.items())
        told += f" By chain: {each}."
    if main.tenants_mpps:
        each = ", ".join(f"{name} {rate(mpps)}" for name, mpps in main.tenants_mpps.items())
        told += f" By tenant: {each}."
    for other in found.arrangements[1:]:
        told += (
            f" Over {other.name} {rate(other.total_mpps)}{_cpus_beside(main, other)}, and the "
            f"bottleneck would be {listed(other.bottlenecks)}."
        )
    if worth := [answer for answer in found.answers if answer.gain > _EQUAL and answer.same_chains]:
        best = max(worth, key=lambda answer: answer.gain)
        whose = " of the smallest throughput" if found.is_fair else ""
        told += (
            f" Of the changes asked about, {best.question} gains most: {gain(best.gain)}{whose}."
        )
    return told


def _cpus_beside(main: Arrangement, other: Arrangement) -> str:
    """What must be known to compare them: one takes less time of CPUs than the other."""
    busy, beside = f"{other.busy_cpus:.1f}", f"{main.busy_cpus:.1f}"
    return "" if busy == beside else f" (busy CPUs: {busy} instead of {beside})"


def together(found: Arrangement) -> str:
    """What 1 % more of all bottlenecks gains, where there are several; else nothing."""
    if len(found.bottlenecks) < 2:
        return ""
    return (
        f"With 1 % more of {listed(found.bottlenecks)} together it gains "
        f"{found.gain_together / 1e3:,.1f} kpps."
    )


def at_load(found: CapacityResult) -> str:
    """How busy the first resources are at the load that was asked for."""
    told = [
        f"{row.name} {row.used:.0%}" + (f" ({row.waking:.1%} waking)" if row.waking else "")
        for row in found.at_load[:_BUSIEST]
    ]
    return f"At {found.load:.0%} of the maximum: {', '.join(told)}."


def use_note(found: CapacityResult) -> str:
    """How far the numbers can be trusted."""
    by_source: dict[str, list[str]] = {}
    for each in found.parameters:
        by_source.setdefault(each.source, []).append(each.where)
    parts = [f"{len(names)} {source}" for source, names in by_source.items()]
    told = f"The result rests on {listed(parts)} numbers."
    if guessed := by_source.get("assumed"):
        shown = ", ".join(guessed[:8]) + (", …" if len(guessed) > 8 else "")
        told += f" Assumed: {shown}."
    return told
