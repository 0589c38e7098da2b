"""Shapes of pictures that are written as SVG by hand."""

from html import escape

from markupsafe import Markup

from unis.report.colours import to_rgb

_DARK = 0.5  # luminance


def picture_of(body: str, label: str, width: float, height: float) -> Markup:
    """The whole picture; `label` is for screen readers."""
    return Markup(  # noqa: S704  our own, and what is not is escaped
        f'<svg class="drawn" role="img" aria-label="{escape(label)}" '
        f'viewBox="0 0 {width:g} {height:g}">{body}</svg>'
    )


def rect(x: float, y: float, width: float, height: float, fill: str) -> str:
    """`fill`: a colour, or a pattern as `url(#id)`."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" '
        f'fill="{fill}"/>'
    )


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """`kind`: a class of the style sheet."""
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """`kind`: a class of the style sheet."""
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


def on(colour: str) -> str:
    """The class of text that stands on this colour."""
    red, green, blue = to_rgb(colour)
    return "on light" if 0.3 * red + 0.59 * green + 0.11 * blue < _DARK else "on"


def short(name: str, letters: int) -> str:
    """At most so many letters of it."""
    return name if len(name) <= letters else name[: letters - 1] + "…"
