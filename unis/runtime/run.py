"""A run: its notes on disk, its processes, and the engine that they belong to."""

import contextlib
import dataclasses
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

from unis import links
from unis.engine import names
from unis.engine.client import EngineClient, EngineError
from unis.errors import UnisError
from unis.plan.model import FunctionPlan, Plan
from unis.plan.wiring import POLLING_POLICIES, waiting_refused
from unis.runtime import child, contained
from unis.runtime.cgroup import Leaf
from unis.runtime.child import Child, Command, Process
from unis.runtime.costs import Cost, remember_switch
from unis.runtime.directory import RunDirectory, run_directory
from unis.runtime.errors import LaunchError, NotAllowedError, RunFailedError, internal_error
from unis.runtime.files import appending, locked, written
from unis.runtime.interrupts import Interrupts
from unis.runtime.open_files import has_polled
from unis.runtime.orphans import FUNCTION_MARK, Orphan, left_behind, mark_of
from unis.runtime.privileges import Rights
from unis.runtime.process import children
from unis.runtime.state import RUN_MARK, Phase, RunState
from unis.runtime.xdp_sockets import of_ports
from unis.v1 import engine_pb2 as pb
from unis.v1.common_pb2 import Policy
from unis.v1.engine_pb2 import ControllerKind
from unis.workload import COUNTED

_PARTING_SECONDS = 5.0  # for a function that goes into the background, once it has forked
_ENDING_SECONDS = 1.0  # for one whose end the engine has seen already
_POLLING_SECONDS = 20.0  # until the plug-in has seen a function poll
_LOOK_SECONDS = 0.02


@dataclasses.dataclass
class Options:
    """What the command line says beside the chain file."""

    policy: str | None = None
    controller: str | None = None
    start: bool = True  # False: attach the functions, but let no traffic run
    # Of functions whose cost the file does not state. `kept`: as they were here lately. `measured`:
    # what is not kept is measured before the start, as always under `cost: static`. `anew`: all is.
    costs: Literal["unknown", "kept", "measured", "anew"] = "kept"
    again: bool = False  # it was up before: `unis ps` tells why it is no longer
    sizes: list[int] = dataclasses.field(
        default_factory=list
    )  # to measure with, instead of the traffic's


class Switch(Protocol):
    """Processes that carry the packets of links."""

    due: float  # when it is started again (monotonic)

    def follow(self, plan: Plan, *, only: bool = False) -> None:
        """Has what the links of the plan need; with `only` nothing else. UnisError."""

    def living(self) -> list[Child]:
        """Its processes that run."""

    def check(self) -> None:
        """Raises RunFailedError if one has ended."""

    def reconcile(self) -> None:
        """Tells when it has died, and starts it again after a while that grows."""

    def end(self) -> None:
        """Ends all."""


class Run:
    """A chain that is coming up or running. Made by `running()`."""

    def __init__(
        self,
        plan: Plan,
        options: Options,
        report: Callable[[str], None],
        switch: Interrupts,
        costs: Mapping[str, Cost] | None = None,  # known before, by function
    ):
        self.plan = plan
        self.options = options
        self.directory: RunDirectory = run_directory(plan.name)
        self.client = EngineClient(self.directory.socket)
        self.costs: dict[str, Cost] = dict(costs or {})
        self.leaf: Leaf | None = None
        self.guard: subprocess.Popen[bytes] | None = None
        self.report = report
        self.switch = switch
        self.functions: dict[str, Child] = {}  # those that were started, by name
        self.unisd: Child | None = None
        self.ovs: Switch | None = None  # once a link of that kind was there
        self._coming: set[str] = set()  # functions that were started and not attached yet
        self._state: RunState | None = None
        self._faults: dict[str, str] = {}  # the last traceback, by what was being done
        self._unwritten = False  # whether `state` says more than the disk

    # ------------------------------------------------------------------ state

    def claimed(self, state: RunState) -> None:
        """What was noted first."""
        self._state = state

    @property
    def has_claimed(self) -> bool:
        """Whether anything is noted, and may have to be undone."""
        return self._state is not None

    @property
    def state(self) -> RunState:
        """What is noted: on disk, or in `record_event` until it can be written."""
        if self._state is None:
            raise RuntimeError("the run has claimed nothing yet")
        return self._state

    def record(self, **changes: Any) -> None:
        """Notes what is going to be done. LaunchError: it cannot be written, and is not noted.
        RunFailedError: others have undone the run.
        """
        changed = self.state.with_changes(**changes)
        self._write(changed)
        self._state = changed

    def record_event(self, **changes: Any) -> None:
        """Notes what has happened. Where it cannot be written, it is told, and `write_again` tries
        again: no run ends for it. RunFailedError: others have undone the run.
        """
        self._state = self.state.with_changes(**changes)
        was, self._unwritten = self._unwritten, True
        try:
            self._write(self._state)
        except LaunchError as error:
            if not was:
                self.tell(f"{error} The run goes on, and will write it again")

    def record_function(self, name: str, **changes: Any) -> None:
        """`record_event` of a function that was started; nothing of any other."""
        if noted := self.state.function(name):
            changed = dataclasses.replace(noted, **changes)
            self.record_event(functions=self.state.with_function(changed))

    def write_again(self) -> None:
        """Writes what could not be written so far, if anything."""
        if self._unwritten:
            self.record_event()

    def _write(self, state: RunState) -> None:
        with written(self.directory.path), locked(self.directory.lock):
            # While we were stopped the guard may have: then the name is free, or another's.
            noted = self.directory.read()
            if noted and (noted.run_id != state.run_id or noted.undone()):
                raise RunFailedError(f"another process has cleaned up `{state.name}`")
            self.directory.write(state)
        self._unwritten = False

    def tell(self, line: str) -> None:
        """To the user and to the log. No run ends because a line cannot be written."""
        self.note(line)
        with contextlib.suppress(OSError):
            self.report(line)

    def note(self, text: str) -> None:
        """Adds to the event log, which `unis down` of another terminal reads."""
        if self._is_replaced():
            return
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        with contextlib.suppress(OSError), appending(self.directory.event_log) as stream:
            stream.writelines(f"{now} {line}\n".encode() for line in text.splitlines())

    def fault(self, doing: str) -> None:
        """Tells of the exception that is handled now, for which no run ends.

        The same at every look is told once.
        """
        error, words = sys.exception(), traceback.format_exc()
        if words != self._faults.get(doing):
            self._faults[doing] = words
            self.note(words)
            sentence = str(error) if isinstance(error, UnisError) else internal_error(error)
            self.tell(f"{sentence} while {doing}; the run goes on")

    def _is_replaced(self) -> bool:
        """Whether the folder is that of a later run of this name."""
        with contextlib.suppress(NotAllowedError):
            noted = self.directory.read()
            return noted is not None and (self._state is None or noted.run_id != self._state.run_id)
        return True

    def tell_guard(self, line: str) -> None:
        """`unisd PID` or `down`."""
        if self.guard and self.guard.stdin:
            with contextlib.suppress(OSError):
                self.guard.stdin.write(f"{line}\n".encode())
                self.guard.stdin.flush()

    def start_function(self, function: FunctionPlan, argv: Sequence[str]) -> Child:
        """Starts the process of a function; while the run starts, its death ends the run."""
        marks = {RUN_MARK: self.state.run_id, FUNCTION_MARK: self._mark(function.name)}
        if function.container:
            started = contained.start(
                function, function.container, argv, self.directory, marks, self.leaf
            )
        else:
            command = Command(
                [str(function.program), *argv],
                env={**function.env, **marks},
                cwd=function.cwd,
                rights=Rights(function.user, function.capabilities, function.folder),
                stdin=function.stdin,
                terminal=function.terminal,
                namespace=function.namespace,
            )
            started = child.start(
                f"function {function.name}",
                command,
                self.directory.function_log(function.name),
                self.state.run_id,
                leaf=self.leaf,
            )
        self.functions[function.name] = started
        self._coming.add(function.name)
        return started

    def forget(self, function: str) -> None:
        """A function whose process has ended is not looked after any more."""
        self.functions.pop(function, None)
        self._coming.discard(function)

    def attach(self, function: str) -> None:
        """Waits till it polls; RunFailedError with the words of a process that died meanwhile."""

        def alive() -> None:
            if self.state.phase == Phase.STARTING:
                self.check()
            else:  # a neighbour's death is none of its business
                self.check_platform()
                # The function waits in vain if a server that it connects to is dead.
                servers = self.plan.servers(self.plan.function(function))
                for name in (function, *servers & self.functions.keys()):
                    self.check_function(name)

        attached = None
        while attached is not (process := self.functions[function].process):
            try:
                self._await_polling(function, alive)
                sockets = self._sockets_of(function, alive)
                process = self.functions[function].process
                self.client.attach(function, process.pid, alive, xdp_sockets=sockets)
            except (EngineError, LaunchError) as error:
                # One of its children may poll already; else it may be about to end.
                patience = _PARTING_SECONDS if children(process.pid) else _ENDING_SECONDS
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(patience)
                alive()  # its own last words say more
                if self.functions[function].process is process:
                    raise RunFailedError(self._not_polling(function, error)) from None
                continue
            attached = process
            alive()
        self._coming.discard(function)

    def _await_polling(self, function: str, alive: Callable[[], None]) -> None:
        """Of a function whose links the engine cannot look into: it would take one that still
        starts, and does not sleep, for one that polls.
        """
        plan = self.plan.function(function)
        ends = {port.rx or port.tx for port in plan.ports}
        unseen = {one.name for one in self.plan.links if links.KINDS[one.kind].binds(one)}
        # Of a wire, whatever its driver, the engine finds the counts before there is a port.
        if not plan.plugin or not (ends & unseen or COUNTED in plan.env):
            return
        until = time.monotonic() + _POLLING_SECONDS
        while not has_polled(self.functions[function].process.pid) and time.monotonic() < until:
            alive()
            time.sleep(_LOOK_SECONDS)

    def _sockets_of(self, function: str, alive: Callable[[], None]) -> Mapping[int, int]:
        """By its ports, those that the engine cannot find; LaunchError if it does not open them."""
        named = {link.name: link for link in self.plan.links}
        devices: dict[int, str] = {}
        for at, port in enumerate(self.plan.function(function).ports):
            link = named.get(port.rx or port.tx)
            if link and (kind := links.KINDS[link.kind]).sockets_told:
                devices[at] = kind.devices(link)[port.end]
        return of_ports(lambda: self.functions[function].process.pid, devices, alive)

    def _not_polling(self, function: str, error: UnisError) -> str:
        is_command = self.plan.function(function).stdin is not None
        hint = ". If it waits for a command on its console, add --auto-start or write it in `stdin`"
        return f"{error}{hint * is_command}{self.functions[function].end_of_log()}"

    def check_function(self, name: str) -> None:
        """Raises RunFailedError if it has ended. One that comes up may leave another process in
        its place, which is the function from then on: so do those that go into the background.
        """
        child = self.functions[name]
        if name in self._coming and child.process.poll() == 0:
            self._follow(name, child)
        self.functions[name].check(starting=self.state.phase == Phase.STARTING)

    def _follow(self, name: str, child: Child) -> None:
        heir = left_behind(self._mark(name), child.process.pid)
        if heir is None:
            return
        self.tell(f"{name} goes on in the background, as process {heir.pid}")
        self.functions[name] = dataclasses.replace(child, process=Orphan(heir.pid, child.process))
        self.record_function(name, process=heir)

    def _mark(self, function: str) -> str:
        return mark_of(self.state.run_id, function)

    # ------------------------------------------------------------------ policy

    def start_traffic(self) -> None:
        """Lets packets flow, and the engine schedule."""
        self.client.start(*self.policy_for(self.plan))
        with contextlib.suppress(EngineError):  # no reason to fail
            # What it measured at the start, by raising a priority whichever the controller.
            remember_switch("priority", self.client.stats(seconds=1).switch_ns)

    def policy_for(self, plan: Plan) -> tuple[Policy, ControllerKind]:
        """What `unis up` or `unis policy` said goes before any file."""
        policy = self.options.policy or plan.policy
        controller = self.options.controller or plan.controller
        return names.policy(policy), names.controller(controller)

    def deployment(self, plan: Plan) -> pb.DeployRequest:
        """What the engine is told of `plan`, with the costs that are known."""
        costs = {name: cost.ns for name, cost in self.costs.items()}
        return plan.deploy(costs, self.state.run_id)

    def set_policy(self, asked: pb.PolicyRequest) -> None:
        """As if the command line of `unis up` had said it: it counts when the run comes again."""
        other = f"choose another policy, such as `unis policy other {self.plan.name}`"
        require_polling(self.plan, names.policy_name(asked.policy), other)
        self.client.set_policy(asked.policy, asked.controller or None)
        policy, controller = names.policy_name(asked.policy), self.options.controller
        if asked.controller:
            controller = names.controller_name(asked.controller)
        self.options = dataclasses.replace(self.options, policy=policy, controller=controller)
        self.record_event(policy=policy, controller=controller)

    # ------------------------------------------------------------------ watch

    def processes(self, without: Collection[str] = ()) -> list[Process]:
        """Of functions but those in `without`, of engine and guard."""
        functions = [child for name, child in self.functions.items() if name not in without]
        switch = self.ovs.living() if self.ovs else []
        children = [*functions, *switch, *([self.unisd] if self.unisd else [])]
        return [*(child.process for child in children), *([self.guard] if self.guard else [])]

    def check(self) -> None:
        """Raises RunFailedError if a process of the run has died."""
        self.check_platform()
        if self.ovs:
            self.ovs.check()
        for name in self.functions:
            self.check_function(name)

    def engine_died(self) -> bool:
        """Whether unisd has ended, though nobody asked it to."""
        return self.unisd is not None and self.unisd.process.poll() is not None

    def check_platform(self) -> None:
        """Raises RunFailedError if a process has died without which there is no run."""
        if self.unisd:
            self.unisd.check(starting=self.state.phase == Phase.STARTING)
        if self.guard and self.guard.poll() is not None:
            raise RunFailedError("the guard that cleans up after a crash died")

    def wait_for_ends(self, seconds: float = 1.0) -> None:
        """Till the processes have ended, whose end was asked for."""
        if self.guard and self.guard.stdin:
            with contextlib.suppress(OSError):
                self.guard.stdin.close()
        end = time.monotonic() + seconds
        for process in self.processes():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))


def require_polling(plan: Plan, policy: str | None, mend: str) -> None:
    """LaunchError, with what mends it, if functions would wait in their receive call under a
    policy, else the plan's, that has them poll.
    """
    policy = policy or plan.policy
    waiting = [function.name for function in plan.functions if function.waits]
    if waiting and policy in POLLING_POLICIES:
        raise LaunchError(f"a link of {waiting[0]} has `wait`: {waiting_refused(policy, mend)}")
