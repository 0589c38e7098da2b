"""The kernel's rules for resctrl, and its `last_cmd_status` if a command breaks a rule.

Taken from Linux' fs/resctrl/rdtgroup.c and ctrlmondata.c (6.18; `io_alloc`: 6.19) and of
Documentation/filesystems/resctrl.rst. Not emulated: pseudo-locking, RMIDs in limbo, and that a new
thread is in the group of its parent.
"""

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from evaluation.emulation.machine import EmulatedCache, EmulatedMachine, Threads
from evaluation.emulation.state import (
    EXCLUSIVE,
    SHAREABLE,
    ControlGroup,
    MonGroup,
    RefusedError,
    Seat,
    TreeData,
)
from unis.isolate.masks import is_valid, mask_of, runs
from unis.isolate.tree import MON_GROUPS, RESERVED

_IO_CLASS = -1  # the CLOSID of `io_alloc`


@dataclass(frozen=True)
class TreePlace:
    """The parts of a path."""

    group: str  # the root's is empty
    monitor: str  # empty: the control group itself
    rest: tuple[str, ...]  # file or folder in it


def place_of(data: TreeData, path: str) -> TreePlace:
    """Splits a path. RefusedError (ENOENT) if its group does not exist."""
    parts = [part for part in path.split("/") if part]
    group = ""
    if parts and parts[0] not in RESERVED and (len(parts) > 1 or parts[0] in data.groups):
        group = parts.pop(0)
        if group not in data.groups:
            raise RefusedError(errno.ENOENT)
    if len(parts) > 1 and parts[0] == MON_GROUPS:
        if parts[1] not in data.groups[group].monitors:
            raise RefusedError(errno.ENOENT)
        return TreePlace(group, parts[1], tuple(parts[2:]))
    return TreePlace(group, "", tuple(parts))


class Rules:
    """Changes `data` as the kernel would, or raises RefusedError and changes only the status."""

    def __init__(self, machine: EmulatedMachine, data: TreeData, threads: Threads) -> None:
        self._machine = machine
        self._data = data
        self._threads = threads

    # ------------------------------------------------------------- groups

    def make(self, path: str) -> None:
        """mkdir."""
        parent, _, name = path.rpartition("/")
        if "\n" in name:
            raise RefusedError(errno.EINVAL)
        if not parent:
            self._make_control(name)
            return
        place = place_of(self._data, parent)
        if place.rest and (
            place.rest[0] not in RESERVED or (place.monitor and place.rest[0] == MON_GROUPS)
        ):
            raise RefusedError(errno.ENOENT)
        if place.rest[:1] == ("info",):
            raise RefusedError(errno.ENODEV)
        if place.rest != (MON_GROUPS,) or name == MON_GROUPS:
            raise RefusedError(errno.EPERM, "")
        self._make_monitor(self._data.groups[place.group], name)

    def _make_control(self, name: str) -> None:
        if name in self._data.groups or name in RESERVED:
            raise RefusedError(errno.EEXIST)
        if not self._machine.num_closids:
            raise RefusedError(errno.EPERM, "")
        used = {group.closid for group in self._data.groups.values()}
        if self._data.io_alloc is not None:
            used.add(self.io_closid())
        free = [closid for closid in range(self._machine.num_closids) if closid not in used]
        if not free:
            self._refuse("Out of CLOSIDs\n", errno.ENOSPC)
        rmid = self._new_rmid()
        values = {
            resource: {domain: self._usable(resource, domain) for domain in cache.domains}
            for resource, cache in self._machine.caches.items()
        }
        if throttle := self._machine.throttle:
            most = (1 << 32) - 1 if throttle.mibps else throttle.most
            values["MB"] = dict.fromkeys(throttle.domains, most)
        self._data.groups[name] = ControlGroup(free[0], rmid, values)

    def _make_monitor(self, group: ControlGroup, name: str) -> None:
        if not self._machine.rmids:
            raise RefusedError(errno.ENOENT)
        if name in group.monitors:
            raise RefusedError(errno.EEXIST)
        group.monitors[name] = MonGroup(self._new_rmid())

    def _new_rmid(self) -> int:
        if not self._machine.rmids:
            return 0
        used = {group.rmid for group in self._data.groups.values()} | {
            monitor.rmid
            for group in self._data.groups.values()
            for monitor in group.monitors.values()
        }
        free = [rmid for rmid in range(self._machine.rmids) if rmid not in used]
        if not free:
            self._refuse("Out of RMIDs\n", errno.ENOSPC)
        return free[0]

    def remove(self, path: str) -> None:
        """rmdir: threads and CPUs of a class go to the root, those of a MON group to its class."""
        place = place_of(self._data, path)
        if place.rest:
            raise RefusedError(errno.EPERM if place.rest[0] in RESERVED else errno.ENOENT)
        if not (place.group or place.monitor):
            raise RefusedError(errno.EBUSY)
        group, seats = self._data.groups[place.group], self._data.seats
        inside = [
            (tid, seat)
            for tid, seat in seats.items()
            if seat.group == place.group and (not place.monitor or seat.monitor == place.monitor)
        ]
        if place.monitor:
            del group.monitors[place.monitor]
            for tid, seat in inside:
                seats[tid] = Seat(place.group, "", seat.born)
            return
        self._data.groups[""].cpus |= group.cpus
        del self._data.groups[place.group]
        for tid, _ in inside:
            del seats[tid]

    # ------------------------------------------------------------- schemata

    def write_schemata(self, group: ControlGroup, text: str) -> None:
        """Applies all lines, or none."""
        staged: dict[tuple[str, int], int] = {}
        for line in self._body(text).split("\n"):
            name, colon, values = line.partition(":")
            resource = name.strip()
            if not colon:
                self._refuse("Missing ':'\n")
            if not values:
                self._refuse(f"Missing '{resource}' value\n")
            if resource not in group.values:
                self._refuse(f"Unknown or unsupported resource name '{resource}'\n")
            for domain, value in self._parts(values):
                if domain not in group.values[resource]:
                    self._refuse("")
                if (resource, domain) in staged:
                    self._refuse(f"Duplicate domain {domain}\n")
                staged[resource, domain] = (
                    self._bandwidth(value)
                    if resource == "MB"
                    else self._mask(resource, domain, value, group.closid, group.mode)
                )
        for (resource, domain), number in staged.items():
            group.values[resource][domain] = number

    def _parts(self, text: str) -> Iterator[tuple[int, str]]:
        rest = text
        while rest:
            part, _, rest = rest.partition(";")
            domain, equals, value = part.partition("=")
            if not equals or not (domain.isascii() and domain.isdigit()):
                self._refuse("Missing '=' or non-numeric domain\n")
            yield int(domain), value.strip()

    def _bandwidth(self, text: str) -> int:
        throttle = self._machine.throttle
        if throttle is None:
            raise RefusedError(errno.EINVAL, "")
        if not throttle.linear:
            self._refuse("No support for non-linear MB domains\n")
        if not (text.isascii() and text.isdigit() and int(text) < 1 << 32):
            self._refuse(f"Invalid MB value {text}\n")
        value = int(text)
        if throttle.mibps:
            return value
        if not throttle.least <= value <= throttle.most:
            self._refuse(f"MB value {value} out of range [{throttle.least},{throttle.most}]\n")
        return -(-value // throttle.step) * throttle.step

    def _mask(self, resource: str, domain: int, text: str, closid: int, mode: str) -> int:
        cache = self._machine.caches[resource]
        try:
            mask = int(text, 16)
        except ValueError:
            self._refuse(f"Non-hex character in the mask {text}\n")
        if (cache.min_bits > 0 and mask == 0) or not 0 <= mask <= cache.full:
            self._refuse("Mask out of range\n")
        if mask and not cache.sparse and not is_valid(mask):
            self._refuse(f"The mask {mask:x} has non-consecutive 1-bits\n")
        if mask and next(runs(mask))[1] < cache.min_bits:
            self._refuse(f"Need at least {cache.min_bits} bits in the mask\n")
        if self._overlaps(resource, domain, mask, closid, exclusive=True):
            self._refuse("Overlaps with exclusive group\n")
        if mode == EXCLUSIVE and self._overlaps(resource, domain, mask, closid, exclusive=False):
            self._refuse("Overlaps with other group\n")
        return mask

    def _peers(self, resource: str) -> list[str]:
        """The halves of a cache under CDP share its ways."""
        stem = resource.removesuffix("CODE").removesuffix("DATA")
        return [name for name in self._machine.caches if name.startswith(stem)]

    def _masks(self, resource: str, domain: int, but: int) -> Iterator[tuple[str, int]]:
        """Mode and masks of all classes except the CLOSID `but`; I/O has an empty mode.

        Under CDP both halves of each class.
        """
        for group in self._data.groups.values():
            if group.closid != but:
                for peer in self._peers(resource):
                    yield group.mode, group.values[peer][domain]
        if resource.startswith("L3") and self._data.io_alloc is not None and but != _IO_CLASS:
            yield "", self._data.io_alloc[domain]

    def _overlaps(
        self, resource: str, domain: int, mask: int, closid: int, *, exclusive: bool
    ) -> bool:
        if not exclusive and mask & self._machine.caches[resource].shareable:
            return True
        return any(
            mask & other and (mode == EXCLUSIVE or not exclusive)
            for mode, other in self._masks(resource, domain, closid)
        )

    def _usable(self, resource: str, domain: int, closid: int = -2) -> int:
        """The mask of a new class: the first contiguous ways that are shared or unused."""
        cache = self._machine.caches[resource]
        used = shared = cache.shareable
        for mode, mask in self._masks(resource, domain, closid):
            used |= mask
            shared |= mask if mode == SHAREABLE else 0
        first = next(runs(shared | (cache.full & ~used)), None)
        if first is None or first[1] < cache.min_bits:
            self._refuse(f"No space on {resource}:{domain}\n", errno.ENOSPC)
        return mask_of(*first)

    # ------------------------------------------------------------- mode

    def write_mode(self, group: ControlGroup, text: str) -> None:
        """Shareable; or exclusive, if neither another class nor hardware uses its ways."""
        wanted = self._body(text)
        if wanted == group.mode:
            return
        if wanted not in (SHAREABLE, EXCLUSIVE):
            self._refuse("Unknown or unsupported mode\n")
        if wanted == EXCLUSIVE:
            caches = self._machine.caches
            if not caches:
                self._refuse("Cannot be exclusive without CAT/CDP\n")
            for resource, cache in caches.items():
                for domain in cache.domains:
                    mask = group.values[resource][domain]
                    if self._overlaps(resource, domain, mask, group.closid, exclusive=False):
                        self._refuse("Schemata overlaps\n")
        group.mode = wanted

    # ------------------------------------------------------------- threads

    def write_tasks(self, place: TreePlace, text: str) -> None:
        """Moves the threads one by one, up to the first that cannot be moved."""
        for word in filter(None, text.split("\n")[0].split(",")):
            try:
                tid = int(word, 0)
            except ValueError:
                self._refuse(f"Task list parsing error pid {word.strip()}\n")
            if tid < 0:
                self._refuse(f"Invalid pid {tid}\n")
            failed = f"Error while processing task {tid}\n"
            born = self._threads.born(tid)
            if born is None:
                self._refuse(f"No task {tid}\n{failed}", errno.ESRCH)
            if place.monitor and self.seat(tid, born).group != place.group:
                self._refuse(f"Can't move task to different control group\n{failed}")
            if place.group or place.monitor:
                self._data.seats[tid] = Seat(place.group, place.monitor, born)
            else:
                self._data.seats.pop(tid, None)

    def seat(self, tid: int, born: int) -> Seat:
        """The groups of a living thread."""
        seat = self._data.seats.get(tid)
        return seat if seat and seat.born == born else Seat("", "", born)

    # ------------------------------------------------------------- CPUs

    def write_cpus(self, place: TreePlace, cpus: frozenset[int] | None) -> None:
        """Assigns CPUs; None: the text was invalid."""
        if cpus is None:
            self._refuse("Bad CPU list/mask\n")
        if not cpus <= self._machine.all_cpus:
            self._refuse("Can only assign online CPUs\n")
        group, root = self._data.groups[place.group], self._data.groups[""]
        if place.monitor:
            self._write_monitor_cpus(group, place.monitor, cpus)
            return
        dropped = group.cpus - cpus
        if dropped and group is root:
            self._refuse("Can't drop CPUs from default group\n")
        root.cpus |= dropped
        for other in self._data.groups.values():
            if other is not group:
                other.cpus -= cpus
                for monitor in other.monitors.values():
                    monitor.cpus &= other.cpus
        group.cpus = set(cpus)
        for monitor in group.monitors.values():
            monitor.cpus.clear()

    def _write_monitor_cpus(self, group: ControlGroup, name: str, cpus: frozenset[int]) -> None:
        if not cpus <= group.cpus:
            self._refuse("Can only add CPUs to mongroup that belong to parent\n")
        for other, monitor in group.monitors.items():
            if other != name:
                monitor.cpus -= cpus
        group.monitors[name].cpus = set(cpus)

    # ------------------------------------------------------------- I/O

    def io_closid(self) -> int:
        """AMD gives I/O the highest class of the L3."""
        return self._machine.l3.num_closids - 1 if self._machine.l3 else -1

    def write_io_alloc(self, resource: str, text: str) -> None:
        """Enables or disables I/O allocation."""
        word = text.strip().lower()
        if word[:1] not in ("0", "1", "y", "n"):
            raise RefusedError(errno.EINVAL)
        enable = word[:1] in ("1", "y")
        cache = self._io_cache(resource)
        if enable == (self._data.io_alloc is not None):
            return
        if not enable:
            self._data.io_alloc = None
            return
        closid = self.io_closid()
        if closid >= self._machine.num_closids:
            self._refuse(f"io_alloc CLOSID (ctrl_hw_id) {closid} is not available\n")
        for name, group in self._data.groups.items():
            if group.closid == closid:
                self._refuse(
                    f"CLOSID (ctrl_hw_id) {closid} for io_alloc is used by {name} group\n",
                    errno.ENOSPC,
                )
        self._data.io_alloc = {
            domain: self._usable(resource, domain, _IO_CLASS) for domain in cache.domains
        }

    def write_io_alloc_cbm(self, resource: str, text: str) -> None:
        """The ways that devices fill."""
        body = self._body(text)
        cache = self._io_cache(resource)
        if self._data.io_alloc is None:
            self._refuse(f"io_alloc is not enabled on {resource}\n")
        staged: dict[int, int] = {}
        for domain, value in self._parts(body):
            if domain not in cache.domains:
                self._refuse("")
            if domain in staged:
                self._refuse(f"Duplicate domain {domain}\n")
            staged[domain] = self._mask(resource, domain, value, _IO_CLASS, SHAREABLE)
        self._data.io_alloc |= staged

    def _io_cache(self, resource: str) -> EmulatedCache:
        cache = self._machine.caches[resource]
        if not cache.io_alloc:
            self._refuse(f"io_alloc is not supported on {resource}\n", errno.ENODEV)
        return cache

    # ------------------------------------------------------------- words

    def _body(self, text: str) -> str:
        """A command without its newline. RefusedError if there is none."""
        if not text.endswith("\n"):
            raise RefusedError(errno.EINVAL)
        return text[:-1]

    def _refuse(self, status: str, code: int = errno.EINVAL) -> NoReturn:
        raise RefusedError(code, status)
