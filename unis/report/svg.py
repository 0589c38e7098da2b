"""Pictures as SVG that stands in an HTML page and has its colours."""

import io
import re
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from unis.report import colours

# Any: matplotlib types each key of its settings.
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 11,
    "text.color": colours.INK,
    "axes.edgecolor": colours.FAINT,
    "axes.labelcolor": colours.INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": colours.FAINT,
    "grid.linewidth": 0.7,
    "xtick.color": colours.INK,
    "ytick.color": colours.INK,
    "svg.fonttype": "path",  # looks the same where a font is missing
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def svg(figure: Figure, label: str, salt: str) -> str:
    """The plot for the page. `label` is for screen readers; `salt` is unique in the page."""
    stream = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": salt, **STYLE}):
        figure.savefig(
            stream, format="svg", bbox_inches="tight", pad_inches=0.05,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )  # fmt: skip
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # The page sets the width; the view box keeps the proportions.
    text = re.sub(r'<svg([^>]*?) width="[^"]*"', r"<svg\1", text, count=1)
    text = re.sub(r'<svg([^>]*?) height="[^"]*"', r"<svg\1", text, count=1)
    text = text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    # Several pictures in one page must not share the ids of their parts.
    text = re.sub(r'\bid="', f'id="{salt}-', text)
    text = re.sub(r'xlink:href="#', f'xlink:href="#{salt}-', text)
    return colours.of_page(re.sub(r"url\(#", f"url(#{salt}-", text))


def figure_of(width: float, height: float) -> Figure:
    """Inches."""
    return Figure(figsize=(width, height), layout="constrained")
