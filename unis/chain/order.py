"""In which order packets pass the functions of a chain.

A function follows the one before it in the list unless it says `after: NAME` (or
`after: ingress`, for the first). So the file can state any graph; what runs today is one line of
functions. Branching service graphs would start here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from unis.chain.problem import Problem

INGRESS = "ingress"  # what the first function of a chain comes after


@dataclass(frozen=True)
class Place:
    """A function's name and what the file says that it comes after, if it does."""

    name: str
    after: str | None


def _predecessors(places: Sequence[Place]) -> list[str]:
    listed = [INGRESS, *(place.name for place in places)]
    return [place.after or listed[index] for index, place in enumerate(places)]


def _where(places: Sequence[Place], index: int) -> tuple[str | int, ...]:
    place: tuple[str | int, ...] = ("functions", index)
    return (*place, "after") if places[index].after else place


def line_up(places: Sequence[Place]) -> tuple[list[int], list[Problem]]:
    """The indices of `places` in the order of the chain, or what is wrong with that order."""
    names = [place.name for place in places]
    duplicates = [
        Problem(
            ("functions", index, "name"),
            f"`{name}` is the name of an earlier function of this chain; give each its own",
        )
        for index, name in enumerate(names)
        if name in names[:index]
    ]
    if duplicates:
        return [], duplicates
    before = _predecessors(places)
    problems: list[Problem] = []
    follower: dict[str, int] = {}
    for index, predecessor in enumerate(before):
        if predecessor != INGRESS and predecessor not in names:
            problems.append(
                Problem(
                    _where(places, index),
                    f"there is no function `{predecessor}` in this chain; "
                    f"choose one of {', '.join(names)} or `{INGRESS}`",
                )
            )
        elif predecessor == names[index]:
            problems.append(
                Problem(
                    _where(places, index),
                    f"`{names[index]}` comes after itself; name the function before it, "
                    f"or `{INGRESS}`",
                )
            )
        elif predecessor in follower:
            problems.append(
                Problem(
                    _where(places, index),
                    f"`{names[follower[predecessor]]}` and `{names[index]}` both come after "
                    f"`{predecessor}`; a chain is one line of functions",
                )
            )
        else:
            follower[predecessor] = index
    if problems:
        return [], problems
    order: list[int] = []
    current = INGRESS
    while current in follower:
        order.append(follower[current])
        current = names[follower[current]]
    if len(order) < len(places):
        return [], [_cycle(places, before, set(range(len(places))) - set(order))]
    return order, []


def _cycle(places: Sequence[Place], before: Sequence[str], rest: set[int]) -> Problem:
    names = [place.name for place in places]
    # Every function of the rest has its predecessor there too: going back must come round.
    path = [min(rest)]
    while (previous := names.index(before[path[-1]])) not in path:
        path.append(previous)
    circle = [*path[path.index(previous) :], previous]
    stated = [index for index in circle if places[index].after]
    at = stated[0] if stated else circle[0]
    drawn = " → ".join(names[index] for index in reversed(circle))
    return Problem(
        _where(places, at),
        f"the order is a cycle: {drawn}; let the first function come after `{INGRESS}`",
    )
