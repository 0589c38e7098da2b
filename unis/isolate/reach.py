"""A tree is brought from what it is to what it shall be, whichever way that is: forth or back.

The order, so that no thread is ever without a valid class and no two classes overlap on the way
if that can be helped: threads that leave us go first; groups that are to go, go; masks shrink,
then grow (`order`); new groups get their masks while nobody is in them; then threads move in.
"""

import errno
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from unis.isolate.info import IO_ALLOC_ENABLED, CacheInfo, CacheResource, read_info
from unis.isolate.order import writes
from unis.isolate.record import EXCLUSIVE, SHAREABLE, GroupState, TreeState, read_group, read_seats
from unis.isolate.schemata import changes, format_lines, format_values
from unis.isolate.tree import MON_GROUPS, Tree, TreeError, control_groups, inside
from unis.isolate.wants import GROUP_PREFIX

_IO = "\0io"  # among the names of groups, the class of I/O


def reach(
    tree: Tree,
    wanted: TreeState,
    gone: Collection[str] = (),
    problems: list[str] | None = None,
) -> list[str]:
    """Makes groups, masks, modes and places of threads as `wanted`; the groups `gone` are removed,
    and no other group is touched. What is so already is not written.

    Raises the first TreeError; with a list of `problems` notes it there and goes on with the rest.
    Returns sentences that are no errors: masks that had to overlap for a moment.
    """
    way = _Way(tree, wanted, frozenset(gone), problems)
    way.walk()
    return way.told


class _Way:
    def __init__(
        self, tree: Tree, wanted: TreeState, gone: frozenset[str], problems: list[str] | None
    ) -> None:
        self._tree = tree
        self._wanted = wanted
        self._gone = gone
        self._problems = problems
        self.told: list[str] = []

    def walk(self) -> None:
        there = {"", *control_groups(self._tree)}
        info = read_info(self._tree)
        ours = set(self._wanted.groups)
        with self._going_on():
            self._seat({t: at for t, at in self._wanted.seats.items() if _class(at) not in ours})
        for name in sorted(self._gone & there):
            with self._going_on():
                self._tree.remove(name)
        stay = {name: read_group(self._tree, name) for name in sorted(ours & there)}
        for name, state in stay.items():
            if state.mode == EXCLUSIVE and self._changes(name, state):
                with self._going_on():
                    self._tree.write(inside(name, "mode"), f"{SHAREABLE}\n")
        self._switch_io(info)
        self._move_masks(stay)
        for name in sorted(ours - there):
            with self._going_on():
                self._tree.make(name)
        for name in sorted(ours):
            with self._going_on():
                self._finish(name)
        for name in sorted(ours):  # once no mask is in the way of another
            with self._going_on():
                self._set_mode(name)
        self._seat(self._wanted.seats)
        self._remove_monitors()

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        try:
            yield
        except TreeError as error:
            if self._problems is None:
                raise
            self._problems.append(str(error))

    def _changes(self, name: str, state: GroupState) -> bool:
        wanted = self._wanted.groups[name]
        return wanted.mode != state.mode or bool(changes(state.schemata, wanted.schemata))

    # ------------------------------------------------------------- masks

    def _move_masks(self, stay: Mapping[str, GroupState]) -> None:
        info = read_info(self._tree)
        for level in ("L3", "L2"):
            resources = info.of_level(level)
            for domain in resources[0].domains if resources else ():
                with self._going_on():
                    self._move(stay, resources, domain)

    def _move(
        self, stay: Mapping[str, GroupState], resources: tuple[CacheResource, ...], domain: int
    ) -> None:
        """Of one cache; where code and data differ, each half by itself."""
        halves = [resource.name for resource in resources]
        io = self._io_masks(resources, domain)
        spare = self._spare(resources, domain, stay)
        least = max(resource.least for resource in resources)
        alike = all(
            len({of.schemata.get(half, {}).get(domain) for half in halves}) == 1
            for of in (*stay.values(), *(self._wanted.groups[name] for name in stay))
        )
        for part in [halves] if alike else [[half] for half in halves]:
            now = {_IO: io[0]} if io else {}
            then = {_IO: io[1]} if io else {}
            for name, state in stay.items():
                mask = self._wanted.groups[name].schemata.get(part[0], {}).get(domain)
                now[name] = state.schemata[part[0]][domain]
                then[name] = now[name] if mask is None else mask
            for write in writes(now, then, least, spare):
                if write.overlaps:
                    self._permit_overlaps(stay)
                values = {domain: write.mask}
                if write.name == _IO:
                    text = format_values(values, masks=True) + "\n"
                    self._tree.write(f"info/{part[0]}/io_alloc_cbm", text)
                else:
                    self._tree.write(
                        inside(write.name, "schemata"),
                        format_lines(dict.fromkeys(part, values)),
                    )
                if write.overlaps:
                    self.told.append(
                        f"{_called(write.name)} overlapped another class for a moment: no way "
                        f"of {part[0]} {domain} was free"
                    )

    def _permit_overlaps(self, stay: Mapping[str, GroupState]) -> None:
        for name, state in stay.items():
            if state.mode == EXCLUSIVE:
                self._tree.write(inside(name, "mode"), f"{SHAREABLE}\n")

    def _io_masks(
        self, resources: tuple[CacheResource, ...], domain: int
    ) -> tuple[int, int] | None:
        """What I/O has and shall have, where both are known."""
        first = resources[0]
        wanted = self._wanted.io_alloc.get(first.name)
        if not wanted or domain not in wanted or domain not in first.io_alloc_cbm:
            return None
        return first.io_alloc_cbm[domain], wanted[domain]

    def _spare(
        self,
        resources: tuple[CacheResource, ...],
        domain: int,
        stay: Mapping[str, GroupState],
    ) -> int:
        """Ways that are nobody else's."""
        spare = resources[0].cbm_mask
        for resource in resources:
            spare &= ~(resource.shareable_bits | resource.io_alloc_cbm.get(domain, 0))
        for name in control_groups(self._tree):
            if name not in stay:
                schemata = read_group(self._tree, name).schemata
                for resource in resources:
                    spare &= ~schemata.get(resource.name, {}).get(domain, 0)
        return spare

    def _switch_io(self, info: CacheInfo) -> None:
        for name, masks in self._wanted.io_alloc.items():
            wanted = masks is not None
            if wanted != (info.caches[name].io_alloc == IO_ALLOC_ENABLED):
                with self._going_on():
                    self._tree.write(f"info/{name}/io_alloc", f"{wanted:d}\n")
                return  # code and data of one cache have it together

    # ------------------------------------------------------------- groups

    def _finish(self, name: str) -> None:
        """What of a group is not so yet: bandwidth, of a new one the masks, MON groups."""
        wanted, now = self._wanted.groups[name], read_group(self._tree, name)
        if left := changes(now.schemata, wanted.schemata):
            self._tree.write(inside(name, "schemata"), format_lines(left))
        missing = {*wanted.monitors} - {*now.monitors} if name else ()  # the root's are others'
        for monitor in sorted(missing):
            self._tree.make(inside(name, f"{MON_GROUPS}/{monitor}"))

    def _set_mode(self, name: str) -> None:
        mode = self._wanted.groups[name].mode
        if mode != self._tree.read(inside(name, "mode")).strip():
            self._tree.write(inside(name, "mode"), f"{mode}\n")

    def _remove_monitors(self) -> None:
        """Ours, of our groups; nobody whose place is known is in them any more."""
        for name, wanted in sorted(self._wanted.groups.items()):
            with self._going_on():
                for monitor in read_group(self._tree, name).monitors if name else ():
                    if monitor not in wanted.monitors and monitor.startswith(GROUP_PREFIX):
                        self._tree.remove(inside(name, f"{MON_GROUPS}/{monitor}"))

    # ------------------------------------------------------------- threads

    def _seat(self, seats: Mapping[int, str]) -> None:
        if not seats:
            return
        now = read_seats(self._tree, ["", *control_groups(self._tree)])
        for tid, place in sorted(seats.items()):
            at = now.get(tid, "")
            if at == place:
                continue
            with self._going_on():
                if _class(place) != place and _class(at) != _class(place):
                    self._move_thread(tid, _class(place))
                self._move_thread(tid, place)

    def _move_thread(self, tid: int, place: str) -> None:
        try:
            self._tree.write(inside(place, "tasks"), f"{tid}\n")
        except TreeError as error:
            if error.errno != errno.ESRCH:  # it has ended, and is nowhere
                raise


def _class(place: str) -> str:
    """The control group of a place for threads."""
    first, _, _ = place.partition("/")
    return "" if first == MON_GROUPS else first


def _called(name: str) -> str:
    return "I/O" if name == _IO else name or "the root"
