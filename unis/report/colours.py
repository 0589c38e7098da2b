"""The colours of the report: an arm has the same in every plot, functions have a paler set.

Ink, lines and paper are the page's own, so that they change with it where a reader prefers dark.
"""

import colorsys
from collections.abc import Sequence

# Okabe and Ito: told apart by the colour-blind too.
_POLICIES = {
    "unis": "#0072B2",
    "cooperative": "#009E73",
    "rr": "#D55E00",
    "other": "#8A6FB0",
    "fifo": "#B8860B",
    "batch": "#7F7F7F",
    "idle": "#56B4E9",
}
_OTHER_POLICY = "#A0527A"
# How much paler than the same policy by priority; below 0: darker.
_CONTROLLERS = {"signal": 0.35, "handover": -0.35}
_FUNCTIONS = ["#7FB2E5", "#F6B26B", "#93C47D", "#C9A0DC", "#E6B8AF", "#B7B7B7", "#A2C4C9"]
_LIGHTNESS = (0.72, 0.52, 0.84)

# Stand-ins in a plot for colours of the page's style sheet.
INK, FAINT, PAPER = "#010203", "#010204", "#010205"
_OF_PAGE = {INK: "var(--ink)", FAINT: "var(--line)", PAPER: "var(--paper)"}


def of_arm(arm: str) -> str:
    """The colour of "unis", or of "unis/signal"."""
    policy, _, controller = arm.partition("/")
    pale = _CONTROLLERS.get(controller, 0.0)
    red, green, blue = to_rgb(_POLICIES.get(policy, _OTHER_POLICY))
    if pale < 0:
        return to_hex((red * (1 + pale), green * (1 + pale), blue * (1 + pale)))
    return to_hex((red + (1 - red) * pale, green + (1 - green) * pale, blue + (1 - blue) * pale))


def to_rgb(colour: str) -> tuple[float, float, float]:
    """Red, green and blue, 0 to 1, of `#rrggbb`."""
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red / 255, green / 255, blue / 255


def to_hex(rgb: tuple[float, float, float]) -> str:
    """The same backwards."""
    return "#" + bytes(round(255 * part) for part in rgb).hex()


def of_functions(names: Sequence[str]) -> dict[str, str]:
    """A colour for each function, no two the same."""
    if len(names) <= len(_FUNCTIONS):
        return dict(zip(names, _FUNCTIONS, strict=False))
    return {
        name: to_hex(
            colorsys.hls_to_rgb(index / len(names), _LIGHTNESS[index % len(_LIGHTNESS)], 0.55)
        )
        for index, name in enumerate(names)
    }


def of_page(svg: str) -> str:
    """The plot with the page's colours for ink, lines and paper."""
    for stand_in, variable in _OF_PAGE.items():
        svg = svg.replace(stand_in, variable)
    return svg
