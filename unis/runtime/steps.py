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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from unis import built, links
from unis.errors import UnisError
from unis.links import namespaces
from unis.links.devices import place
from unis.nics import binding, sysfs, usable
from unis.nics.binding import Binding
from unis.runtime import cgroup, child, folders, hugepages, kernel_settings, ovs
from unis.runtime.cgroup import Leaf
from unis.runtime.child import Command
from unis.runtime.directory import DPDK_RUNTIME, run_directory
from unis.runtime.errors import LaunchError
from unis.runtime.files import appending, remove_tree, written
from unis.runtime.functions import remove_traces, start_functions
from unis.runtime.held import put_back
from unis.runtime.process import ProcessId, end, keep_off, marked, unblock
from unis.runtime.state import RUN_MARK, RunState

if TYPE_CHECKING:
    from unis.plan.model import Plan
    from unis.runtime.run import Run

Hurry = Callable[[], bool]
Made = tuple[str, str]  # kind of link, and what it calls what was made; or _NAMESPACE

_NAMESPACE = "namespace"

_UNISD_SECONDS = 30.0  # until it answers: it reserves and clears packet memory first


@dataclass
class StartStep:
    """One part of bringing a run up."""

    name: str
    do: Callable[[Run], None]
    # Undoes it as far as it was done; sentences of what could not be undone.
    undo: Callable[[RunState, Hurry], list[str]] = lambda _state, _hurry: []


def start_guard(run: Run) -> None:
    """Starts the process that undoes the run if its launcher is killed; it ends when the run does.

    It reads the launcher's words from its standard input.
    """
    with written(run.directory.event_log):
        log = appending(run.directory.event_log)
    # -P: else what lies in the current folder would be imported, by root.
    command = [sys.executable, "-P", "-m", "unis.runtime.guard"]
    with log:
        try:
            run.guard = subprocess.Popen(
                [*command, run.directory.path, run.state.run_id],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchError(
                f"cannot start the guard, {sys.executable}: {error.strerror}", bad_input=False
            ) from None
    run.record(guard=ProcessId.of(run.guard.pid))


# ------------------------------------------------------------------ a cgroup for all processes


def leaf_of(state: RunState) -> Leaf | None:
    """The cgroup of a run, if it has one."""
    with contextlib.suppress(ValueError):
        return Leaf(state.leaf, state.run_id) if state.leaf else None
    return None


def _make_leaf(run: Run) -> None:
    """Where there is one to be had."""
    if name := cgroup.leaf_name(run.state.run_id):
        run.record(leaf=name)
        leaf = Leaf(name, run.state.run_id)
        if leaf.make():
            run.leaf = leaf
        else:
            run.record(leaf=None)


def _remove_leaf(state: RunState, _hurry: Hurry) -> list[str]:
    leaf = leaf_of(state)
    return leaf.remove() if leaf else []


# ------------------------------------------------------------------ folders


def _make_folders(run: Run) -> None:
    """Before the engine makes its sockets in them."""
    for function in run.plan.functions:
        folders.make(function)


def _give_folders_away(run: Run) -> None:
    """Once the engine's sockets are in them."""
    for function in run.plan.functions:
        folders.give_away(function)


def _remove_folders(state: RunState, _hurry: Hurry) -> list[str]:
    """A name of a run has no dot."""
    problems: list[str] = []
    for folder in folders.folders_directory().glob(f"{state.name}.*"):
        problems += remove_tree(folder)
    return problems


# ------------------------------------------------------------------ kernel devices of links


def made_by(plan: Plan) -> list[Made]:
    """What there must be while the run is what the plan says."""
    return [made for made, _ in _makers(plan)]


def _makers(plan: Plan) -> Iterator[tuple[Made, Callable[[], None]]]:
    for function in plan.functions:
        if name := function.namespace:
            yield (_NAMESPACE, name), partial(namespaces.make, name)
    for link in plan.links:
        kind = links.KINDS[link.kind]
        if name := kind.made(link):
            yield (link.kind, name), partial(kind.make, link)


def make_links(run: Run, plan: Plan) -> None:
    """Makes what is not there yet, each noted before, and tells what the user should know of it.

    UnisError if it cannot be: then the note goes, for what has that name is somebody else's, unless
    something of ours is left.
    """
    there = run.state.made
    for made, make in _makers(plan):
        if made not in run.state.made:
            before = run.state.made
            run.record(made=[*before, made])
            with run.switch.deferred():
                try:
                    make()
                except UnisError:
                    kind = links.KINDS.get(made[0])
                    if kind is None or not kind.is_left(made[1]):
                        run.record(made=before)
                    raise
    with run.switch.deferred():
        place_links(plan)
    for link in plan.links:
        kind = links.KINDS[link.kind]
        if (link.kind, kind.made(link)) not in there:
            for sentence in kind.remarks(link):
                run.tell(f"link {link.name}: {sentence}")


def place_links(plan: Plan) -> None:
    """Has each end of a link in the namespace of its function."""
    named = {link.name: link for link in plan.links}
    for function in plan.functions:
        for port in function.ports:
            link = named.get(port.rx or port.tx)
            if link and (devices := links.KINDS[link.kind].devices(link)):
                place(link.name, devices[port.end], function.namespace or namespaces.HERE)
    for link in plan.links:
        links.KINDS[link.kind].settle(link)


def remove_links(made: Collection[Made]) -> list[str]:
    """Removes it, the last first, and namespaces once no device is in them; sentences of what could
    not be.
    """
    problems: list[str] = []
    backwards = [*made][::-1]
    for kind, name in sorted(backwards, key=lambda one: one[0] == _NAMESPACE):
        try:
            problems += _remove_made(kind, name)
        except Exception as error:  # the others go all the same
            problems.append(f"cannot remove {name}: {error!r}")
    return problems


def _remove_made(kind: str, name: str) -> list[str]:
    if kind == _NAMESPACE:
        return namespaces.remove(name)
    if found := links.KINDS.get(kind):
        return found.remove(name)
    return [f"cannot remove {name}: this `unis` knows no kind of link `{kind}`"]


# ------------------------------------------------------------------ drivers of NICs


def bind_nics(run: Run, plan: Plan) -> None:
    """Gives each NIC that has another driver the one that the plan wants; noted before."""
    for nic in plan.nics:
        noted = run.state.bindings
        if nic.driver and nic.address not in [one.address for one in noted]:
            if nic.driver == usable.VFIO:
                usable.load_module(sysfs.SYS)
            run.record(bindings=[*noted, binding.found(nic.address, sysfs.SYS)])
            with run.switch.deferred():
                # Whoever undoes the run ends what still writes first, by this mark.
                marks = {RUN_MARK: run.state.run_id}
                binding.bind(nic.address, nic.driver, sysfs.SYS, marks)


def restore_nics(bindings: Sequence[Binding]) -> list[str]:
    """Gives them back to the drivers that they had, the last first; what could not be."""
    return [problem for one in reversed(bindings) for problem in binding.restore(one, sysfs.SYS)]


# ------------------------------------------------------------------ the engine


def start_engine(run: Run) -> None:
    """Starts unisd, and tells it what shall run."""
    run.tell("starting unisd")
    run.directory.held.unlink(missing_ok=True)  # of one that died
    argv = [str(built.unisd()), *run.plan.engine.argv, "--held", str(run.directory.held)]
    unisd = child.start(
        "unisd", Command(argv), run.directory.unisd_log, run.state.run_id, leaf=run.leaf
    )
    run.unisd = unisd
    run.record(unisd=ProcessId.of(unisd.process.pid))
    run.tell_guard(f"unisd {unisd.process.pid}")
    run.client.wait_ready(_UNISD_SECONDS, unisd.check)
    if not run.plan.foreign:
        run.tell("making links and traffic")
    run.client.deploy(run.deployment(run.plan))


def _remove_engine(state: RunState, _hurry: Hurry) -> list[str]:
    """Puts settings back and removes the memory; the process itself ended with the traffic."""
    problems = kernel_settings.restore()
    if state.joined and state.unisd:
        remove_traces(state.joined, state.unisd.pid)
    for mount in hugepages.mounts():
        problems += _remove_packet_memory(mount, state.groups)
    for prefix in state.groups:
        problems += remove_tree(DPDK_RUNTIME / prefix)
    return problems


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


# ------------------------------------------------------------------ functions and traffic


def _start_functions(run: Run) -> None:
    """Starts and attaches each: attached it waits idle, the next has the CPU to start on."""
    # From when all are started on functions may spin; children, who may need their CPUs, are.
    start_functions(run, run.plan.functions, started=lambda: keep_off(run.plan.cpus))


def _end_functions(state: RunState, hurry: Hurry) -> list[str]:
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
    problems += end([*recorded, *others], "function", hurry=hurry, also=everything)
    if leaf:  # a launcher that was killed may just have started another, which has no mark yet
        leaf.remove()
    return problems


def _start_traffic(run: Run) -> None:
    """Packets flow and the engine schedules, unless the run only measures costs."""
    if run.options.start:
        run.start_traffic()
        run.tell(f"running under policy {run.options.policy or run.plan.policy}")


def _end_engine(state: RunState, hurry: Hurry) -> list[str]:
    """Ends unisd before the functions: asked politely it lets go of every thread itself."""
    # Only the engine: its functions share the leaf, and are given back first.
    return end([state.unisd], "unisd", hurry=hurry) if state.unisd else []


STEPS = (
    StartStep(
        "Ports",
        lambda run: folders.copy_ports(run.plan.name),
        lambda state, _: remove_tree(folders.ports_directory() / state.name),
    ),
    StartStep("Guard", start_guard),
    StartStep("Group", _make_leaf, _remove_leaf),
    StartStep("Folders", _make_folders, _remove_folders),
    StartStep(
        "LinkDevices",
        lambda run: make_links(run, run.plan),
        lambda state, _: remove_links(state.made),
    ),
    StartStep(
        "Nics",
        lambda run: bind_nics(run, run.plan),
        lambda state, _: restore_nics(state.bindings),
    ),
    StartStep("Switch", lambda run: ovs.follow(run, run.plan)),
    StartStep("Engine", start_engine, _remove_engine),
    StartStep("Owners", _give_folders_away),
    StartStep("Functions", _start_functions, _end_functions),
    StartStep("Traffic", _start_traffic, _end_engine),
)
