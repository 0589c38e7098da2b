"""The page of `unis model`: throughput, resources, questions, curves, and sources of numbers."""

from collections.abc import Sequence

from markupsafe import Markup

from unis.capacity import words
from unis.capacity.result import Arrangement, CapacityResult, Crossing
from unis.report.lines import DrawnCurve, Marked, lines
from unis.report.shapes import picture_of, rect, short, text
from unis.report.templates import template

_HEIGHT, _GAP = 22, 8  # of a bar
_LEFT, _RIGHT, _ALL = 230, 760, 960
_LETTERS = 30
_FULL, _USED = "#D55E00", "#0072B2"
_AXES = {"bytes": "packet size, bytes with FCS", "functions": "functions of a chain"}


def model_page(found: CapacityResult) -> str:
    """The whole page; it needs nothing else."""
    page = template(
        "model.html.j2",
        rate=words.rate,
        gain=words.gain,
        amount=words.amount,
        taken=words.taken,
        together=words.together,
    )
    return page.render(
        found=found,
        headline=words.headline(found),
        note=words.use_note(found),
        at_load=words.at_load(found),
        bars={each.name: _bars(each) for each in found.arrangements},
        pictures=[
            (over, _curves(found, over, crossings), crossings)
            for over in dict.fromkeys(curve.over for curve in found.curves)
            for crossings in [[each for each in found.crossings if each.over == over]]
        ],
        used=[
            *((f"{size} bytes", f"{share} of {sum(found.sizes.values())} packets")
              for size, share in found.sizes.items()),
            *((key.replace("_", " "), value) for key, value in found.setting.items()
              if value is not None),
        ],
    )  # fmt: skip


def _bars(found: Arrangement) -> Markup:
    """How much of each resource is used."""
    parts = []
    for at, row in enumerate(found.resources):
        top = at * (_HEIGHT + _GAP)
        middle = top + _HEIGHT / 2 + 4.5
        wide = (_RIGHT - _LEFT) * min(1.0, row.used)
        is_limit = row.name in found.bottlenecks
        parts.append(text(_LEFT - 10, middle, short(row.name, _LETTERS), "", "end"))
        parts.append(f'<rect class="free" x="{_LEFT}" y="{top}" width="{_RIGHT - _LEFT}" '
                     f'height="{_HEIGHT}" rx="2"/>')  # fmt: skip
        parts.append(rect(_LEFT, top, max(wide, 1.0), _HEIGHT, _FULL if is_limit else _USED))
        told = "the bottleneck" if is_limit else f"{row.used:.0%} used"
        parts.append(text(_RIGHT + 12, middle, told, "" if is_limit else "soft"))
    height = len(found.resources) * (_HEIGHT + _GAP)
    return picture_of("".join(parts), f"resources used: {found.name}", _ALL, height)


def _curves(found: CapacityResult, over: str, crossings: Sequence[Crossing]) -> Markup:
    curves = [
        DrawnCurve(curve.name, [(point.at, point.total_mpps) for point in curve.points])
        for curve in found.curves
        if curve.over == over
    ]
    by_place: dict[int, list[str]] = {}
    for at, each in enumerate(crossings, 1):
        by_place.setdefault(each.at, []).append(str(at))
    marks = [Marked(place, ", ".join(numbers)) for place, numbers in by_place.items()]
    return lines(
        curves, _AXES[over], "Mpps", f"throughput over {over}", marks, dots=over == "functions"
    )
