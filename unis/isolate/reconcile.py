"""Brings a tree from its state to the desired one, forth or back.

The order, so that no thread is ever without a valid class and no two classes overlap on the way if
that can be helped: threads that leave us go first; groups that are to go, go; masks shrink, then
grow (`masks.transition`); new groups get their masks while they are empty; then threads move in.
"""

import errno
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from unis.isolate.info import IO_ALLOC_ENABLED, CacheInfo, CacheResource, read_info
from unis.isolate.masks import transition, union
from unis.isolate.request import GROUP_PREFIX
from unis.isolate.schemata import changes, format_lines, format_values
from unis.isolate.state import EXCLUSIVE, SHAREABLE, GroupState, TreeState, read_group, read_seats
from unis.isolate.tree import MON_GROUPS, Tree, TreeError, class_of, control_groups, inside

_IO = "\0io"  # among the names of groups, the class of I/O


def reconcile(
    tree: Tree,
    wanted: TreeState,
    gone: Collection[str] = (),
    problems: list[str] | None = None,
) -> None:
    """Makes groups, masks, modes and places of threads as `wanted`; the groups `gone` are removed,
    and no other group is touched. What is so already is not written.

    Raises the first TreeError; with a list of `problems` notes it there and goes on with the rest.
    """
    _Reconciliation(tree, wanted, frozenset(gone), problems).run()


class _Reconciliation:
    def __init__(
        self, tree: Tree, wanted: TreeState, gone: frozenset[str], problems: list[str] | None
    ) -> None:
        self._tree = tree
        self._wanted = wanted
        self._gone = gone
        self._problems = problems

    def run(self) -> None:
        wanted = self._wanted.groups
        existing = {"", *control_groups(self._tree)}
        info = read_info(self._tree)
        leaving = {
            t: seat for t, seat in self._wanted.seats.items() if class_of(seat) not in wanted
        }
        with self._step():
            self._seat(leaving)
        for name in sorted(self._gone & existing):
            with self._step():
                self._tree.remove(name)
        staying = {name: read_group(self._tree, name) for name in sorted({*wanted} & existing)}
        for name, state in staying.items():
            if state.mode == EXCLUSIVE and (
                wanted[name].mode != EXCLUSIVE or changes(state.schemata, wanted[name].schemata)
            ):
                with self._step():
                    self._set_mode(name, SHAREABLE)
        self._switch_io(info)
        self._move_masks(staying)
        for name in sorted({*wanted} - existing):
            with self._step():
                self._tree.make(name)
        for name in sorted(wanted):
            with self._step():
                self._finish(name)
        for name in sorted(wanted):  # once no mask is in the way of another
            with self._step():
                self._set_mode(name, wanted[name].mode)
        self._seat(self._wanted.seats)
        self._remove_monitors()

    @contextmanager
    def _step(self) -> Iterator[None]:
        try:
            yield
        except TreeError as error:
            if self._problems is None:
                raise
            self._problems.append(str(error))

    # ------------------------------------------------------------- masks

    def _switch_io(self, info: CacheInfo) -> None:
        for name, masks in self._wanted.io_alloc.items():
            wanted = masks is not None
            if wanted != (info.caches[name].io_alloc == IO_ALLOC_ENABLED):
                with self._step():
                    self._tree.write(f"info/{name}/io_alloc", f"{wanted:d}\n")
                return  # code and data of one cache have it together

    def _move_masks(self, staying: Mapping[str, GroupState]) -> None:
        resources = read_info(self._tree).of_level("L3")
        for domain in resources[0].domains if resources else ():
            with self._step():
                self._move(staying, resources, domain)

    def _move(
        self, staying: Mapping[str, GroupState], resources: tuple[CacheResource, ...], domain: int
    ) -> None:
        """The masks of one cache; if code and data differ, of each half by itself."""
        halves = [resource.name for resource in resources]
        spare = self._spare(resources, domain, staying)
        least = max(resource.least for resource in resources)
        alike = all(
            len({state.schemata.get(half, {}).get(domain) for half in halves}) == 1
            for state in (*staying.values(), *(self._wanted.groups[name] for name in staying))
        )
        for part in [halves] if alike else [[half] for half in halves]:
            now = {name: state.schemata[part[0]][domain] for name, state in staying.items()}
            wanted = {
                name: self._wanted.groups[name].schemata.get(part[0], {}).get(domain, mask)
                for name, mask in now.items()
            }
            io_now = resources[0].io_alloc_cbm
            io_wanted = self._wanted.io_alloc.get(resources[0].name) or {}
            if domain in io_now and domain in io_wanted:
                now[_IO], wanted[_IO] = io_now[domain], io_wanted[domain]
            for write in transition(now, wanted, least, spare):
                if write.overlaps:
                    for name, state in staying.items():
                        if state.mode == EXCLUSIVE:
                            self._set_mode(name, SHAREABLE)
                values = {domain: write.mask}
                if write.name == _IO:
                    text = format_values(values, masks=True) + "\n"
                    self._tree.write(f"info/{part[0]}/io_alloc_cbm", text)
                else:
                    lines = format_lines(dict.fromkeys(part, values))
                    self._tree.write(inside(write.name, "schemata"), lines)

    def _spare(
        self,
        resources: tuple[CacheResource, ...],
        domain: int,
        staying: Mapping[str, GroupState],
    ) -> int:
        """Ways that are nobody else's."""
        taken = union(
            resource.shareable_bits | resource.io_alloc_cbm.get(domain, 0) for resource in resources
        )
        for name in control_groups(self._tree):
            if name not in staying:
                taken |= read_group(self._tree, name).mask(resources, domain)
        return resources[0].cbm_mask & ~taken

    # ------------------------------------------------------------- groups

    def _finish(self, name: str) -> None:
        """What a group still lacks: a new group's masks, others' L2 and bandwidth, MON groups."""
        wanted, now = self._wanted.groups[name], read_group(self._tree, name)
        if left := changes(now.schemata, wanted.schemata):
            self._tree.write(inside(name, "schemata"), format_lines(left))
        missing = {*wanted.monitors} - {*now.monitors} if name else ()  # the root's are others'
        for monitor in sorted(missing):
            self._tree.make(inside(name, f"{MON_GROUPS}/{monitor}"))

    def _set_mode(self, name: str, mode: str) -> None:
        if mode != self._tree.read(inside(name, "mode")).strip():
            self._tree.write(inside(name, "mode"), f"{mode}\n")

    def _remove_monitors(self) -> None:
        """Our MON groups of our groups; no thread whose place is known is in them any more."""
        for name, wanted in sorted(self._wanted.groups.items()):
            with self._step():
                for monitor in read_group(self._tree, name).monitors if name else ():
                    if monitor not in wanted.monitors and monitor.startswith(GROUP_PREFIX):
                        self._tree.remove(inside(name, f"{MON_GROUPS}/{monitor}"))

    # ------------------------------------------------------------- threads

    def _seat(self, seats: Mapping[int, str]) -> None:
        now = read_seats(self._tree, ["", *control_groups(self._tree)]) if seats else {}
        for tid, place in sorted(seats.items()):
            seat = now.get(tid, "")
            if seat == place:
                continue
            group = class_of(place)
            with self._step():
                if group not in (place, class_of(seat)):
                    self._move_thread(tid, group)
                self._move_thread(tid, place)

    def _move_thread(self, tid: int, place: str) -> None:
        try:
            self._tree.write(inside(place, "tasks"), f"{tid}\n")
        except TreeError as error:
            if error.errno != errno.ESRCH:  # it has ended, and is nowhere
                raise
