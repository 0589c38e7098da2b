"""The launcher of a run of functions that somebody else started: `unis attach`.

It lives in the background as long as a function is attached. When unisd dies the guard gives the
functions back to the kernel, under which they go on; the launcher starts another unisd, and that
adopts them.
"""

import contextlib
import os
import re
import select
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict

from unis.engine import names
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
from unis.runtime import held
from unis.runtime.backoff import Backoff
from unis.runtime.change import change_policy
from unis.runtime.claim import claim_more
from unis.runtime.control import ControlSocket, Say, parsed
from unis.runtime.directory import all_runs
from unis.runtime.errors import LaunchError, RunFailedError
from unis.runtime.groups import group_of, remove_traces
from unis.runtime.interrupts import interrupts
from unis.runtime.memifs import find_end
from unis.runtime.options import Options
from unis.runtime.planning import others, places
from unis.runtime.process import ProcessId, keep_off, keep_to
from unis.runtime.run import Run
from unis.runtime.running import running
from unis.runtime.state import FunctionProcess, is_name
from unis.runtime.steps import Engine, Guard
from unis.runtime.supervisor import Parent

# An end of a path, as users write it.
END = re.compile(
    r"ring:(?P<ring>[a-zA-Z0-9][a-zA-Z0-9._-]*)|memif(?::(?P<position>[0-9]{1,3})"
    r"(?::(?P<role>server|client)(?::(?P<receives>[1-9][0-9]?),(?P<sends>[1-9][0-9]?))?)?)?"
)
END_FORM = "ring:NAME or memif[:NUMBER[:ROLE[:RX,TX]]]"

_LOOK_SECONDS = 1.0
_AGAIN_SECONDS = 0.1  # till a busy engine is asked once more to let go of a dead function
_ATTACH_SECONDS = 5.0  # for a function to be seen polling


@dataclass(frozen=True)
class AttachRequest:
    """A function that shall be scheduled, as the command line says it."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    run: str
    pid: int
    name: str
    cpu: int
    paths: list[tuple[str, str]]  # ingress, egress, as `END` has them
    cost_ns: float | None = None
    group: str | None = None  # file prefix of the DPDK group of its rings; None: as it is found
    policy: str = "unis"  # where this is the first of the run
    cpus: Sequence[int] = ()  # that the launcher may use

    def joined(self) -> str | None:
        """The DPDK group to join, where there are rings. LaunchError if none is found."""
        if all(end.startswith("memif") for path in self.paths for end in path):
            return None
        group = self.group or group_of(self.pid)
        if not is_name(group):
            raise LaunchError(
                f"`{group}` cannot be a DPDK group here: letters, digits, `.`, `-` and `_`, a "
                "letter or digit first"
            )
        return group

    def function(self) -> AttachedFunction:
        """What it is on this machine; LaunchError where an end of it is not found."""
        paths = tuple(AttachedPath(self._end(i), self._end(e)) for i, e in self.paths)
        return AttachedFunction(self.name, self.pid, self.cpu, self.cost_ns, paths)

    def _end(self, text: str) -> End:
        if (end := END.fullmatch(text)) is None:
            raise LaunchError(f"invalid end of a path `{text}`; expected {END_FORM}")
        ring, position, role, receives, sends = end.groups()
        if ring:
            return RingEnd(ring)
        queues = (int(receives), int(sends)) if receives else None
        return find_end(self.pid, int(position or 0), role, queues)


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


class Attendant:
    """Looks after what is attached."""

    def __init__(self, run: Run, plan: AttachedPlan) -> None:
        self._run = run
        self._plan = plan  # the run's, as its kind has it
        self._group = plan.engine.joins
        self._started = False
        self._backoff = Backoff()
        self._unisd_since = time.monotonic()

    # ------------------------------------------------------------------ come and go

    def attach(self, request: AttachRequest) -> None:
        """Takes hold of a function, and lets the scheduler have it."""
        if not is_name(request.name):
            raise LaunchError(
                f"invalid name of a function {request.name!r}; expected letters, digits, `-`, `_`"
            )
        function = request.function()
        identity = ProcessId.of(request.pid)
        if identity is None or not identity.alive():
            raise LaunchError(f"there is no process {request.pid}")
        require_nobodys(identity, self._plan.name)
        for other in self._plan.attached:
            if other.pid == function.pid or other.name == function.name:
                raise LaunchError(f"{other.name} (pid {other.pid}) is attached already")
        if (group := request.joined()) and group != self._group:
            joined = f"is in DPDK group {self._group}" if self._group else "is in no DPDK group"
            raise LaunchError(
                f"run `{self._plan.name}` {joined}, and the rings are in group {group}: attach "
                "with another --name"
            )
        before = self._plan
        after = before.with_attached([*before.attached, function])
        if disputed := after.disputed():
            raise LaunchError(
                f"{function.name} and the other function of {', '.join(disputed)} have different "
                "queues of it: say the same of both, the one's RX as the other's TX"
            )
        claim_more(after, self._run.state, self._run.record)
        noted = FunctionProcess(function.name, function.cpu, identity)
        try:
            self._run.record(functions=self._run.state.with_function(noted))
            keep_off(after.cpus)
            self._become(after)
            self._hold(function)
            self._start()
        except BaseException:
            self._drop(function.name)
            raise

    def _hold(self, function: AttachedFunction) -> None:
        alive = self._run.check_platform
        self._run.client.attach(function.name, function.pid, alive, _ATTACH_SECONDS)

    def _start(self) -> None:
        if not self._started:
            options = self._run.options
            policy = options.policy or self._plan.policy
            controller = options.controller or self._plan.controller
            self._run.client.start(names.policy(policy), names.controller(controller))
            self._started = True

    def detach(self, name: str) -> None:
        """Gives a function back as it was found."""
        if all(function.name != name for function in self._plan.attached):
            raise LaunchError(f"no function {name} is attached to `{self._plan.name}`")
        self._run.client.detach(name)
        self._drop(name)

    def _drop(self, name: str, patience: float = PATIENCE) -> None:
        with contextlib.suppress(EngineError):  # it is not attached any more, or not yet
            self._run.client.detach(name, patience)
        left = [function for function in self._plan.attached if function.name != name]
        self._become(self._plan.with_attached(left), patience)
        noted = [one for one in self._run.state.functions if one.name != name]
        self._run.record_event(functions=noted, cpus=sorted(self._plan.cpus))

    def _become(self, plan: AttachedPlan, patience: float = PATIENCE) -> None:
        self._run.client.apply(plan.deploy({}, self._run.state.run_id), patience)
        self._run.plan = self._plan = plan

    # ------------------------------------------------------------------ while they run

    def wait(self) -> None:
        """Till the last function is detached. RunFailedError if the run cannot go on."""
        control = ControlSocket(self._run.directory.control)
        with contextlib.closing(control):
            while self._plan.attached:
                try:
                    self._look(control)
                    self._run.write_again()
                except UnisError:
                    raise
                except Exception:
                    self._run.fault("looking after the functions")
                    time.sleep(_AGAIN_SECONDS)  # what failed may fail at once again

    def _look(self, control: ControlSocket) -> None:
        self._sleep(control)
        self._see_to_platform()
        for function in self._run.state.functions:
            if not function.process.alive():
                self._died_if_free(function)
        if conversation := control.accept():
            with conversation:
                conversation.serve(self._answer, self._run.note)

    def _sleep(self, control: ControlSocket) -> None:
        pids = [process.pid for process in self._run.processes()]
        pids += [function.process.pid for function in self._run.state.functions]
        with contextlib.ExitStack() as stack:
            poll = select.poll()
            poll.register(control, select.POLLIN)
            for pid in pids:
                try:
                    descriptor = os.pidfd_open(pid)
                except ProcessLookupError:
                    return
                stack.callback(os.close, descriptor)
                poll.register(descriptor, select.POLLIN)
            poll.poll(_LOOK_SECONDS * 1000)

    def _died_if_free(self, function: FunctionProcess) -> None:
        """Once more at the next look, where the engine is busy or has just died."""
        try:
            self._died(function)
        except EngineError as error:
            if not (error.busy or error.gone):
                raise
            time.sleep(_AGAIN_SECONDS)

    def _died(self, function: FunctionProcess) -> None:
        self._drop(function.name, patience=0.0)
        self._run.tell(f"{function.name} (pid {function.process.pid}) has ended")
        if not self._plan.attached:
            raise RunFailedError(f"{function.name}, the last function attached, has ended")

    def _answer(self, request: dict[str, Any], say: Say) -> dict[str, Any]:
        run = self._run

        def tell(line: str) -> None:
            run.note(line)
            say(line)

        if request.get("what") == "policy":
            return change_policy(run, request)
        if request.get("what") == "attach":
            wanted = parsed(AttachRequest, request.get("attach"))
            self.attach(wanted)
            tell(f"{wanted.name} (pid {wanted.pid}) is attached on CPU {wanted.cpu}")
        elif request.get("what") == "detach":
            function = str(request.get("function"))
            self.detach(function)
            tell(f"{function} is detached")
        else:
            raise LaunchError(
                f"the functions of `{run.plan.name}` are attached: `unis attach` and `unis detach` "
                "change it"
            )
        return {"functions": [function.name for function in self._plan.attached]}

    # ------------------------------------------------------------------ unisd

    def _see_to_platform(self) -> None:
        if self._run.guard and self._run.guard.poll() is not None:
            self._run.tell("the guard died: starting another")
            Guard().do(self._run)
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
        run.tell(f"{words}; the functions go on under the kernel, and in {wait:g} s another starts")
        time.sleep(wait)
        self._unisd_since = time.monotonic()
        self._started = False
        try:
            Engine().do(run)
            for function in self._plan.attached:
                self._adopt_one(function)
            if self._plan.attached:
                self._start()
        except UnisError as error:
            if run.unisd and not run.unisd.ended():
                raise
            run.tell(str(error))  # it died again
            return
        run.tell(f"unisd has adopted {', '.join(one.name for one in self._plan.attached)}")

    def _adopt_one(self, function: AttachedFunction) -> None:
        try:
            self._hold(function)
        except EngineError as error:
            self._run.check_platform()
            self._run.tell(f"{function.name} is not attached any more: {error}")
            self._drop(function.name)


def _platform_cpu(wanted: int, cpus: Sequence[int]) -> int:
    """The CPU of the scheduler: one that no function has, best one that no scheduler has either."""
    taken = {cpu for other in others() for cpu in other.cpus} | {wanted}
    shared = {cpu for other in others() for cpu in other.platform_cpus}
    free = sorted({*cpus} - taken)
    if not free:
        raise LaunchError("the scheduler needs a CPU beside those of functions, and none is left")
    return next((cpu for cpu in free if cpu not in shared), free[0])


def run_attached(request: AttachRequest, parent: Parent) -> None:
    """Starts a run with this function, and ends when no function is attached any more."""
    with interrupts() as switch, contextlib.ExitStack() as stack:
        keep_to(request.cpus)
        request.function()  # what is wrong with it is told before anything is started
        group = request.joined()
        platform = _platform_cpu(request.cpu, sorted(Machine.this().cpus))
        plan = plan_attached(
            request.run, request.cpu, platform, places(request.run), group, request.policy
        )
        options = Options(policy=request.policy, start=False)
        run = stack.enter_context(running(plan, options, parent.report, switch))
        attendant = Attendant(run, plan)
        attendant.attach(request)
        run.tell(f"{request.name} (pid {request.pid}) is attached on CPU {request.cpu}")
        parent.finish(0)
        attendant.wait()
