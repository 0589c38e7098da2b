"""What `up` does, in order, and how each part is undone.

A step notes what clean-up needs before it acts. Only the PID of a process is noted after its start;
until then clean-up finds the process by its environment. So whoever reads the notes can undo a
step: the launcher, the guard, `unis down` or the next `unis up`. Clean-up undoes all steps in
reverse order, so `undo` may be called twice, or for a step that was never taken.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from unis import built
from unis.engine import names
from unis.runtime import cgroup, hugepages, kernel_settings
from unis.runtime.cgroup import Leaf
from unis.runtime.child import Command
from unis.runtime.directory import run_directory
from unis.runtime.files import appending, remove_tree, written
from unis.runtime.folders import Folders, Owners
from unis.runtime.functions import DPDK_RUNTIME, remove_traces, start_functions
from unis.runtime.held import put_back
from unis.runtime.link_devices import make_links, remove_links
from unis.runtime.ports import Ports
from unis.runtime.process import ProcessId, end, keep_off, marked, unblock
from unis.runtime.state import RUN_MARK, RunState

if TYPE_CHECKING:
    from unis.runtime.run import Run

Hurry = Callable[[], bool]

_UNISD_SECONDS = 30.0  # until it answers: it reserves and clears packet memory first


class Step(Protocol):
    """One part of bringing a run up."""

    def do(self, run: Run) -> None:
        """Does it."""

    def undo(self, state: RunState, hurry: Hurry) -> list[str]:
        """Undoes it as far as it was done; sentences of what could not be undone."""


class Guard:
    """The process that undoes the run if its launcher is killed. It ends when the run does."""

    def do(self, run: Run) -> None:
        """Starts it; it reads the launcher's words from its standard input."""
        with written(run.directory.event_log):
            log = appending(run.directory.event_log)
        with log:
            run.guard = subprocess.Popen(
                # -P: else what lies in the current folder would be imported, by root.
                [sys.executable, "-P", "-m", "unis.runtime.guard",
                 run.directory.path, run.state.run_id],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )  # fmt: skip
        run.record(guard=ProcessId.of(run.guard.pid))

    def undo(self, state: RunState, hurry: Hurry) -> list[str]:  # noqa: ARG002
        """Nothing: it sees that the run is gone."""
        return []


class Group:
    """A cgroup in which all processes of the run are, where there is one to be had."""

    def do(self, run: Run) -> None:
        """Makes it."""
        if name := cgroup.leaf_name(run.state.run_id):
            run.record(leaf=name)
            leaf = Leaf(name, run.state.run_id)
            if leaf.make():
                run.leaf = leaf
            else:
                run.record(leaf=None)

    def undo(self, state: RunState, hurry: Hurry) -> list[str]:  # noqa: ARG002
        """Removes it, which is empty by now."""
        leaf = leaf_of(state)
        return leaf.remove() if leaf else []


class LinkDevices:
    """What links need made before programs can open them."""

    def do(self, run: Run) -> None:
        """Makes it."""
        make_links(run, run.plan)

    def undo(self, state: RunState, hurry: Hurry) -> list[str]:  # noqa: ARG002
        """Removes it, which nobody has open any more."""
        return remove_links(state.made)


class EngineStep:
    """unisd, its packet memory and the kernel's settings that it changes."""

    def do(self, run: Run) -> None:
        """Starts it and tells it what shall run."""
        run.tell("starting unisd")
        run.directory.held.unlink(missing_ok=True)  # of one that died
        argv = [str(built.unisd()), *run.plan.engine.argv, "--held", str(run.directory.held)]
        child = run.start("unisd", Command(argv), run.directory.unisd_log)
        run.record(unisd=ProcessId.of(child.process.pid))
        run.tell_guard(f"unisd {child.process.pid}")
        run.client.wait_ready(_UNISD_SECONDS, child.check)
        if not run.plan.foreign:
            run.tell("making links and traffic")
        costs = {name: cost.ns for name, cost in run.costs.items()}
        run.client.deploy(run.plan.deploy(costs, run.state.run_id))

    def undo(self, state: RunState, hurry: Hurry) -> list[str]:  # noqa: ARG002
        """Puts settings back and removes the memory; the process itself ended with the traffic."""
        problems = kernel_settings.restore()
        if state.joined and state.unisd:
            remove_traces(state.joined, state.unisd.pid)
        for mount in hugepages.mounts():
            problems += _remove_packet_memory(mount.path, state.groups)
        for prefix in state.groups:
            problems += remove_tree(DPDK_RUNTIME / prefix)
        return problems


class FunctionsStep:
    """The processes of the functions."""

    def do(self, run: Run) -> None:
        """Starts and attaches each: attached it waits idle, the next has the CPU to start on."""
        # From when all are started on functions may spin; children, who may need their CPUs, are.
        start_functions(run, run.plan.functions, started=lambda: keep_off(run.plan.cpus))

    def undo(self, state: RunState, hurry: Hurry) -> list[str]:
        """Ends every process of the run, also those that its functions have started."""
        problems: list[str] = []
        if state.attached:  # those of others are given back: unisd has done so if it could
            problems += put_back(run_directory(state.name).held)
        recorded = [] if state.attached else [function.process for function in state.functions]
        # All before any: a killed process cannot die while another spins above it on its CPU. And
        # before the search, which waits for what a starved process has locked.
        problems += unblock(recorded)
        leaf = leaf_of(state)
        # What shook off its mark is in the leaf.
        found = [*(leaf.members() if leaf else []), *marked(RUN_MARK, state.run_id)]
        others = [process for process in dict.fromkeys(found) if process not in recorded]
        problems += unblock(others)
        everything = leaf.kill if leaf else list
        return problems + end([*recorded, *others], "function", hurry=hurry, also=everything)


class TrafficStep:
    """Packets flow, and the engine schedules."""

    def do(self, run: Run) -> None:
        """Lets them, unless the run only measures costs."""
        if run.options.start:
            policy = run.options.policy or run.plan.policy
            controller = run.options.controller or run.plan.controller
            run.client.start(names.policy(policy), names.controller(controller))
            _remember_switch(run)
            run.tell(f"running under policy {policy}")

    def undo(self, state: RunState, hurry: Hurry) -> list[str]:
        """Ends unisd before the functions: asked politely it lets go of every thread itself."""
        if state.unisd is None:
            return []
        # Only the engine: its functions share the leaf, and are given back first.
        return end([state.unisd], "unisd", hurry=hurry)


STEPS: tuple[Step, ...] = (
    Ports(),
    Guard(),
    Group(),
    Folders(),
    LinkDevices(),
    EngineStep(),
    Owners(),
    FunctionsStep(),
    TrafficStep(),
)


def leaf_of(state: RunState) -> Leaf | None:
    """The cgroup of a run, if it has one."""
    with contextlib.suppress(ValueError):
        return Leaf(state.leaf, state.run_id) if state.leaf else None
    return None


def _remember_switch(run: Run) -> None:
    """What the engine measured at the start, by raising a priority whichever the controller."""
    from unis.engine.client import EngineError
    from unis.runtime.costs import remember_switch

    with contextlib.suppress(EngineError):  # no reason to fail
        remember_switch("priority", run.client.stats(seconds=1).switch_ns)


def _remove_packet_memory(mount: Path, groups: Iterable[str]) -> list[str]:
    """Removes EAL's files of these groups, and of no group whose name only begins alike."""
    names = [re.compile(re.escape(group) + r"map_\d+") for group in groups]
    try:
        found = list(mount.iterdir())
    except OSError as error:
        return [f"cannot look for packet memory in {mount}: {error.strerror}"]
    files = [file for file in found if any(name.fullmatch(file.name) for name in names)]
    return [problem for file in files for problem in _unlink(file)]


def _unlink(file: Path) -> list[str]:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        return [f"cannot remove {file}: {error.strerror}"]
    return []
