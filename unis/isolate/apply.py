"""A plan is put into a tree, and taken out again. What is there before is recorded first.

Forth, back after a failure, and back at the end are one function (`reach`): each says how the tree
shall be, and only what differs is written. So a second `apply` writes nothing, and after a crash
either `apply` or `undo` finishes what was begun.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from unis.errors import UnisError
from unis.isolate.info import read_info
from unis.isolate.plan import CachePlan
from unis.isolate.reach import reach
from unis.isolate.record import (
    EXCLUSIVE,
    SHAREABLE,
    GroupState,
    Record,
    TreeState,
    read_group,
    read_io_alloc,
    read_seats,
)
from unis.isolate.schemata import merged
from unis.isolate.tree import Tree, TreeError, class_of, control_groups, tasks

# Keeps a record where it outlives us; returns once it does.
Keep = Callable[[Record], None]


class ApplyError(UnisError):
    """The tree is as it was before, but for `problems`."""

    def __init__(self, why: str, problems: list[str]) -> None:
        self.problems = problems
        back = "everything is as it was"
        if problems:
            back = f"not all could be put back: {'; '.join(problems)}"
        super().__init__(f"{why}; {back}", bad_input=False)


class ForeignGroupError(UnisError):
    """A group that is not ours has the name that one of ours shall have."""


@dataclass(frozen=True)
class Applied:
    """What is in the tree now."""

    record: Record  # for `undo`, and for the next `apply`
    told: tuple[str, ...] = ()  # masks that had to overlap for a moment


def apply(
    plan: CachePlan,
    tree: Tree,
    keep: Keep,
    record: Record | None = None,
    threads: Mapping[str, Iterable[int]] | None = None,
) -> Applied:
    """Brings `tree` to `plan`; `threads` are those of the members, by name.

    `record`: of what was applied before, which this takes the place of. A thread of it that is not
    named any more goes where it was before. Raises ForeignGroupError before anything is changed;
    ApplyError after a failure, with all undone that could be.
    """
    record = _of(tree, record)
    _see_that_none_is_foreign(plan, tree, record)
    ours = {*record.made, *record.before.groups, *(one.name for one in plan.classes), ""}
    seats = _seats(plan, threads or {})
    now = _state(tree, ours, seats)
    if not (plan.io_alloc or record.before.io_alloc):
        now = replace(now, io_alloc={})  # I/O's ways are somebody else's matter
    noted = _noted(plan, record, now, seats)
    keep(noted)
    try:
        told = reach(tree, *_goal(plan, noted, now, seats, control_groups(tree)))
    except TreeError as error:
        raise ApplyError(str(error), _back(tree, keep, record, now, ours)) from None
    # A group that is gone for good need not be remembered.
    left = replace(noted, made=tuple(name for name in noted.made if name in control_groups(tree)))
    if left != noted:
        keep(left)
    return Applied(left, tuple(told))


def undo(tree: Tree, record: Record) -> list[str]:
    """Puts back what `record` has; what could not be, as sentences. Can be done again.

    A group that was there before us and that somebody has removed meanwhile stays away.
    """
    record = _of(tree, record)
    problems: list[str] = []
    try:
        there = control_groups(tree)
        groups = {
            name: of for name, of in record.before.groups.items() if not name or name in there
        }
        ours = [name for name in {*record.made, *groups} if name in there]
        seats = {tid: _home(record, tid, there) for tid in read_seats(tree, ours)}
        wanted = TreeState(groups, seats, record.before.io_alloc)
        reach(tree, wanted, record.made, problems)
    except TreeError as error:  # a group went while it was looked at
        problems.append(str(error))
    return problems


def gone(tree: Tree, record: Record) -> list[str]:
    """Groups that were there before us and are there no more, by name: `undo` makes none anew."""
    there = control_groups(tree)
    return sorted(name for name in record.before.groups if name and name not in there)


# ---------------------------------------------------------------- before


def _of(tree: Tree, record: Record | None) -> Record:
    if record is None:
        return Record(tree.label)
    if record.tree != tree.label:
        raise UnisError(f"what was recorded is of {record.tree}, and this is {tree.label}")
    return record


def _see_that_none_is_foreign(plan: CachePlan, tree: Tree, record: Record) -> None:
    there = control_groups(tree)
    for one in plan.classes:
        ours = one.name in (*record.made, *record.before.groups)
        if one.name in there and not ours and (inside := tasks(tree, one.name)):
            raise ForeignGroupError(
                f"{tree.label} has a group {one.name} that this run did not make, with "
                f"{len(inside)} threads in it: end whoever uses it, or remove it (rmdir), or "
                "call the function otherwise"
            )


def _state(tree: Tree, ours: Collection[str], seats: Collection[int]) -> TreeState:
    """Our groups as they are, and where the threads in them, and those that shall be, are."""
    there = ["", *control_groups(tree)]
    found = read_seats(tree, there)
    return TreeState(
        groups={name: read_group(tree, name) for name in there if name in ours},
        seats={tid: at for tid, at in found.items() if class_of(at) in ours and class_of(at)}
        | {tid: found.get(tid, "") for tid in seats},
        io_alloc=read_io_alloc(read_info(tree)),
    )


def _seats(plan: CachePlan, threads: Mapping[str, Iterable[int]]) -> dict[int, str]:
    if unknown := sorted({*threads} - {*plan.places}):
        raise UnisError(f"there are threads of {', '.join(unknown)}, which the plan has not")
    return {tid: plan.places[name] for name, tids in threads.items() for tid in tids}


def _noted(plan: CachePlan, record: Record, now: TreeState, seats: Collection[int]) -> Record:
    """What was noted before holds on; what this is the first to change comes to it."""
    before = record.before
    new = {one.name for one in plan.classes} - {*record.made, *before.groups}
    made = {*record.made, *(new - {*now.groups})}
    adopted = sorted(new & {*now.groups})  # nobody is in them
    groups = {name: now.groups[name] for name in ("", *adopted)} | dict(before.groups)
    homes = {
        tid: at for tid in seats if class_of(at := now.seats[tid]) not in {*made, *groups} - {""}
    }
    return Record(
        tree=record.tree,
        made=tuple(sorted(made)),
        before=TreeState(
            groups=groups,
            # Of threads that are gone nothing is kept: another may have their number by now.
            seats=homes | {tid: at for tid, at in before.seats.items() if tid in now.seats},
            io_alloc={**(now.io_alloc if plan.io_alloc else {}), **before.io_alloc},
        ),
    )


# ---------------------------------------------------------------- forth and back


def _goal(
    plan: CachePlan,
    record: Record,
    now: TreeState,
    seats: Mapping[int, str],
    there: Collection[str],
) -> tuple[TreeState, list[str]]:
    """How the tree shall be, and which groups go."""
    before = record.before.groups
    root = replace(before[""], schemata=merged([before[""].schemata, plan.default]))
    groups = {name: state for name, state in before.items() if name in there} | {"": root}
    for one in plan.classes:
        mode = EXCLUSIVE if one.exclusive else SHAREABLE
        groups[one.name] = GroupState(one.schemata, mode, one.monitors)
    io_alloc: dict[str, Mapping[int, int] | None] = dict(record.before.io_alloc)
    if plan.io_alloc:
        io_alloc = dict.fromkeys(io_alloc, plan.io_alloc)
    # Threads that we have moved once, and that nobody names any more.
    freed = {
        tid: _home(record, tid, there)
        for tid in now.seats
        if tid not in seats and tid in record.before.seats
    }
    gone = [name for name in record.made if name not in groups]
    return TreeState(groups, freed | dict(seats), io_alloc), gone


def _home(record: Record, tid: int, there: Collection[str]) -> str:
    """Where a thread was; the root where that is gone, or where it came as the child of another."""
    home = record.before.seats.get(tid, "")
    return home if not class_of(home) or class_of(home) in there else ""


def _back(
    tree: Tree, keep: Keep, record: Record, now: TreeState, ours: Collection[str]
) -> list[str]:
    """To what it was before this `apply`."""
    problems: list[str] = []
    try:
        reach(tree, now, [name for name in ours if name not in now.groups], problems)
    except TreeError as error:
        problems.append(str(error))
    if not problems:
        keep(record)
    return problems
