"""Pictures of placements, as many rows as a reader looks at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from unis.report.placement_rows import Row, total
from unis.report.servers import picture

_ROWS = 24


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
