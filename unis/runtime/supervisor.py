"""Keeps a run as it shall be, from its plan to its end.

One loop for every run: it sleeps till a process dies, a request comes or something is due. Then it
looks what shall run and what runs, and does what is between the two. A death, a restart, a changed
file and a function that is attached go through it alike.

unisd owns the packet memory. So where unisd dies, a run of functions that UNiS has started ends;
`supervise` brings all of it up again where the chain file says so.
"""

import contextlib
import math
import os
import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from google.protobuf.message import Message

from unis.engine.client import EngineError
from unis.errors import UnisError
from unis.plan.model import Plan
from unis.runtime.account import account_line
from unis.runtime.directory import RunDirectory, run_directory
from unis.runtime.errors import LaunchError, RunFailedError, RunTimeoutError
from unis.runtime.files import locked
from unis.runtime.functions import Backoff
from unis.runtime.interrupts import Interrupts
from unis.runtime.launched import LaunchedFunctions
from unis.runtime.logs import shorten
from unis.runtime.orphans import reap
from unis.runtime.process import ProcessId
from unis.runtime.requests import RequestServer, SupervisorRequest
from unis.runtime.run import Options, Run
from unis.runtime.running import running
from unis.runtime.state import RunState
from unis.v1 import engine_pb2 as pb

_LOOK_SECONDS = 1.0  # between looks at how long logs have become
_AGAIN_SECONDS = 0.1  # what failed may fail at once again
_UNANSWERED = 5  # calls of GetStats in a row that may fail while unisd lives


class RunFunctions(Protocol):
    """The functions of a run, started by UNiS or by somebody else."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to look after."""

    def reconcile(self) -> None:
        """Brings what runs to what shall run. RunFailedError: the run cannot go on."""

    def watched(self) -> Iterable[int]:
        """Processes whose end `reconcile` must see at once."""

    def due(self) -> float:
        """Seconds till `reconcile` has something to do, if no process ends before."""

    def serve(self, request: SupervisorRequest) -> Message:
        """Does what a client asks for. UnisError: it is refused."""


class Supervisor:
    """The loop. RunFailedError ends the run, and nothing else does: any other exception is told."""

    def __init__(self, run: Run, functions: RunFunctions) -> None:
        self.run = run
        self.last: pb.Account | None = None  # of the packets, a second ago or so
        self._functions = functions
        self._looked = -math.inf
        self._requests = RequestServer(run.directory.requests(run.state.run_id))

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        self.run.switch.armed = False  # a signal in `close` must not leave clients waiting
        self._requests.close()

    def watch(self, on_stats: Callable[[pb.Stats], None], interval: float = 1.0) -> None:
        """Calls `on_stats` every `interval` seconds until an exception: end or interrupt."""
        unanswered = 0
        while True:
            self.wait(interval)
            try:
                stats = self.run.client.stats()
            except EngineError as error:
                unanswered += 1
                if unanswered >= _UNANSWERED:
                    raise RunFailedError(str(error)) from None
                continue
            unanswered = 0
            try:
                on_stats(stats)
            except UnisError:
                raise
            except Exception:
                self.run.fault("showing the run")

    def wait_delivering(self) -> None:
        """Till every chain has delivered a packet."""
        while not all(chain.delivered for chain in self.run.client.stats().chains):
            self.wait(0.1)

    def wait(self, seconds: float | None = None) -> None:
        """Supervises for so long; None: till nothing is left to look after."""
        until = math.inf if seconds is None else time.monotonic() + seconds
        while not self._functions.done:
            try:
                self._look()
                self._functions.reconcile()
                if request := self._requests.take():
                    request.serve(self._do, self.run.note)
                    self._functions.reconcile()
                left = until - time.monotonic()
                if left <= 0:
                    return
                self._sleep(min(left, self._functions.due(), _LOOK_SECONDS))
            except RunFailedError:
                raise
            except Exception:
                self.run.fault("looking after the run")
                time.sleep(_AGAIN_SECONDS)
                if time.monotonic() >= until:
                    return

    def _look(self) -> None:
        """What a run needs now and then, whatever its functions are."""
        self.run.write_again()
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        reap({process.pid for process in self.run.processes()})
        shorten(self.run.directory.unisd_log)
        for child in self.run.functions.values():
            shorten(child.log)
        if self.run.plan.restart != "never":
            with contextlib.suppress(EngineError):
                self.last = self.run.client.stats(seconds=_LOOK_SECONDS).account

    def _sleep(self, seconds: float) -> None:
        """Till a process of the run ends, or a request comes."""
        with contextlib.ExitStack() as stack:
            poll = select.poll()
            poll.register(self._requests, select.POLLIN)
            for pid in self._functions.watched():
                try:
                    descriptor = os.pidfd_open(pid)
                except ProcessLookupError:
                    return
                stack.callback(os.close, descriptor)
                poll.register(descriptor, select.POLLIN)
            poll.poll(max(0.0, seconds) * 1000)

    def _do(self, request: SupervisorRequest) -> Message:
        if request.method == "SetPolicy":
            self.run.set_policy(request.message)
            return pb.Empty()
        return self._functions.serve(request)


# ------------------------------------------------------------------ up, and up again


@dataclass
class Job:
    """What `supervise` is asked for."""

    options: Options
    report: Callable[[str], None]
    switch: Interrupts
    serve: Callable[[Supervisor], None]  # returns when the run shall end
    wait: bool = False  # whether it is served only once every chain has delivered a packet
    timeout: float | None = None  # seconds till it is served, the first time


def supervise(plan: Plan, job: Job) -> None:
    """Brings the run up, and up again where unisd dies and the file says so; till `serve` returns.

    RunFailedError and others: the run cannot go on.
    """
    backoff = Backoff()
    options, timeout, before = job.options, job.timeout, ""
    failed: set[str] = set()  # ids of runs, since it ran
    while down := _once(plan, options, job, timeout, before):
        if down.run:
            plan, options, timeout = down.run.plan, down.run.options, None
            before = f"{down.why}, so all of the run was brought up again"
            failed = set()
        _wait(down, plan, job, backoff.after(down.ran), failed)


@dataclass
class _Down:
    """A run that comes again."""

    why: str
    error: UnisError
    run: Run | None = None  # None: it could not even be brought up
    ran: float = 0.0  # seconds, since it was as it was asked for


def _once(
    plan: Plan, options: Options, job: Job, timeout: float | None, before: str
) -> _Down | None:
    options = replace(options, again=bool(before))
    died: Supervisor | None = None
    served: float | None = None
    try:
        with contextlib.ExitStack() as stack:
            with job.switch.within(timeout, f"run `{plan.name}` did not come up"):
                run = stack.enter_context(running(plan, options, job.report, job.switch))
                supervisor = stack.enter_context(Supervisor(run, LaunchedFunctions(run)))
                if before:  # the log is that of another run by now
                    run.note(before)
                if job.wait:
                    supervisor.wait_delivering()
            begin = time.monotonic()
            try:
                job.serve(supervisor)
            except UnisError:  # afterwards it has ended in any case
                died = supervisor if run.engine_died() else None
                raise
            finally:
                served = time.monotonic() - begin
    except RunTimeoutError as error:
        raise RunFailedError(str(error)) from error.__cause__
    except UnisError as error:
        # What is wrong with the file does not mend itself.
        if served is None and before and not error.bad_input:
            return _Down(f"the restart failed: {error}", error)
        if served is not None and died and died.run.plan.restart == "on-failure":
            last = died.last
            lost = f" (the last account of before: {account_line(last)})" if last else ""
            return _Down(f"unisd died{lost}", error, died.run, served)
        raise
    return None


def _wait(down: _Down, plan: Plan, job: Job, seconds: float, failed: set[str]) -> None:
    """Raises the error of `down` if nobody wants the run back any more."""
    job.report(f"{down.why}; the whole run restarts in {seconds:g} s")
    job.switch.resume()
    directory = run_directory(plan.name)
    with contextlib.suppress(OSError, LaunchError), locked(directory.lock):  # `unis ps` tells
        if noted := _ours(directory):
            failed.add(noted.run_id)  # the same where the next could not even claim its place
            directory.write(noted.with_changes(failures=len(failed)))
    time.sleep(seconds)
    if _ours(directory) is None:  # `unis down` was faster
        raise down.error from None


def _ours(directory: RunDirectory) -> RunState | None:
    noted = directory.read()
    return noted if noted and noted.launcher == ProcessId.me() else None
