"""Functions that somebody else has started: `unis attach`.

The launcher lives in the background as long as a function is attached. When unisd dies the guard
gives the functions back to the kernel, under which they go on; another unisd starts, and adopts
them.
"""

import contextlib
import math
import re
import time
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.message import Message

from unis.engine.client import PATIENCE, EngineError
from unis.errors import UnisError
from unis.plan.attached import (
    AttachedFunction,
    AttachedPath,
    AttachedPlan,
    End,
    RingEnd,
    plan_attached,
)
from unis.plan.machine import Machine
from unis.runtime import held, memifs
from unis.runtime.claim import claim_more
from unis.runtime.directory import all_runs
from unis.runtime.errors import LaunchError, RunFailedError
from unis.runtime.functions import Backoff, remove_traces
from unis.runtime.interrupts import interrupts
from unis.runtime.launcher import Parent
from unis.runtime.planning import others, places
from unis.runtime.process import ProcessId, keep_off, keep_to
from unis.runtime.requests import SupervisorRequest
from unis.runtime.run import Options, Run
from unis.runtime.running import running
from unis.runtime.sockets import NotToldError, find_interface, interfaces
from unis.runtime.state import FunctionProcess, is_name
from unis.runtime.steps import start_engine, start_guard
from unis.runtime.supervisor import Supervisor
from unis.v1 import supervisor_pb2 as pb

# An end of a path, as users write it.
END = re.compile(
    r"ring:(?P<ring>[a-zA-Z0-9][a-zA-Z0-9._-]*)|memif(?::(?P<position>[0-9]{1,3})"
    r"(?::(?P<role>server|client)(?::(?P<receives>[1-9][0-9]?),(?P<sends>[1-9][0-9]?))?)?)?"
    r"|(?P<interface>[^\s/:]{1,15})"
)
END_FORM = "the name of an interface, ring:NAME or memif[:NUMBER[:ROLE[:RX,TX]]]"

_AGAIN_SECONDS = 0.1  # till a busy engine is asked once more to let go of a dead function
_MAPPED = re.compile(r"/dpdk/([^/\s]+)/fbarray_memzone$", re.MULTILINE)
_ATTACH_SECONDS = 5.0  # for a function to be seen polling


def group_to_join(request: pb.AttachProcessRequest) -> str | None:
    """The DPDK group, where there are rings. LaunchError if none is found."""
    ends = [end for path in request.paths for end in (path.ingress, path.egress)]
    if not any(end.startswith("ring:") for end in ends):
        return None
    group = request.group or _group_of_process(request.pid)
    if not is_name(group):
        raise LaunchError(
            f"`{group}` cannot be a DPDK group here: letters, digits, `.`, `-` and `_`, a "
            "letter or digit first"
        )
    return group


def _group_of_process(pid: int) -> str:
    """The file prefix of its DPDK group, from its memory map; LaunchError if it is in none."""
    try:
        found = _MAPPED.search(Path(f"/proc/{pid}/maps").read_text())
    except OSError as error:
        raise LaunchError(f"cannot look at process {pid}: {error.strerror}") from None
    if found is None:
        raise LaunchError(
            f"process {pid} is in no DPDK group that UNiS can join, so its rings cannot be read; "
            "start it without --in-memory and --no-shconf, or name the group with --group"
        )
    return found[1]


def function_of(request: pb.AttachProcessRequest) -> AttachedFunction:
    """What it is on this machine; LaunchError where it, or an end of it, is not found."""
    if not is_name(request.name):
        raise LaunchError(
            f"invalid name of a function {request.name!r}; expected letters, digits, `-`, `_`"
        )
    paths = tuple(
        AttachedPath(_end(request.pid, path.ingress), _end(request.pid, path.egress))
        for path in request.paths
    )
    cost_ns = request.cost_ns if request.HasField("cost_ns") else None
    return AttachedFunction(request.name, request.pid, request.cpu, cost_ns, paths)


def _end(pid: int, text: str) -> End:
    if (end := END.fullmatch(text)) is None:
        raise LaunchError(f"invalid end of a path `{text}`; expected {END_FORM}")
    ring, position, role, receives, sends, interface = end.groups()
    if ring:
        return RingEnd(ring)
    if interface:
        return find_interface(pid, interface)
    queues = (int(receives), int(sends)) if receives else None
    return memifs.find_end(pid, int(position or 0), role, queues)


def ports_of(pid: int) -> list[str]:
    """The ends of links that a process has, as users write them, but for rings."""
    found = [f"memif:{at}" for at in range(memifs.count(pid))]
    try:
        found = [interface.name for interface in interfaces(pid) if interface.sockets] + found
    except NotToldError:
        if not found:
            raise
    return found


def require_nobodys(process: ProcessId, run: str) -> None:
    """LaunchError where another run than `run` has it: each would take what the other has set for
    how it was found.
    """
    for directory, state in all_runs():
        if directory.name == run or state.undone():
            continue
        for function in state.functions:
            if function.process == process:
                raise LaunchError(
                    f"process {process.pid} is function {function.name} of run `{state.name}`: "
                    f"`unis detach {function.name} --name {state.name}` gives it back"
                )


class AttachedFunctions:
    """What is attached, and what holds it."""

    def __init__(self, run: Run, plan: AttachedPlan) -> None:
        self._run = run
        self._plan = plan  # the run's, as its kind has it
        self._group = plan.engine.joins
        self._started = False
        self._again = False  # whether the engine was busy, or has just died
        self._leaving: set[str] = set()  # functions whose attach failed, and that are noted still
        self._backoff = Backoff()
        self._unisd_since = time.monotonic()

    # ------------------------------------------------------------------ come and go

    def attach(self, request: pb.AttachProcessRequest) -> None:
        """Takes hold of a function, and lets the scheduler have it."""
        function = function_of(request)
        identity = ProcessId.of(request.pid)
        if identity is None or not identity.alive():
            raise LaunchError(f"there is no process {request.pid}")
        require_nobodys(identity, self._plan.name)
        if function.cpu in self._plan.platform_cpus:
            run = self._plan.name
            raise LaunchError(
                f"CPU {function.cpu} is the scheduler's of run `{run}`: give --cpu "
                f"{self._plan.cpus[0]}, or `unis down {run}` and begin again"
            )
        for other in self._plan.attached:
            if other.pid == function.pid or other.name == function.name:
                raise LaunchError(f"{other.name} (pid {other.pid}) is attached already")
        if (group := group_to_join(request)) and group != self._group:
            joined = f"is in DPDK group {self._group}" if self._group else "is in no DPDK group"
            raise LaunchError(
                f"run `{self._plan.name}` {joined}, and the rings are in group {group}: attach "
                "with another --name"
            )
        before = self._plan
        after = before.with_attached([*before.attached, function])
        if disputed := after.disputed():
            raise LaunchError(
                f"{function.name} and the other function on {', '.join(disputed)} disagree on its "
                "queues; give the RX queues of one as the TX queues of the other"
            )
        claim_more(after, self._run.state, self._run.record)
        noted = FunctionProcess(function.name, function.cpu, identity)
        self._leaving.discard(function.name)
        try:
            self._run.record(functions=self._run.state.with_function(noted))
            keep_off(after.cpus)
            self._become(after)
            self._hold(function)
            self._start()
        except Exception:  # an interrupt ends the run, which gives all functions back
            try:
                self._drop(function.name)
            except EngineError as error:  # the engine may hold it still: `reconcile` tries again
                self._run.plan = self._plan = before
                self._leaving.add(function.name)
                self._run.tell(f"cannot detach {function.name} yet: {error}")
            raise
        self._run.tell(f"{function.name} (pid {function.pid}) is attached on CPU {function.cpu}")

    def _hold(self, function: AttachedFunction) -> None:
        alive = self._run.check_platform
        self._run.client.attach(function.name, function.pid, alive, _ATTACH_SECONDS)

    def _start(self) -> None:
        if not self._started:
            self._run.client.start(*self._run.policy_for(self._plan))
            self._started = True

    def detach(self, name: str) -> None:
        """Gives a function back as it was found."""
        if all(function.name != name for function in self._plan.attached):
            raise LaunchError(f"no function {name} is attached to `{self._plan.name}`")
        self._run.client.detach(name)
        self._drop(name)
        self._run.tell(f"{name} is detached")

    def _drop(self, name: str, patience: float = PATIENCE) -> None:
        with contextlib.suppress(EngineError):  # it is not attached any more, or not yet
            self._run.client.detach(name, patience)
        left = [function for function in self._plan.attached if function.name != name]
        self._become(self._plan.with_attached(left), patience)
        self._forget(name)

    def _forget(self, name: str) -> None:
        self._leaving.discard(name)
        noted = [function for function in self._run.state.functions if function.name != name]
        self._run.record_event(functions=noted, cpus=sorted(self._plan.cpus))

    def _become(self, plan: AttachedPlan, patience: float = PATIENCE) -> None:
        self._run.client.apply(self._run.deployment(plan), patience)
        self._run.plan = self._plan = plan

    # ------------------------------------------------------------------ while they run

    @property
    def done(self) -> bool:
        """Whether the last function is detached."""
        return not self._plan.attached

    def due(self) -> float:
        """Nothing is due but what `reconcile` could not do at once."""
        return _AGAIN_SECONDS if self._again else math.inf

    def watched(self) -> list[int]:
        """The platform's processes and the functions."""
        functions = (
            [] if self._again else [function.process.pid for function in self._run.state.functions]
        )
        return [*(process.pid for process in self._run.processes()), *functions]

    def reconcile(self) -> None:
        """Starts anew what has died of the platform, and lets go of functions that have ended."""
        self._see_to_platform()
        self._again = False
        for function in self._run.state.functions:
            leaving = function.name in self._leaving
            if function.process.alive() and not leaving:
                continue
            try:
                self._drop(function.name, patience=0.0)
            except EngineError as error:
                if not (error.busy or error.gone or leaving):
                    raise
                self._again = True  # at the next look
                continue
            if leaving:
                self._run.tell(f"{function.name} is detached")
                continue
            self._run.tell(f"{function.name} (pid {function.process.pid}) has ended")
            if not self._plan.attached:
                raise RunFailedError(f"{function.name}, the last function attached, has ended")

    def serve(self, request: SupervisorRequest) -> Message:
        """Attach and Detach."""
        if request.method == "Attach":
            self.attach(request.message)
        elif request.method == "Detach":
            self.detach(request.message.function)
        else:
            raise LaunchError(
                f"the functions of `{self._plan.name}` are attached: `unis attach` and `unis "
                "detach` change it"
            )
        return pb.AttachedFunctions(functions=[function.name for function in self._plan.attached])

    # ------------------------------------------------------------------ unisd

    def _see_to_platform(self) -> None:
        if self._run.guard and self._run.guard.poll() is not None:
            self._run.tell("the guard died: starting another")
            start_guard(self._run)
            if unisd := self._run.unisd:
                self._run.tell_guard(f"unisd {unisd.process.pid}")
        if (unisd := self._run.unisd) and unisd.ended():
            self._adopt(unisd.last_words())

    def _adopt(self, words: str) -> None:
        """Another unisd takes hold of what the dead one had, which goes on under the kernel."""
        run = self._run
        for problem in held.put_back(run.directory.held):
            run.tell(problem)
        if self._group and run.unisd:
            remove_traces(self._group, run.unisd.process.pid)
        wait = self._backoff.after(time.monotonic() - self._unisd_since)
        run.tell(f"{words}; the functions go on under the kernel; unisd restarts in {wait:g} s")
        time.sleep(wait)
        self._unisd_since = time.monotonic()
        self._started = False
        try:
            start_engine(run)
            for function in self._plan.attached:
                try:
                    self._hold(function)
                except EngineError as error:
                    run.check_platform()
                    run.tell(f"{function.name} is no longer attached: {error}")
                    self._drop(function.name)
            if self._plan.attached:
                self._start()
        except UnisError as error:
            if run.unisd and not run.unisd.ended():
                raise RunFailedError(str(error)) from None
            run.tell(str(error))  # it died again
            return
        run.tell(
            f"unisd has adopted {', '.join(function.name for function in self._plan.attached)}"
        )


def _platform_cpu(wanted: int, cpus: Sequence[int]) -> int:
    """The CPU of the scheduler: one that no function has, best one that no scheduler has either."""
    taken = {cpu for other in others() for cpu in other.cpus} | {wanted}
    shared = {cpu for other in others() for cpu in other.packet_cpus}
    free = sorted({*cpus} - taken)
    if not free:
        raise LaunchError("no CPU is left for the scheduler; leave one without functions")
    return next((cpu for cpu in free if cpu not in shared), free[0])


def run_attached(
    name: str, request: pb.AttachProcessRequest, policy: str, cpus: Sequence[int], parent: Parent
) -> None:
    """Starts run `name` with this function, and ends when no function is attached any more.

    `cpus`: that the launcher may use.
    """
    with interrupts() as switch, contextlib.ExitStack() as stack:
        keep_to(cpus)
        function_of(request)  # what is wrong with it is told before anything is started
        group = group_to_join(request)
        platform = _platform_cpu(request.cpu, sorted(Machine.this().cpus))
        plan = plan_attached(name, request.cpu, platform, places(name), group, policy)
        options = Options(policy=policy, start=False)
        run = stack.enter_context(running(plan, options, parent.report, switch))
        functions = AttachedFunctions(run, plan)
        functions.attach(request)
        supervisor = stack.enter_context(Supervisor(run, functions))
        parent.finish(0)
        supervisor.wait()
