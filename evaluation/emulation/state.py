"""What an emulated resctrl tree remembers, as plain data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from evaluation.emulation.machine import EmulatedMachine

SHAREABLE, EXCLUSIVE = "shareable", "exclusive"


class RefusedError(Exception):
    """A command that the kernel would refuse: errno, and what `last_cmd_status` then says.

    `status` None: what it said before stays.
    """

    def __init__(self, code: int, status: str | None = None) -> None:
        super().__init__(code, status)
        self.code = code
        self.status = status


@dataclass
class MonGroup:
    """A part of a control group's threads that is counted apart."""

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
    """Where a thread is; who has none is in the root."""

    group: str
    monitor: str  # empty: in none
    born: int  # else another has its number by now


@dataclass(frozen=True)
class Fault:
    """For tests: what shall go wrong, in whichever process."""

    action: str  # read, write, make, remove
    path: str  # pattern with * and ?
    errno: int = 0
    status: str = ""
    vanish: bool = False  # the group that the path is in is gone instead, as if another removed it
    times: int = 1


@dataclass
class TreeData:
    """All of it."""

    groups: dict[str, ControlGroup]  # the root by the empty name
    seats: dict[int, Seat] = field(default_factory=dict)
    io_alloc: dict[int, int] | None = None  # masks by cache ID; None: disabled
    max_threshold: int = 65536
    status: str = ""
    faults: list[Fault] = field(default_factory=list)

    @classmethod
    def mounted(cls, machine: EmulatedMachine) -> Self:
        """As right after mounting: everything is the root's."""
        values = {
            name: dict.fromkeys(cache.domains, cache.full) for name, cache in machine.caches.items()
        }
        if machine.throttle:
            values["MB"] = dict.fromkeys(machine.throttle.domains, machine.throttle.most)
        root = ControlGroup(0, 0, values, set(machine.all_cpus))
        return cls({"": root}, max_threshold=machine.max_threshold)

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which knows no sets."""
        data = asdict(self)
        for group in data["groups"].values():
            for part in (group, *group["monitors"].values()):
                part["cpus"] = sorted(part["cpus"])
        return data

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Self:
        """What `as_dict` gave."""
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
            name: MonGroup(one["rmid"], set(one["cpus"])) for name, one in data["monitors"].items()
        },
    )


def _by_number(values: Mapping[Any, int]) -> dict[int, int]:
    return {int(key): value for key, value in values.items()}
