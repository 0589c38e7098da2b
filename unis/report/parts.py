"""The page of `unis profile chain`: where the time of a packet goes, drawn."""

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape

from markupsafe import Markup

from unis.measure import disturbance
from unis.parts.accounting import (
    BLOCKED,
    COPY,
    PARTS,
    PROCESSING,
    QUEUEING,
    RECEIVE,
    RUN_DELAY,
    SEND,
)
from unis.parts.result import ChainParts, PartTime, PlaceParts
from unis.report.bars import Bar, Look, Stretch, drawn, stacked, time_text
from unis.report.shapes import short
from unis.report.templates import template

_RESIDUAL, _LATENCY = "residual", "latency"
# Okabe and Ito: told apart by the colour-blind too.
_COLOURS = {
    QUEUEING: "#56B4E9",
    RUN_DELAY: "#E69F00",
    BLOCKED: "#B7B7B7",
    RECEIVE: "#0072B2",
    COPY: "#CC79A7",
    PROCESSING: "#009E73",
    SEND: "#D55E00",
}
_OTHER = "#F0E442"
_LETTERS = 19  # of a name in the table
_SLIVER = 20  # times as long is the longest bar
_IDLE = (QUEUEING, RUN_DELAY, BLOCKED)  # nothing is done for the packet
_MEANINGS = {
    QUEUEING: "it waits, and the thread is at other packets",
    RUN_DELAY: "the thread has work and no CPU",
    BLOCKED: "the thread sleeps",
    RECEIVE: "in the call that receives it",
    COPY: "the kernel copies it to the function",
    PROCESSING: "the function has it, between the calls",
    SEND: "in the call that sends it",
    _RESIDUAL: "what the parts do not explain",
}


def parts_page(found: ChainParts) -> str:
    """The whole page; it needs nothing else."""
    places = found.places
    parts = _parts_of(found, places)
    looks = {part: _look(str(at), part) for at, part in enumerate(parts, 1)}
    looks |= {_RESIDUAL: Look(hatching="unknown"), _LATENCY: Look()}
    marks = _marks(places)
    by_place = _by_place(found, places, parts)
    page = template(
        "parts.html.j2",
        whole=_whole_ns,
        measured=partial(_measured, marks),
        short=partial(short, letters=_LETTERS),
    )
    return page.render(
        found=found,
        residual=_residual(found),
        headline=headline(found),
        setting=_setting(found),
        remarks=_remarks(found),
        legend=_legend([*parts, _RESIDUAL], looks),
        whole=drawn(_whole(found, parts), looks, "the parts of all places"),
        places=drawn(by_place, looks, "the parts of each place"),
        small=_small(by_place, looks),
        negative=any(time.ns_per_packet < 0 for each in places for time in each.parts.values()),
        way=_way(found, places, looks),
        parts=parts,
        rows=places,
        sums=[found.part_ns(part) for part in parts],
        providers=_providers(marks),
        facts=_facts(found),
    )


def _parts_of(found: ChainParts, places: Sequence[PlaceParts]) -> list[str]:
    named = [part for place in places for part in place.parts] + [span.part for span in found.way]
    return [part for part in dict.fromkeys([*PARTS, *named]) if part in named]


def _look(number: str, part: str) -> Look:
    return Look(number, _COLOURS.get(part, _OTHER), "idle" if part in _IDLE else "")


# ------------------------------------------------------------------ pictures


def _whole(found: ChainParts, parts: Sequence[str]) -> list[Bar]:
    """All places together, what was measured, and what is between."""
    sums = [(part, found.part_ns(part)) for part in parts]
    latency = found.median_latency_ns
    measured = Stretch(_LATENCY, 0, latency, f"median latency: {time_text(latency)}")
    return [
        Bar("explained", time_text(found.explained_ns), stacked(sums)),
        Bar("measured", time_text(latency), [measured]),
        _residual_bar(found, found.explained_ns),
    ]


def _by_place(found: ChainParts, places: Sequence[PlaceParts], parts: Sequence[str]) -> list[Bar]:
    bars = []
    for place in places:
        times = [(part, place.parts[part].ns_per_packet) for part in parts if part in place.parts]
        share = f", {place.ns / found.explained_ns:.0%}" if found.explained_ns > 0 else ""
        bars.append(Bar(place.name, f"{time_text(place.ns)}{share}", stacked(times)))
    return [*bars, _residual_bar(found, 0)]


def _residual_bar(found: ChainParts, begin: float) -> Bar:
    latency = found.median_latency_ns
    low, high = (begin + share * latency for share in found.residual_interval)
    ns = found.residual * latency
    stretch = Stretch(_RESIDUAL, begin, begin + ns, f"residual {_residual(found)}")
    return Bar(_RESIDUAL, f"{time_text(ns)}, {found.residual:+.1%}", [stretch], (low, high))


def _small(bars: Sequence[Bar], looks: Mapping[str, Look]) -> Markup | None:
    """The bars that are slivers beside the longest once more, if most are."""
    longest = max(bar.extent for bar in bars)
    small = [bar for bar in bars if bar.extent < longest / _SLIVER]
    return drawn(small, looks, "the short ones") if 2 * len(small) > len(bars) else None


def _way(
    found: ChainParts, places: Sequence[PlaceParts], looks: Mapping[str, Look]
) -> Markup | None:
    """One packet's, a row for each place; None where it is not known."""
    if not found.way:
        return None
    bars = []
    names = [place.name for place in places] + [span.place for span in found.way]
    for name in dict.fromkeys(names):
        spans = [span for span in found.way if span.place == name]
        stretches = [
            Stretch(span.part, span.begin_ns, span.end_ns,
                    f"{name}, {span.part}: {time_text(span.end_ns - span.begin_ns)}, from "
                    f"{time_text(span.begin_ns)} on")
            for span in spans
        ]  # fmt: skip
        ns = sum(span.end_ns - span.begin_ns for span in spans)
        bars.append(Bar(name, time_text(ns) if spans else "", stretches))
    return drawn(bars, looks, "the way of one packet", joined=True)


def _legend(kinds: Sequence[str], looks: Mapping[str, Look]) -> Markup:
    items = []
    for kind in kinds:
        look = looks[kind]
        box = look.box(1, 1, 22, 18) + look.label(12, 15, look.number)
        meaning = f" <small>{escape(_MEANINGS[kind])}</small>" if kind in _MEANINGS else ""
        items.append(
            f'<li><svg class="drawn sample" aria-hidden="true" viewBox="0 0 24 20">{box}</svg>'
            f"{escape(kind)}{meaning}</li>"
        )
    return Markup(f'<ul class="legend">{"".join(items)}</ul>')  # noqa: S704  our own, escaped


# ------------------------------------------------------------------ words


def headline(found: ChainParts) -> str:
    """The result in sentences."""
    told = (
        f"A packet takes {time_text(found.median_latency_ns)} (median). The parts add up to "
        f"{time_text(found.explained_ns)}; the residual is {_residual(found)}."
    )
    times = [
        (time.ns_per_packet, part, place.name)
        for place in found.places
        for part, time in place.parts.items()
    ]
    ns, part, name = max(times, default=(0.0, "", ""))
    if found.is_explained and found.explained_ns > 0 and ns > 0:
        share = ns / found.explained_ns
        told += f" The largest part is {part} at {name}: {time_text(ns)}, {share:.0%}."
    return told


def _residual(found: ChainParts) -> str:
    low, high = found.residual_interval
    return f"{found.residual:+.1%} ({low:+.1%} to {high:+.1%})"


def _setting(found: ChainParts) -> str:
    return (
        f"Policy {found.policy}, {found.load_kpps:,.1f} kpps of at most {found.most_kpps:,.1f}; "
        f"{found.rounds} rounds with windows of {found.window:g} s."
    )


def _remarks(found: ChainParts) -> list[str]:
    told = []
    if found.lost_events:
        told.append(f"{found.lost_events:,} events were lost, so packets were left out.")
    if disturbed := disturbance.remark([found.disturbed]):
        told.append(disturbed)
    return told


def _marks(places: Sequence[PlaceParts]) -> dict[str, str]:
    """A letter for each provider."""
    named = sorted({time.provider for place in places for time in place.parts.values()})
    return {provider: chr(ord("a") + at) for at, provider in enumerate(named)}


def _providers(marks: Mapping[str, str]) -> str:
    if len(marks) < 2:
        return "".join(f"All are measured by: {provider}." for provider in marks)
    return f"Measured by {', '.join(f'{mark}: {provider}' for provider, mark in marks.items())}."


def _measured(marks: Mapping[str, str], time: PartTime) -> Markup:
    low, high = map(_whole_ns, time.interval)
    mark = f" {marks[time.provider]}" if len(marks) > 1 else ""
    told = Markup("{}<small>{} to {}{}</small>")
    return told.format(_whole_ns(time.ns_per_packet), low, high, mark)


def _whole_ns(ns: float) -> str:
    return f"{ns:,.0f}"


def _facts(found: ChainParts) -> list[tuple[str, object]]:
    cost = found.tracing_cost
    return [
        ("tracing", f"latency {cost.latency - 1:+.1%}, throughput {cost.throughput - 1:+.1%}; "
         f"{time_text(cost.ns_per_packet)} a packet, which was taken off the parts"),
        ("followed", f"{found.packets:,} packets, {found.per_second:,.0f} a second"),
        *(("left out", f"{count:,} packets: {why}") for why, count in found.left_out.items()),
        *(("missing", what) for what in found.missing),
        *((key.replace("_", " "), value) for key, value in found.machine.model_dump().items()),
    ]  # fmt: skip
