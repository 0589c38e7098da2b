"""The state of an emulated resctrl tree, as plain data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from evaluation.emulation.machine import EmulatedMachine

SHAREABLE, EXCLUSIVE = "shareable", "exclusive"


class RefusedError(Exception):
    """A command that the kernel refuses, with the errno and the new `last_cmd_status`.

    `status` None: `last_cmd_status` does not change.
    """

    def __init__(self, code: int, status: str | None = None) -> None:
        super().__init__(code, status)
        self.code = code
        self.status = status


@dataclass
class MonGroup:
    """A subset of a control group's threads that has its own counters."""

    rmid: int
    cpus: set[int] = field(default_factory=set)


@dataclass
class ControlGroup:
    """A class of service."""

    closid: int
    rmid: int
    values: dict[str, dict[int, int]]  # by resource and cache ID
    cpus: set[int] = field(default_factory=set)
    mode: str = SHAREABLE
    monitors: dict[str, MonGroup] = field(default_factory=dict)


@dataclass(frozen=True)
class Seat:
    """The groups of a thread. A thread without a seat is in the root."""

    group: str
    monitor: str  # empty: none
    born: int  # the start of the thread; differs if its TID was reused


@dataclass(frozen=True)
class Fault:
    """For tests: an operation that fails, in any process."""

    action: str  # read, write, make, remove
    path: str  # pattern with * and ?
    errno: int = 0
    status: str = ""
    vanish: bool = False  # no error: the group of the path is removed before the operation
    times: int = 1


@dataclass
class TreeData:
    """The whole state."""

    groups: dict[str, ControlGroup]  # the root by the empty name
    seats: dict[int, Seat] = field(default_factory=dict)
    io_alloc: dict[int, int] | None = None  # masks by cache ID; None: disabled
    max_threshold: int = 65536
    status: str = ""
    faults: list[Fault] = field(default_factory=list)

    @classmethod
    def mounted(cls, machine: EmulatedMachine) -> Self:
        """The state after mounting: everything belongs to the root."""
        values = {
            name: dict.fromkeys(cache.domains, cache.full) for name, cache in machine.caches.items()
        }
        if machine.throttle:
            values["MB"] = dict.fromkeys(machine.throttle.domains, machine.throttle.most)
        root = ControlGroup(0, 0, values, set(machine.all_cpus))
        return cls({"": root}, max_threshold=machine.max_threshold)

    def as_dict(self) -> dict[str, Any]:
        """As plain data for JSON, with lists for sets."""
        data = asdict(self)
        for group in data["groups"].values():
            for part in (group, *group["monitors"].values()):
                part["cpus"] = sorted(part["cpus"])
        return data

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Self:
        """Reads what `as_dict` gave."""
        return cls(
            groups={name: _control(group) for name, group in data["groups"].items()},
            seats={int(tid): Seat(**seat) for tid, seat in data["seats"].items()},
            io_alloc=None if data["io_alloc"] is None else _by_number(data["io_alloc"]),
            max_threshold=data["max_threshold"],
            status=data["status"],
            faults=[Fault(**fault) for fault in data["faults"]],
        )


def _control(data: Mapping[str, Any]) -> ControlGroup:
    return ControlGroup(
        closid=data["closid"],
        rmid=data["rmid"],
        values={name: _by_number(values) for name, values in data["values"].items()},
        cpus=set(data["cpus"]),
        mode=data["mode"],
        monitors={
            name: MonGroup(monitor["rmid"], set(monitor["cpus"]))
            for name, monitor in data["monitors"].items()
        },
    )


def _by_number(values: Mapping[Any, int]) -> dict[int, int]:
    return {int(key): value for key, value in values.items()}
