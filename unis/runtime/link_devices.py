"""What links need made on the machine before programs open them, as kernel devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unis import links
from unis.errors import UnisError

if TYPE_CHECKING:
    from collections.abc import Collection

    from unis.plan.model import Plan
    from unis.runtime.run import Run

Made = tuple[str, str]  # kind of link, and what it calls what was made


def made_by(plan: Plan) -> list[Made]:
    """What there must be while the run is what the plan says."""
    named = [(link.kind, links.KINDS[link.kind].made(link)) for link in plan.links]
    return [(kind, name) for kind, name in named if name]


def make_links(run: Run, plan: Plan) -> None:
    """Makes what is not there yet, each noted before.

    UnisError if it cannot be: then the note goes, for what has that name is somebody else's.
    """
    for link in plan.links:
        kind = links.KINDS[link.kind]
        made = (link.kind, kind.made(link))
        if made[1] and made not in run.state.made:
            before = run.state.made
            run.record(made=[*before, made])
            with run.deferred():
                try:
                    kind.make(link)
                except UnisError:
                    run.record(made=before)
                    raise


def remove_links(made: Collection[Made]) -> list[str]:
    """Removes it, the last first; sentences of what could not be."""
    problems: list[str] = []
    for kind, name in reversed([*made]):
        if found := links.KINDS.get(kind):
            problems += found.remove(name)
        else:
            problems.append(f"cannot remove {name}: this `unis` knows no kind of link `{kind}`")
    return problems
