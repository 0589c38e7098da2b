"""The content of the files of an emulated resctrl tree, and its folders."""

import errno
from collections.abc import Iterable

from evaluation.emulation.machine import EmulatedMachine, GroupCounters, Question, Threads
from evaluation.emulation.rules import Rules, TreePlace, place_of
from evaluation.emulation.state import EXCLUSIVE, RefusedError, TreeData
from unis.isolate.schemata import format_values
from unis.isolate.tree import MON_GROUPS
from unis.plan.cpus import format_cpu_list

_WORD = 32  # bits of a mask of CPUs between two commas


class Files:
    """Reads `data` and changes nothing."""

    def __init__(
        self,
        machine: EmulatedMachine,
        data: TreeData,
        threads: Threads,
        counters: GroupCounters | None,
    ) -> None:
        self._machine = machine
        self._data = data
        self._threads = threads
        self._counters = counters

    def read(self, path: str) -> str:
        """The content of a file. RefusedError if it does not exist or cannot be read."""
        place = place_of(self._data, path)
        match place.rest:
            case ("info", *rest) if not place.group and not place.monitor:
                return self._info(rest)
            case ("mon_data", folder, event):
                return self._counter(place, folder, event)
            case ("tasks",):
                return "".join(f"{tid}\n" for tid in self.tasks(place))
            case ("cpus",):
                return cpu_mask(self._cpus(place), max(self._machine.all_cpus, default=0)) + "\n"
            case ("cpus_list",):
                return format_cpu_list(self._cpus(place)) + "\n"
            case (name,) if not place.monitor and name in ("schemata", "size", "mode"):
                return self._control(place.group, name)
        raise RefusedError(errno.ENOENT)

    def folders(self, path: str) -> list[str]:
        """The folders in a folder."""
        place = place_of(self._data, path)
        counted = bool(self._machine.rmids)
        match place.rest:
            case ():
                names = ["mon_data"] if counted else []
                if not place.monitor:
                    names += [MON_GROUPS] if counted else []
                if not place.group and not place.monitor:
                    names += ["info", *filter(None, self._data.groups)]
            case ("info",) if not place.group and not place.monitor:
                names = [*self._machine.caches, *(["MB"] if self._machine.throttle else [])]
                names += ["L3_MON"] if counted else []
            case ("mon_data",) if counted:
                names = [f"mon_L3_{domain:02}" for domain in self._machine.cpus]
            case ("mon_groups",) if counted and not place.monitor:
                names = list(self._data.groups[place.group].monitors)
            case _:
                raise RefusedError(errno.ENOENT)
        return sorted(names)

    def tasks(self, place: TreePlace) -> list[int]:
        """The living threads of a group; of a class also those of its MON groups."""
        rules = Rules(self._machine, self._data, self._threads)
        root = not place.group
        tids: Iterable[int] = (
            self._threads.all() if root and not place.monitor else self._data.seats
        )
        found = []
        for tid in tids:
            born = self._threads.born(tid)
            if born is None:
                continue
            seat = rules.seat(tid, born)
            if seat.group == place.group and (not place.monitor or seat.monitor == place.monitor):
                found.append(tid)
        return sorted(found)

    def _cpus(self, place: TreePlace) -> set[int]:
        group = self._data.groups[place.group]
        return group.monitors[place.monitor].cpus if place.monitor else group.cpus

    def _control(self, name: str, file: str) -> str:
        group = self._data.groups[name]
        if not group.values:  # a tree without allocation has neither
            raise RefusedError(errno.ENOENT)
        if file == "mode":
            return group.mode + "\n"
        width = max(map(len, group.values))
        lines = []
        for resource, values in group.values.items():
            cache = self._machine.caches.get(resource)
            if cache is None:
                text = format_values(values, masks=False)
            elif file == "schemata":
                text = format_values(values, masks=True)
            else:
                sizes = {
                    domain: mask.bit_count() * cache.way_bytes for domain, mask in values.items()
                }
                text = format_values(sizes, masks=False)
            lines.append(f"{resource:>{width}}:{text}\n")
        return "".join(lines)

    def _counter(self, place: TreePlace, folder: str, event: str) -> str:
        domain = folder.removeprefix("mon_L3_")
        known = domain.isdigit() and int(domain) in self._machine.cpus
        if not (self._machine.rmids and known and event in self._machine.events):
            raise RefusedError(errno.ENOENT)
        if self._counters is None:
            return "Unavailable\n"
        path = "/".join(
            [*filter(None, [place.group]), *([MON_GROUPS, place.monitor] if place.monitor else [])]
        )
        values = self._data.groups[place.group].values
        masks = values.get("L3", values.get("L3DATA", {}))
        question = Question(
            event, int(domain), path, frozenset(self.tasks(place)), masks.get(int(domain), 0)
        )
        counted = self._counters.read(question)
        return "Unavailable\n" if counted is None else f"{counted}\n"

    # ------------------------------------------------------------- info

    def _info(self, rest: list[str]) -> str:
        match rest:
            case ["last_cmd_status"]:
                return self._data.status or "ok\n"
            case ["MB", file]:
                return self._throttle(file)
            case ["L3_MON", file]:
                return self._monitoring(file)
            case [resource, file] if resource in self._machine.caches:
                return self._cache(resource, file)
        raise RefusedError(errno.ENOENT)

    def _cache(self, resource: str, file: str) -> str:
        cache = self._machine.caches[resource]
        plain = {
            "num_closids": str(cache.num_closids),
            "cbm_mask": f"{cache.full:x}",
            "min_cbm_bits": str(cache.min_bits),
            "shareable_bits": f"{cache.shareable:x}",
            "sparse_masks": str(int(cache.sparse)),
        }
        if file in plain:
            return plain[file] + "\n"
        if file == "bit_usage":
            usage = (f"{domain}={self._usage(resource, domain)}" for domain in cache.domains)
            return ";".join(usage) + "\n"
        # The file exists only if a cache of the machine supports it.
        if file in ("io_alloc", "io_alloc_cbm") and self._machine.l3 and self._machine.l3.io_alloc:
            enabled = self._data.io_alloc is not None
            if file == "io_alloc":
                if not cache.io_alloc:
                    return "not supported\n"
                return "enabled\n" if enabled else "disabled\n"
            if not cache.io_alloc:
                raise RefusedError(errno.ENODEV, f"io_alloc is not supported on {resource}\n")
            if self._data.io_alloc is None:
                raise RefusedError(errno.EINVAL, f"io_alloc is not enabled on {resource}\n")
            return format_values(self._data.io_alloc, masks=True) + "\n"
        raise RefusedError(errno.ENOENT)

    def _usage(self, resource: str, domain: int) -> str:
        cache = self._machine.caches[resource]
        hardware, shared, exclusive = cache.shareable, 0, 0
        if resource.startswith("L3") and self._data.io_alloc is not None:
            hardware |= self._data.io_alloc[domain]
        for group in self._data.groups.values():
            if group.mode == EXCLUSIVE:
                exclusive |= group.values[resource][domain]
            else:
                shared |= group.values[resource][domain]
        marks = []
        for bit in reversed(range(cache.ways)):
            by_hardware, by_software = hardware >> bit & 1, shared >> bit & 1
            if by_hardware:
                marks.append("X" if by_software else "H")
            elif by_software:
                marks.append("S")
            else:
                marks.append("E" if exclusive >> bit & 1 else "0")
        return "".join(marks)

    def _throttle(self, file: str) -> str:
        throttle = self._machine.throttle
        if throttle is None:
            raise RefusedError(errno.ENOENT)
        plain = {
            "num_closids": throttle.closids,
            "min_bandwidth": throttle.least,
            "bandwidth_gran": throttle.step,
            "delay_linear": int(throttle.linear),
        }
        if file not in plain:
            raise RefusedError(errno.ENOENT)
        return f"{plain[file]}\n"

    def _monitoring(self, file: str) -> str:
        if not self._machine.rmids:
            raise RefusedError(errno.ENOENT)
        match file:
            case "num_rmids":
                return f"{self._machine.rmids}\n"
            case "mon_features":
                return "".join(f"{event}\n" for event in self._machine.events)
            case "max_threshold_occupancy":
                return f"{self._data.max_threshold}\n"
        raise RefusedError(errno.ENOENT)


def cpu_mask(cpus: Iterable[int], highest: int) -> str:
    """Words of 32 bits with commas, the highest first."""
    mask = sum(1 << cpu for cpu in cpus)
    words = highest // _WORD + 1
    parts = [mask >> _WORD * word & 0xFFFFFFFF for word in reversed(range(words))]
    digits = min(8, highest % _WORD // 4 + 1)
    return ",".join(f"{part:0{8 if index else digits}x}" for index, part in enumerate(parts))


def parse_cpu_mask(text: str) -> frozenset[int]:
    """The CPUs of such a mask. ValueError if it is invalid."""
    mask = int(text.strip().replace(",", ""), 16)
    return frozenset(bit for bit in range(mask.bit_length()) if mask >> bit & 1)
