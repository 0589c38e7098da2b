"""Rows of coloured spans on one axis of time, as SVG: stacked bars, and a Gantt chart."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from unis.report.shapes import line, on, picture_of, rect, short, text

_HEIGHT, _GAP, _TOP = 24, 10, 6  # of a row
_LEFT, _RIGHT, _ALL = 150, 790, 960  # of the axis; right of it the notes
_LETTERS = 19  # of a name
_LETTER = 6.6  # how wide about
_THIN = 1.5  # as wide is what is there
_NUMBER = 13  # no number stands in less
_TICKS = 6
_BEYOND = 0.01  # of the axis, where a whisker that is longer ends
_STEPS = (1, 2, 5, 10)


@dataclass(frozen=True)
class Look:
    """How a kind of span is drawn: numbers and hatching are for readers who see no colours."""

    number: str = ""
    colour: str = ""  # empty: an outline
    hatching: str = ""  # id of a pattern in the page

    def box(self, x: float, y: float, width: float, height: float) -> str:
        """A rectangle that looks like it."""
        fills = [self.colour] if self.colour else []
        fills += [f"url(#{self.hatching})"] if self.hatching else []
        body = "".join(rect(x, y, width, height, fill) for fill in fills or ["none"])
        return body if self.colour else f'<g class="outline">{body}</g>'

    def label(self, x: float, y: float, words: str) -> str:
        """Words in the middle of a box."""
        shown = text(x, y, words, on(self.colour), "middle") if self.colour and words else ""
        return f'<g class="label" stroke="{self.colour}">{shown}</g>' if shown else ""


@dataclass(frozen=True)
class Stretch:
    """From `begin` to `end`, ns; either may be the smaller."""

    kind: str
    begin: float
    end: float
    told: str  # what a reader's pointer finds


@dataclass(frozen=True)
class Bar:
    """A row."""

    name: str
    note: str
    stretches: Sequence[Stretch]
    whisker: tuple[float, float] | None = None  # ns: an interval, drawn over it

    @property
    def extent(self) -> float:
        """How far it reaches from 0, ns."""
        return max(
            (abs(end) for each in self.stretches for end in (each.begin, each.end)), default=0
        )


def stacked(parts: Iterable[tuple[str, float]]) -> list[Stretch]:
    """Side by side from 0; what is below 0 to the left of it."""
    ends = {True: 0.0, False: 0.0}
    found = []
    for kind, ns in parts:
        begin = ends[ns >= 0]
        ends[ns >= 0] = begin + ns
        found.append(Stretch(kind, begin, begin + ns, f"{kind}: {time_text(ns)}"))
    return found


def time_text(ns: float) -> str:
    """With a unit that suits it."""
    unit, name = _unit(abs(ns))
    digits = 0 if unit == 1 or abs(ns / unit) >= 100 else 1 if abs(ns / unit) >= 10 else 2
    return f"{ns / unit:,.{digits}f} {name}"


def drawn(
    bars: Sequence[Bar], looks: Mapping[str, Look], label: str, *, joined: bool = False
) -> Markup:
    """A picture of the bars. `joined`: where one ends the next begins, which is shown."""
    axis = _TimeAxis.of(
        [end for bar in bars for each in bar.stretches for end in (each.begin, each.end)]
    )
    bottom = _TOP + len(bars) * (_HEIGHT + _GAP)
    parts = [_grid(axis, bottom)]
    last: tuple[float, float] | None = None
    for at, bar in enumerate(bars):
        top = _TOP + at * (_HEIGHT + _GAP)
        if joined and last and bar.stretches:
            parts.append(line("joint", axis.x(last[0]), last[1], axis.x(last[0]), top))
        parts.append(_bar(bar, axis, looks, top))
        if bar.stretches:
            last = max(each.end for each in bar.stretches), top + _HEIGHT
    return picture_of("".join(parts), label, _ALL, bottom + 20)


@dataclass(frozen=True)
class _TimeAxis:
    least: float
    most: float

    @classmethod
    def of(cls, ends: Sequence[float]) -> "_TimeAxis":
        least, most = min([0.0, *ends]), max([0.0, *ends])
        return cls(least, most if most > least else least + 1)

    def x(self, ns: float) -> float:
        """Of what is beyond the axis a little is seen."""
        share = (ns - self.least) / (self.most - self.least)
        return _LEFT + min(max(share, -_BEYOND), 1 + _BEYOND) * (_RIGHT - _LEFT)

    @property
    def ticks(self) -> list[float]:
        rough = (self.most - self.least) / _TICKS
        scale = 10.0 ** math.floor(math.log10(rough))
        step = next(each * scale for each in _STEPS if each * scale >= rough * 0.999)
        first, last = math.ceil(self.least / step), math.floor(self.most / step)
        return [at * step for at in range(first, last + 1)]


def _grid(axis: _TimeAxis, bottom: float) -> str:
    unit, name = _unit(max(axis.most, -axis.least))
    parts = []
    for tick in axis.ticks:
        x = axis.x(tick)
        parts.append(line("free" if tick else "zero", x, 0, x, bottom))
        parts.append(text(x, bottom + 15, f"{tick / unit:,g}", "soft", "middle"))
    parts.append(text(_RIGHT + 18, bottom + 15, name, "soft"))
    return "".join(parts)


def _bar(bar: Bar, axis: _TimeAxis, looks: Mapping[str, Look], top: float) -> str:
    middle = top + _HEIGHT / 2
    name = short(bar.name, _LETTERS)
    shown = text(_LEFT - 10, middle + 4.5, name, "", "end")
    parts = [
        f"<g><title>{escape(bar.name)}</title>{shown}</g>",
        *(_stretch(each, axis, looks[each.kind], top) for each in bar.stretches),
        text(_RIGHT + 18, middle + 4.5, bar.note, "soft"),
    ]
    if bar.whisker:
        low, high = (axis.x(end) for end in bar.whisker)
        parts.append(line("whisker", low, middle, high, middle))
        parts += [line("whisker", x, middle - 6, x, middle + 6) for x in (low, high)]
    return "".join(parts)


def _stretch(stretch: Stretch, axis: _TimeAxis, look: Look, top: float) -> str:
    x, right = sorted((axis.x(stretch.begin), axis.x(stretch.end)))
    wide = right - x
    if not wide:
        return ""
    gap = 1.0 if wide > 2 * _THIN else 0.0  # of the paper, between neighbours
    words = f"{look.number} {stretch.kind}"
    if len(words) * _LETTER + 8 > wide:
        words = look.number if wide >= _NUMBER else ""
    box = look.box(x, top, max(_THIN, wide - gap), _HEIGHT)
    box += look.label(x + wide / 2, top + _HEIGHT / 2 + 4.5, words)
    return f"<g><title>{escape(stretch.told)}</title>{box}</g>"


def _unit(ns: float) -> tuple[float, str]:
    units = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
    return next((unit for unit in units if ns >= unit[0]), (1, "ns"))
