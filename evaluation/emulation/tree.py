"""An emulation of resctrl: the kernel's rules without the hardware.

For plans, agents and tests on machines without cache allocation. The masks have no effect, so
everything that shows the tree must say that it is emulated (`Tree.emulated`). The state is in a
folder: like the kernel's it outlives processes, and several processes may use it.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from evaluation.emulation.files import Files, parse_cpu_mask
from evaluation.emulation.machine import EmulatedMachine, GroupCounters, ProcThreads, Threads
from evaluation.emulation.rules import Rules, place_of
from evaluation.emulation.state import Fault, RefusedError, TreeData
from unis.isolate.tree import NoTreeError, TreeError
from unis.plan.cpus import parse_cpu_list

_STATE, _LOCK = "tree.json", "lock"
_FORMAT = 1


@dataclass
class _Open:
    """A tree while its lock is held."""

    machine: EmulatedMachine
    data: TreeData


class EmulatedTree:
    """The tree in `folder`. `machine`: of a new tree.

    NoTreeError if the state cannot be read, or is of another machine.
    """

    emulated = True

    def __init__(
        self,
        folder: Path,
        machine: EmulatedMachine | None = None,
        threads: Threads | None = None,
        counters: GroupCounters | None = None,
    ) -> None:
        self._folder = folder
        self._threads = threads or ProcThreads()
        self._counters = counters
        self._new = machine
        with self._opened() as tree:
            if machine is not None and tree.machine != machine:
                raise NoTreeError(
                    f"{folder} has an emulated resctrl of another machine: use another folder, or "
                    "remove it"
                )

    @property
    def label(self) -> str:
        """The name of the tree in messages."""
        return f"emulated resctrl in {self._folder}"

    @property
    def machine(self) -> EmulatedMachine:
        """The emulated machine."""
        with self._opened() as tree:
            return tree.machine

    def options(self) -> frozenset[str]:
        """The mount options."""
        machine = self.machine
        given = {
            "cdp": machine.l3 is not None and machine.l3.cdp,
            "cdpl2": machine.l2 is not None and machine.l2.cdp,
            "mba_MBps": machine.throttle is not None and machine.throttle.mibps,
        }
        return frozenset(name for name, enabled in given.items() if enabled)

    def read(self, path: str) -> str:
        """The content of a file."""
        with self._opened() as tree, self._errors_as_tree_errors(tree, f"read {path}"):
            self._inject_fault(tree, "read", path)
            return self._files(tree).read(path)

    def folders(self, path: str) -> list[str]:
        """The folders in a folder."""
        with (
            self._opened() as tree,
            self._errors_as_tree_errors(tree, f"list {path or 'the root'}"),
        ):
            return self._files(tree).folders(path)

    def make(self, path: str) -> None:
        """Makes a group."""
        with self._command(f"make the group {path}") as tree:
            self._inject_fault(tree, "make", path)
            self._rules(tree).make(path)

    def remove(self, path: str) -> None:
        """Removes a group."""
        with self._command(f"remove the group {path}") as tree:
            self._inject_fault(tree, "remove", path)
            self._rules(tree).remove(path)

    def write(self, path: str, text: str) -> None:
        """Writes to a file."""
        with self._command(f"write {text.strip()!r} to {path}") as tree:
            self._inject_fault(tree, "write", path)
            self._write(tree, path, text)

    def inject(self, *faults: Fault) -> None:
        """Adds faults, for all processes that use the folder."""
        with self._opened() as tree:
            tree.data.faults += faults
            self._save(tree)

    def heal(self) -> None:
        """Removes all faults."""
        with self._opened() as tree:
            tree.data.faults.clear()
            self._save(tree)

    # ------------------------------------------------------------- commands

    def _write(self, tree: _Open, path: str, text: str) -> None:
        rules, place = self._rules(tree), place_of(tree.data, path)
        match place.rest:
            case ("schemata",) if not place.monitor:
                rules.write_schemata(tree.data.groups[place.group], text)
            case ("mode",) if not place.monitor:
                rules.write_mode(tree.data.groups[place.group], text)
            case ("tasks",):
                rules.write_tasks(place, text)
            case ("cpus" | "cpus_list" as file,):
                parse = parse_cpu_list if file == "cpus_list" else parse_cpu_mask
                try:
                    cpus = parse(text)
                except ValueError:
                    cpus = None
                rules.write_cpus(place, cpus)
            case ("info", resource, "io_alloc"):
                self._files(tree).read(path)  # it must exist
                rules.write_io_alloc(resource, text)
            case ("info", resource, "io_alloc_cbm"):
                self._files(tree).read(f"info/{resource}/io_alloc")
                rules.write_io_alloc_cbm(resource, text)
            case ("info", "L3_MON", "max_threshold_occupancy"):
                if not text.strip().isdigit():
                    raise RefusedError(errno.EINVAL)
                tree.data.max_threshold = int(text)
            case _:
                self._files(tree).read(path)
                raise RefusedError(errno.EACCES)

    def _inject_fault(self, tree: _Open, action: str, path: str) -> None:
        for index, fault in enumerate(tree.data.faults):
            if fault.action != action or not fnmatchcase(path, fault.path):
                continue
            left = [replace(fault, times=fault.times - 1)] if fault.times > 1 else []
            tree.data.faults[index : index + 1] = left
            self._save(tree)
            if not fault.vanish:
                raise RefusedError(fault.errno, fault.status)
            group = place_of(tree.data, path).group
            if group:
                self._rules(tree).remove(group)
                self._save(tree)
            return

    def _rules(self, tree: _Open) -> Rules:
        return Rules(tree.machine, tree.data, self._threads)

    def _files(self, tree: _Open) -> Files:
        return Files(tree.machine, tree.data, self._threads, self._counters)

    @contextmanager
    def _command(self, action: str) -> Iterator[_Open]:
        """Runs a command, and saves what it changed.

        A refused list of threads keeps the threads that were moved before the refusal.
        """
        with self._opened() as tree, self._errors_as_tree_errors(tree, action):
            yield tree
            tree.data.status = ""
            self._save(tree)

    @contextmanager
    def _errors_as_tree_errors(self, tree: _Open, action: str) -> Iterator[None]:
        try:
            yield
        except RefusedError as refused:
            if refused.status is not None:
                tree.data.status = refused.status
                self._save(tree)
            raise TreeError(self.label, action, refused.code, refused.status or "") from None

    # ------------------------------------------------------------- the folder

    @contextmanager
    def _opened(self) -> Iterator[_Open]:
        """The tree, locked against other processes."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NoTreeError(f"{self.label}: cannot use it: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield self._load()
        finally:
            os.close(handle)

    def _load(self) -> _Open:
        try:
            text = (self._folder / _STATE).read_text()
        except FileNotFoundError:
            machine = self._new or EmulatedMachine()
            return _Open(machine, TreeData.mounted(machine))
        except OSError as error:
            raise NoTreeError(f"{self.label}: cannot read it: {error.strerror}") from None
        try:
            content = json.loads(text)
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']}")
            return _Open(EmulatedMachine.parse(content["machine"]), TreeData.parse(content["tree"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NoTreeError(
                f"{self.label} is damaged ({error}): remove the folder; only the emulation uses it"
            ) from None

    def _save(self, tree: _Open) -> None:
        """Saves atomically: a killed process leaves the old or the new state."""
        content = {
            "format": _FORMAT,
            "machine": tree.machine.as_dict(),
            "tree": tree.data.as_dict(),
        }
        temporary = self._folder / f".{_STATE}.{os.getpid()}"
        try:
            temporary.write_text(json.dumps(content))
            temporary.replace(self._folder / _STATE)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise NoTreeError(f"{self.label}: cannot write it: {error.strerror}") from None


def emulates(folder: Path) -> bool:
    """Whether the folder has the saved state of an emulated tree."""
    return (folder / _STATE).exists()
