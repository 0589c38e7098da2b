"""Servers drawn: a row for those on which the same lies, with its ways and its cores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from unis.report.placement_rows import Row, Used, WayBlock, total
from unis.report.shapes import line, on, picture_of, rect, short, text

_HEIGHT, _GAP = 26, 10  # of a row
_COUNT, _NAME = 64, 110  # how wide the number of servers is, and their name where it is told
_WIDTH, _CORES = 520, 40  # of all ways; from there to the cores
_ALL = 960
_FEW = 12  # cores that stand in one line, and as high as their row
_WIDE, _SMALL = (14, 5, 12), (10, 4, 16)  # of a core: how wide, how far apart, how many in a line
_LETTERS = 14  # of a name
_NARROW = 14  # no number stands in less
_ROWS = 24  # as many as a reader looks at


@dataclass(frozen=True)
class Drawing:
    """A picture, and what is not in it."""

    picture: Markup
    count: int  # of all servers
    more: str


def drawing(rows: Sequence[Row], colours: Mapping[str, str], label: str) -> Drawing:
    """The most frequent kinds of servers."""
    shown, rest = rows[:_ROWS], rows[_ROWS:]
    more = ""
    if rest:
        more = f"And {total(rest):,} more servers, of {len(rest):,} other kinds."
    return Drawing(picture(shown, colours, label), total(rows), more)


def picture(rows: Sequence[Row], colours: Mapping[str, str], label: str) -> Markup:
    """An SVG picture; a reader's pointer finds what each part is."""
    several = len({row.server for row in rows}) > 1
    left = _COUNT + (_NAME if several else 0)
    cores = left + _WIDTH + _CORES
    parts = [text(left, 14, "ways of the cache", "soft"), text(cores, 14, "cores", "soft")]
    top = 24.0
    for row in rows:
        middle = top + _HEIGHT / 2 + 5
        if several:
            parts.append(text(0, middle, short(row.server, _LETTERS), "soft"))
        parts.append(text(left - 12, middle, f"{row.count:,} ×", "", "end"))
        parts.append(_ways(row, colours, left, top))
        parts.append(_cores(row, colours, cores, top))
        top += max(_HEIGHT, _lines(row) * (_SMALL[0] + _SMALL[1])) + _GAP
    return picture_of("".join(parts), label, _ALL, top)


def _ways(row: Row, colours: Mapping[str, str], left: float, top: float) -> str:
    each = _WIDTH / row.ways
    parts = [_free(left, top, _WIDTH)]
    for way in range(1, row.ways):
        x = left + way * each
        parts.append(line("free", x, top, x, top + _HEIGHT))
    parts += [_block(block, colours, each, left, top) for block in row.blocks]
    return "".join(parts)


def _block(
    block: WayBlock, colours: Mapping[str, str], each: float, left: float, top: float
) -> str:
    """A class of service; a stripe for each function in it."""
    told = ", ".join(f"{name} {ways}" for name, ways in block.ways)
    told = block.ways[0][0] if len(block.ways) == 1 else told
    many = "way" if block.width == 1 else "ways"
    parts = [f"<title>{escape(told)}: {block.width} {many}</title>"]
    x = begin = left + block.first * each
    for name, ways in block.ways:
        wide = ways * each
        parts.append(rect(x + 1, top + 1, wide - 2, _HEIGHT - 2, colours[name]))
        if wide >= _NARROW:
            middle = top + _HEIGHT / 2 + 4.5
            parts.append(text(x + wide / 2, middle, str(ways), on(colours[name]), "middle"))
        x += wide
    if len(block.ways) > 1:
        parts.append(
            f'<rect class="around" x="{begin + 1:.1f}" y="{top + 1:g}" '
            f'width="{x - begin - 2:.1f}" height="{_HEIGHT - 2}" rx="2"/>'
        )
    return f"<g>{''.join(parts)}</g>"


def _cores(row: Row, colours: Mapping[str, str], left: float, top: float) -> str:
    parts = []
    wide, apart, a_line = _WIDE if row.cores <= _FEW else _SMALL
    high = _HEIGHT if row.cores <= _FEW else wide
    for at in range(row.cores):
        x = left + at % a_line * (wide + apart)
        y = top + at // a_line * (wide + apart)
        parts.append(_free(x, y, wide, high))
        if at < len(row.used):
            parts.append(_core(row.used[at], colours, x, y, wide, high))
    return "".join(parts)


def _lines(row: Row) -> int:
    """Of small cores."""
    return 1 if row.cores <= _FEW else -(-row.cores // _SMALL[2])


def _core(
    used: Used, colours: Mapping[str, str], x: float, y: float, wide: float, high: float
) -> str:
    """Filled from below by its load; one function's own core is full."""
    if used.load is None:
        name = used.loads[0][0]
        return f"<g><title>{escape(name)}</title>{rect(x, y, wide, high, colours[name])}</g>"
    told = ", ".join(f"{name} {load:.0%}" for name, load in used.loads if load is not None)
    parts = [f"<title>load {used.load:.0%}: {escape(told)}</title>"]
    bottom = y + high
    for name, load in used.loads:
        tall = high * (load or 0.0)
        bottom -= tall
        parts.append(rect(x, bottom, wide, tall, colours[name]))
    return f"<g>{''.join(parts)}</g>"


def _free(x: float, y: float, width: float, height: float = _HEIGHT) -> str:
    return f'<rect class="free" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2"/>'
