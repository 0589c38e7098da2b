"""Puts a plan into a tree, and takes it out again. The state before is recorded first.

Forth, back after a failure, and back at the end are one function, `reconcile`: each says how the
tree shall be, and only what differs is written. So a second `apply` writes nothing, and after a
crash either `apply` or `undo` finishes what was begun.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from unis.errors import UnisError
from unis.isolate.info import read_info
from unis.isolate.plan import CachePlan
from unis.isolate.reconcile import reconcile
from unis.isolate.schemata import merged
from unis.isolate.state import (
    GroupState,
    Record,
    TreeState,
    read_group,
    read_io_alloc,
    read_seats,
)
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


def apply(
    plan: CachePlan,
    tree: Tree,
    keep: Keep,
    record: Record | None = None,
    threads: Mapping[str, Iterable[int]] | None = None,
) -> Record:
    """Brings `tree` to `plan`; returns the record for `undo`, and for the next `apply`.

    `threads`: those of the members, by name.
    `record`: of what was applied before, which this replaces. A thread of it that is not named any
    more goes where it was before. Raises ForeignGroupError before anything is changed; ApplyError
    after a failure, with all undone that could be.
    """
    record = _checked(tree, record)
    _refuse_foreign(plan, tree, record)
    ours = {*record.made, *record.before.groups, *(clos.name for clos in plan.classes), ""}
    seats = _seats(plan, threads or {})
    now = _state(tree, ours, seats)
    if not (plan.io_alloc or record.before.io_alloc):
        now = replace(now, io_alloc={})  # somebody else decides about I/O's ways
    noted = _extended(record, plan, now, seats)
    keep(noted)
    try:
        goal = _goal(plan, noted, now, seats, ["", *control_groups(tree)])
        reconcile(tree, *goal)
    except TreeError as error:
        raise ApplyError(str(error), _roll_back(tree, keep, record, now, ours)) from None
    # A group that is gone for good need not be remembered.
    left = replace(noted, made=tuple(name for name in noted.made if name in control_groups(tree)))
    if left != noted:
        keep(left)
    return left


def undo(tree: Tree, record: Record) -> list[str]:
    """Puts back what `record` has; what could not be, as sentences. Can be done again.

    A group that was there before us and that somebody has removed meanwhile stays away.
    """
    _checked(tree, record)
    problems: list[str] = []
    try:
        existing = ["", *control_groups(tree)]
        groups = {name: state for name, state in record.before.groups.items() if name in existing}
        ours = [name for name in {*record.made, *groups} if name and name in existing]
        seats = {tid: _home(record, tid, existing) for tid in read_seats(tree, ours)}
        wanted = TreeState(groups, seats, record.before.io_alloc)
        reconcile(tree, wanted, record.made, problems)
    except TreeError as error:  # a group vanished meanwhile
        problems.append(str(error))
    return problems


def vanished(tree: Tree, record: Record) -> list[str]:
    """The groups from before us that exist no more, by name: `undo` does not make them anew."""
    return sorted({*record.before.groups} - {"", *control_groups(tree)})


# ---------------------------------------------------------------- before


def _checked(tree: Tree, record: Record | None) -> Record:
    if record and record.tree != tree.label:
        raise UnisError(f"what was recorded is of {record.tree}, and this is {tree.label}")
    return record or Record(tree.label)


def _refuse_foreign(plan: CachePlan, tree: Tree, record: Record) -> None:
    foreign = {*control_groups(tree)} - {*record.made, *record.before.groups}
    for clos in plan.classes:
        if clos.name in foreign and (threads := tasks(tree, clos.name)):
            raise ForeignGroupError(
                f"{tree.label} has a group {clos.name} that this run did not make, with "
                f"{len(threads)} threads in it: end whoever uses it, or remove it (rmdir), or "
                "call the function otherwise"
            )


def _state(tree: Tree, ours: Collection[str], seats: Collection[int]) -> TreeState:
    """Our groups as they are, and the places of threads that are in them or shall be."""
    existing = ["", *control_groups(tree)]
    found = read_seats(tree, existing)
    return TreeState(
        groups={name: read_group(tree, name) for name in existing if name in ours},
        seats={
            tid: seat for tid, seat in found.items() if class_of(seat) in ours and class_of(seat)
        }
        | {tid: found.get(tid, "") for tid in seats},
        io_alloc=read_io_alloc(read_info(tree)),
    )


def _seats(plan: CachePlan, threads: Mapping[str, Iterable[int]]) -> dict[int, str]:
    if unknown := sorted({*threads} - {*plan.places}):
        raise UnisError(f"there are threads of {', '.join(unknown)}, which the plan has not")
    return {tid: plan.places[name] for name, tids in threads.items() for tid in tids}


def _extended(record: Record, plan: CachePlan, now: TreeState, seats: Collection[int]) -> Record:
    """The record, and the state of everything that this plan is the first to change."""
    before = record.before
    new = {clos.name for clos in plan.classes} - {*record.made, *before.groups}
    made = {*record.made, *(new - {*now.groups})}
    adopted = sorted(new & {*now.groups})  # they are empty
    groups = {name: now.groups[name] for name in ("", *adopted)} | dict(before.groups)
    homes = {
        tid: seat
        for tid in seats
        if class_of(seat := now.seats[tid]) not in {*made, *groups} - {""}
    }
    return Record(
        tree=record.tree,
        made=tuple(sorted(made)),
        before=TreeState(
            groups=groups,
            # Nothing is kept of threads that ended: another may have their number by now.
            seats=homes | {tid: seat for tid, seat in before.seats.items() if tid in now.seats},
            io_alloc={**(now.io_alloc if plan.io_alloc else {}), **before.io_alloc},
        ),
    )


# ---------------------------------------------------------------- forth and back


def _goal(
    plan: CachePlan,
    record: Record,
    now: TreeState,
    seats: Mapping[int, str],
    existing: Collection[str],
) -> tuple[TreeState, list[str]]:
    """How the tree shall be, and which groups go."""
    before = record.before.groups
    groups = {name: state for name, state in before.items() if name in existing}
    groups[""] = replace(before[""], schemata=merged(before[""].schemata, plan.default))
    for clos in plan.classes:
        groups[clos.name] = GroupState(clos.schemata, monitors=clos.monitors)
    io_alloc: dict[str, Mapping[int, int] | None] = dict(record.before.io_alloc)
    if plan.io_alloc:
        io_alloc = dict.fromkeys(io_alloc, plan.io_alloc)
    # Threads that we have moved once, and that nobody names any more.
    freed = {
        tid: _home(record, tid, existing)
        for tid in now.seats
        if tid not in seats and tid in record.before.seats
    }
    gone = [name for name in record.made if name not in groups]
    return TreeState(groups, freed | dict(seats), io_alloc), gone


def _home(record: Record, tid: int, existing: Collection[str]) -> str:
    """The place of a thread before us; the root if that is gone, or if the thread is newer."""
    home = record.before.seats.get(tid, "")
    return home if class_of(home) in existing else ""


def _roll_back(
    tree: Tree, keep: Keep, record: Record, now: TreeState, ours: Collection[str]
) -> list[str]:
    """To the state before this `apply`."""
    problems: list[str] = []
    try:
        reconcile(tree, now, [name for name in ours if name not in now.groups], problems)
    except TreeError as error:
        problems.append(str(error))
    if not problems:
        keep(record)
    return problems
