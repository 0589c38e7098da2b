"""Curves over one axis, as SVG: told apart by colour, dashes and a name at their end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from unis.report.shapes import line, picture_of, text

# Okabe and Ito.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES = ("", "7 4", "2 3", "10 3 2 3")
_LEFT, _RIGHT, _ALL = 70, 760, 960  # of the axis; right of it the names
_TOP, _BOTTOM = 14, 300
_APART = 17  # names
_TICKS = 6
_STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class DrawnCurve:
    """Points in the order of x."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Marked:
    """A place on the axis with numbers that stand for words below the picture."""

    x: float
    numbers: str


def lines(
    curves: Sequence[DrawnCurve], x: str, y: str, label: str, marks: Sequence[Marked] = (), *,
    dots: bool = False,
) -> Markup:  # fmt: skip
    """The picture. `dots`: x takes whole numbers, each of which is shown. `label` is for screen
    readers.
    """
    xs = [point[0] for curve in curves for point in curve.points]
    most = max((point[1] for curve in curves for point in curve.points), default=0.0)
    scale = _Plane(min(xs), max(xs), most or 1.0)
    parts = [_axes(scale, x, y, whole=dots)]
    parts += [_mark(scale, each) for each in marks]
    parts += [_curve(scale, at, curve, dots=dots) for at, curve in enumerate(curves)]
    parts.append(_names(scale, curves))
    return picture_of("".join(parts), label, _ALL, _BOTTOM + 44)


@dataclass(frozen=True)
class _Plane:
    least: float
    most: float
    highest: float

    def x(self, value: float) -> float:
        share = (value - self.least) / ((self.most - self.least) or 1)
        return _LEFT + share * (_RIGHT - _LEFT)

    def y(self, value: float) -> float:
        return _BOTTOM - value / (self.highest * 1.05) * (_BOTTOM - _TOP)


def _axes(scale: _Plane, x: str, y: str, *, whole: bool) -> str:
    parts = []
    for tick in _ticks(0, scale.highest):
        at = scale.y(tick)
        parts.append(line("free" if tick else "zero", _LEFT, at, _RIGHT, at))
        parts.append(text(_LEFT - 8, at + 4.5, f"{tick:g}", "soft", "end"))
    ticks = (
        [float(value) for value in range(int(scale.least), int(scale.most) + 1)]
        if whole and scale.most - scale.least < 2 * _TICKS + 6
        else [tick for tick in _ticks(scale.least, scale.most) if tick >= scale.least]
    )
    for tick in ticks:
        at = scale.x(tick)
        parts.append(line("zero", at, _BOTTOM, at, _BOTTOM + 5))
        parts.append(text(at, _BOTTOM + 19, f"{tick:g}", "soft", "middle"))
    parts.append(text((_LEFT + _RIGHT) / 2, _BOTTOM + 38, x, "soft", "middle"))
    parts.append(text(_RIGHT + 8, _TOP - 1, y, "soft"))
    return "".join(parts)


def _ticks(least: float, most: float) -> list[float]:
    rough = (most - least) / _TICKS or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in _STEPS if each * power >= rough * 0.999)
    first, last = math.ceil(least / step), math.floor(most / step)
    return [at * step for at in range(first, last + 1)]


def _curve(scale: _Plane, at: int, curve: DrawnCurve, *, dots: bool) -> str:
    colour, dashes = _COLOURS[at % len(_COLOURS)], _DASHES[at % len(_DASHES)]
    points = [(scale.x(x), scale.y(y)) for x, y in curve.points]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [
        f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2.4" '
        f'stroke-dasharray="{dashes}"/>'
    ]
    if dots:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" fill="{colour}"/>' for x, y in points]
    return f"<g><title>{escape(curve.name)}</title>{''.join(parts)}</g>"


def _mark(scale: _Plane, mark: Marked) -> str:
    at = scale.x(mark.x)
    return line("mark", at, _TOP, at, _BOTTOM) + text(at + 3, _TOP + 10, mark.numbers, "soft")


def _names(scale: _Plane, curves: Sequence[DrawnCurve]) -> str:
    """Beside the ends of the curves, and not one over another."""
    ends = sorted(
        (scale.y(curve.points[-1][1]), at, curve.name)
        for at, curve in enumerate(curves)
        if curve.points
    )
    parts = []
    last = -math.inf
    for wanted, at, name in ends:
        last = max(wanted, last + _APART)
        colour, dashes = _COLOURS[at % len(_COLOURS)], _DASHES[at % len(_DASHES)]
        parts.append(
            f'<line x1="{_RIGHT + 8}" x2="{_RIGHT + 32}" y1="{last:.1f}" y2="{last:.1f}" '
            f'stroke="{colour}" stroke-width="2.4" stroke-dasharray="{dashes}"/>'
        )
        parts.append(text(_RIGHT + 38, last + 4.5, name))
    return "".join(parts)
