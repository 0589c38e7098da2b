"""Processes of functions: how they come and go, at the start of a run and while it lives."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unis import links, workload
from unis.links import namespaces
from unis.runtime import contained
from unis.runtime.directory import DPDK_RUNTIME
from unis.runtime.errors import LaunchError
from unis.runtime.files import remove_tree
from unis.runtime.orphans import mark_of, orphans
from unis.runtime.process import ProcessId, end, unblock
from unis.runtime.state import FunctionProcess

if TYPE_CHECKING:
    from unis.plan.model import FunctionPlan
    from unis.runtime.run import Run

_SOCKET_SECONDS = 5.0  # until a function serves its memifs
_PATIENCE = 20.0  # for an engine that does something else
_GENTLE_SECONDS = 0.5  # while others wait for it to be gone
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0  # seconds
_STABLE_SECONDS = 30.0  # a function that ran so long is as good as new
_GENERATIONS = 8  # of processes that a function left behind, each started by the one before


@dataclass
class Backoff:
    """How long what died waits before it is started again: doubles with every death, till it has
    run for a while.
    """

    seconds: float = 0.0

    def after(self, ran: float) -> float:
        """The wait after the function ran for `ran` seconds."""
        again = self.seconds > 0 and ran < _STABLE_SECONDS
        self.seconds = min(_LONGEST_WAIT, 2 * self.seconds) if again else _FIRST_WAIT
        return self.seconds


def listed(names: Collection[str]) -> str:
    """Names of functions or chains, for a sentence."""
    return ", ".join(sorted(names))


def start_functions(
    run: Run,
    functions: Iterable[FunctionPlan],
    *,
    beside: bool = False,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Starts and attaches each, in this order.

    Those that need their neighbours are attached last, for both ends of a link must run;
    `started` is called before that. With `beside` the CPUs of functions are busy with others.
    """
    late: list[str] = []
    ends = {link.name: link for link in run.plan.links}
    for function in functions:
        run.tell(f"starting {function.name} on CPU {function.cpu}")
        served = run.plan.served_by(function)
        _clear(function.name, served)
        for port in function.ports:
            if link := ends.get(port.rx or port.tx):
                where = function.namespace or namespaces.HERE
                links.KINDS[link.kind].clear(link, port.end, where)
        child = run.start_function(function, function.argv_beside if beside else function.argv)
        if identity := ProcessId.of(child.process.pid):
            before = run.state.function(function.name)
            process = FunctionProcess(
                function.name,
                function.cpu,
                identity,
                before.restarts if before else 0,
                namespace=function.namespace,
            )
            run.record_event(functions=run.state.with_function(process))
            _wait_for(served, functools.partial(run.check_function, function.name))
            if workload.KINDS[function.group].needs_neighbours:
                late.append(function.name)
            else:
                run.attach(function.name)
    started()
    for name in late:
        run.attach(name)


def _clear(name: str, sockets: Sequence[Path]) -> None:
    """One that died may have left them; in its own folder also something else in their place."""
    for socket in sockets:
        try:
            socket.unlink(missing_ok=True)
        except OSError as error:
            raise LaunchError(
                f"{name}: cannot remove {socket}: {error.strerror}", bad_input=False
            ) from None


def _wait_for(sockets: Sequence[Path], check: Callable[[], None]) -> None:
    """A program that comes to a memif before its other end is there may give up."""
    until = time.monotonic() + _SOCKET_SECONDS
    while not all(socket.exists() for socket in sockets) and time.monotonic() < until:
        check()
        time.sleep(0.01)


def end_functions(run: Run, names: Collection[str], patience: float = _PATIENCE) -> list[str]:
    """Ends functions in this order while others go on; returns a sentence for each that does not
    die. EngineError: the engine does not release a function, which goes on; a busy engine is asked
    again for `patience` seconds.
    """
    problems: list[str] = []
    for name in names:
        function = run.state.function(name)
        if function is None or name not in run.functions:
            continue
        process = function.process
        lived = process.alive()
        run.client.detach(name, patience, pid=process.pid, start_time=process.start_time)
        if lived:
            problems += _end(run, name, [process])
            # now that it is dead there is more to put right
            run.client.detach(name, patience, pid=process.pid, start_time=process.start_time)
        problems += _end_orphans(run, name)
        run.forget(name)
        plan = run.plan.function(name)
        for folder in workload.KINDS[plan.group].leaves(plan.file_prefix):
            problems += remove_tree(DPDK_RUNTIME / folder)
        if plan.container:
            problems += contained.remove(run.directory, name)
    return problems


def _end_orphans(run: Run, name: str) -> list[str]:
    """What it left behind, and what that leaves: a child's children are ours once it is dead."""
    problems: list[str] = []
    for _ in range(_GENERATIONS):
        if not (left := orphans(mark_of(run.state.run_id, name))):
            break
        problems += _end(run, name, left)
    return problems


def _end(run: Run, name: str, processes: Sequence[ProcessId]) -> list[str]:
    for process in processes:  # where others spin it would get no time to end in
        for thread in process.threads():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, run.plan.platform_cpus)
    return unblock(processes) + end(processes, name, gentle_seconds=_GENTLE_SECONDS)


def remove_traces(group: str, pid: int) -> None:
    """Files that a killed secondary process has left in the group of others."""
    for file in (DPDK_RUNTIME / group).glob(f"*_{pid}_*"):
        with contextlib.suppress(OSError):
            file.unlink()
