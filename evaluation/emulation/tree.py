"""An emulation of resctrl: the kernel's rules without its hardware.

Nothing obeys the masks. What it is for: plans, agents and tests where the machine has no cache
allocation; whoever shows something of it says so (`Tree.emulated`). Its state is in a folder, so
that it outlives a process as the kernel's does, and several processes may use it at once.
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
    """Below `folder`; of `machine` where there is none yet.

    NoTreeError where what is there cannot be read, or is of another machine.
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
        """Says what it is."""
        return f"emulated resctrl in {self._folder}"

    @property
    def machine(self) -> EmulatedMachine:
        """What it emulates."""
        with self._opened() as tree:
            return tree.machine

    def options(self) -> frozenset[str]:
        """As if it were mounted so."""
        machine = self.machine
        given = {
            "cdp": machine.l3 is not None and machine.l3.cdp,
            "cdpl2": machine.l2 is not None and machine.l2.cdp,
            "mba_MBps": machine.throttle is not None and machine.throttle.mibps,
        }
        return frozenset(name for name, on in given.items() if on)

    def read(self, path: str) -> str:
        """A file."""
        with self._opened() as tree, self._told(tree, f"read {path}"):
            self._suffer(tree, "read", path)
            return self._files(tree).read(path)

    def folders(self, path: str) -> list[str]:
        """The folders in a folder."""
        with self._opened() as tree, self._told(tree, f"list {path or 'the root'}"):
            return self._files(tree).folders(path)

    def make(self, path: str) -> None:
        """A new group."""
        with self._command(f"make the group {path}") as tree:
            self._suffer(tree, "make", path)
            self._rules(tree).make(path)

    def remove(self, path: str) -> None:
        """A group goes."""
        with self._command(f"remove the group {path}") as tree:
            self._suffer(tree, "remove", path)
            self._rules(tree).remove(path)

    def write(self, path: str, text: str) -> None:
        """A command."""
        with self._command(f"write {text.strip()!r} to {path}") as tree:
            self._suffer(tree, "write", path)
            self._write(tree, path, text)

    def inject(self, *faults: Fault) -> None:
        """Lets things go wrong from now on, for whoever uses the folder."""
        with self._opened() as tree:
            tree.data.faults += faults
            self._save(tree)

    def heal(self) -> None:
        """No fault is left."""
        with self._opened() as tree:
            tree.data.faults.clear()
            self._save(tree)

    # ------------------------------------------------------------- commands

    def _write(self, tree: _Open, path: str, text: str) -> None:
        rules, at = self._rules(tree), place_of(tree.data, path)
        match at.rest:
            case ("schemata",) if not at.monitor:
                rules.write_schemata(tree.data.groups[at.group], text)
            case ("mode",) if not at.monitor:
                rules.write_mode(tree.data.groups[at.group], text)
            case ("tasks",):
                rules.write_tasks(at, text)
            case ("cpus" | "cpus_list" as file,):
                parse = parse_cpu_list if file == "cpus_list" else parse_cpu_mask
                try:
                    cpus = parse(text)
                except ValueError:
                    cpus = None
                rules.write_cpus(at, cpus)
            case ("info", resource, "io_alloc"):
                self._files(tree).read(path)  # it has to be there
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

    def _suffer(self, tree: _Open, action: str, path: str) -> None:
        for at, fault in enumerate(tree.data.faults):
            if fault.action != action or not fnmatchcase(path, fault.path):
                continue
            left = [replace(fault, times=fault.times - 1)] if fault.times > 1 else []
            tree.data.faults[at : at + 1] = left
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
    def _command(self, what: str) -> Iterator[_Open]:
        """Kept where it holds, also in part: of several threads those before the one that is
        none.
        """
        with self._opened() as tree, self._told(tree, what):
            yield tree
            tree.data.status = ""
            self._save(tree)

    @contextmanager
    def _told(self, tree: _Open, what: str) -> Iterator[None]:
        try:
            yield
        except RefusedError as refused:
            if refused.status is not None:
                tree.data.status = refused.status
                self._save(tree)
            raise TreeError(self.label, what, refused.code, refused.status or "") from None

    # ------------------------------------------------------------- the folder

    @contextmanager
    def _opened(self) -> Iterator[_Open]:
        """The tree as it is, while nobody else changes it."""
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
            whole = json.loads(text)
            if whole["format"] != _FORMAT:
                raise ValueError(f"format {whole['format']}")
            return _Open(EmulatedMachine.parse(whole["machine"]), TreeData.parse(whole["tree"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NoTreeError(
                f"{self.label} is damaged ({error}): remove the folder, for it is an emulation"
            ) from None

    def _save(self, tree: _Open) -> None:
        """In one step, so that who is killed leaves the old state or the new."""
        whole = {
            "format": _FORMAT,
            "machine": tree.machine.as_dict(),
            "tree": tree.data.as_dict(),
        }
        beside = self._folder / f".{_STATE}.{os.getpid()}"
        try:
            beside.write_text(json.dumps(whole))
            beside.replace(self._folder / _STATE)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise NoTreeError(f"{self.label}: cannot note it: {error.strerror}") from None


def emulates(folder: Path) -> bool:
    """Whether there is an emulated tree that somebody has changed."""
    return (folder / _STATE).exists()
