"""Open vSwitch of a run: two processes, and a bridge for each link of kind `ovs`.

Nothing of it is the host's own Open vSwitch: database, sockets and notes are in a folder of the
run, the log is beside the others. Its datapath type is `dummy`, which is the userspace datapath
without the tap devices that `netdev` would make, under names that only one process can have.
"""

from __future__ import annotations

import contextlib
import csv
import math
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

from unis import links
from unis.errors import UnisError
from unis.links.ovs import FOLDER, PID_FILE, find
from unis.links.veth import details_of
from unis.runtime import child
from unis.runtime.child import Child, Command
from unis.runtime.errors import LaunchError, RunFailedError
from unis.runtime.files import own_directory, remove_tree
from unis.runtime.functions import Backoff
from unis.runtime.kernel_classes import CLASSES, REAL_TIME, class_name
from unis.runtime.process import ProcessId, end
from unis.runtime.state import FunctionProcess

if TYPE_CHECKING:
    from unis.plan.model import Plan
    from unis.runtime.run import Run

_SECONDS = 10  # for one of its tools
_GENTLE_SECONDS = 0.5
_SERVER, _SWITCH = "ovsdb-server", "ovs-vswitchd"


def follow(run: Run, plan: Plan) -> None:
    """What the links of `plan` need is there afterwards. UnisError if it cannot be."""
    if plan.switch:
        run.ovs = run.ovs or SwitchProcesses(run)
        run.ovs.follow(plan)


def leave(run: Run, plan: Plan) -> None:
    """Ends what no link of `plan` needs, and gives what stays the settings of the plan."""
    if run.ovs is None:
        return
    try:
        if plan.switch:
            run.ovs.follow(plan, only=True)
        else:
            run.ovs.end()
            run.ovs = None
            run.record_event(ovs=None)
    except UnisError as error:
        run.tell(str(error))


class SwitchProcesses:
    """Its two processes."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.due = math.inf  # when it is started again (monotonic)
        self._children: list[Child] = []  # the database's first
        self._plan: Plan | None = None
        self._bridges: set[str] = set()  # that carry packets
        self._folder = run.directory.links / FOLDER
        self._log = run.directory.path / "ovs.log"
        self._backoff = Backoff()
        self._since = 0.0

    def follow(self, plan: Plan, *, only: bool = False) -> None:
        """Makes a bridge for each link of the plan; with `only` removes all others. LaunchError."""
        self._plan = plan
        if math.isfinite(self.due):  # it is down: the next start does all this
            return
        if not self._children:
            self._start(plan)
        self._join(plan, only=only)
        self._settle(plan)

    def living(self) -> list[Child]:
        """Its processes that run."""
        return [child for child in self._children if not child.ended()]

    def check(self) -> None:
        """Raises RunFailedError if one has ended."""
        for each in self._children:
            each.check()

    def reconcile(self) -> None:
        """Tells when it has died, and starts it again after a while that grows."""
        if time.monotonic() >= self.due:
            self._start_again()
        elif dead := next((each for each in self._children if each.ended()), None):
            self._died(dead)

    def end(self) -> None:
        """Ends both."""
        self.due = math.inf
        found = [ProcessId.of(each.process.pid) for each in reversed(self.living())]
        for problem in end(
            [each for each in found if each], "Open vSwitch", gentle_seconds=_GENTLE_SECONDS
        ):
            self.run.tell(problem)
        self._children, self._bridges = [], set()

    # ------------------------------------------------------------------ death

    def _died(self, dead: Child) -> None:
        run = self.run
        run.tell(f"{dead.last_words()}\nlinks of kind ovs carry nothing meanwhile")
        if run.state.ovs:
            noted = run.state.ovs
            run.record_event(
                ovs=FunctionProcess(
                    noted.name, noted.cpu, noted.process, noted.restarts, dead.ended()
                )
            )
        self.end()
        self._tell_engine()
        wait = self._backoff.after(time.monotonic() - self._since)
        run.tell(f"Open vSwitch restarts in {wait:g} s")
        self.due = time.monotonic() + wait

    def _start_again(self) -> None:
        self.due = math.inf
        if self._plan is None:
            return
        try:
            self.follow(self._plan)
        except UnisError as error:
            self.end()
            wait = self._backoff.after(0.0)
            self.run.tell(
                f"Open vSwitch could not be restarted: {error}; the next try is in {wait:g} s"
            )
            self.due = time.monotonic() + wait
            return
        self.run.tell("Open vSwitch runs again")

    def _tell_engine(self) -> None:
        """When it counts drops it lets go the ports of one that has ended. Soon it would by itself,
        but what waits at two counts twice.
        """
        with contextlib.suppress(UnisError):
            self.run.client.stats()

    # ------------------------------------------------------------------ start

    def _start(self, plan: Plan) -> None:
        for problem in remove_tree(self._folder):
            raise LaunchError(problem, bad_input=False)
        own_directory(self._folder, 0o700)
        _needed(_SWITCH)
        schema = _needed("vswitch.ovsschema")
        self._tool("ovsdb-tool", "create", "conf.db", schema)
        before = self.run.state.ovs
        self._since = time.monotonic()
        self._spawn(_SERVER, "conf.db", "--remote=punix:db.sock", "--unixctl=db.ctl")
        self._wait_for("db.sock")
        self._tool("ovs-vsctl", "--no-wait", *_DATABASE, "init")
        # It must not use the kernel's datapath, where there is one.
        own = (
            "--enable-dummy",
            "--disable-system",
            "--unixctl=vswitchd.ctl",
            f"--pidfile={self._folder / PID_FILE}",
        )
        switch = self._spawn(_SWITCH, "unix:db.sock", *own)
        self._wait_for(PID_FILE)
        if process := ProcessId.of(switch.process.pid):
            cpu = plan.switch.cpus[0] if plan.switch else 0
            restarts = before.restarts + 1 if before else 0
            self.run.record_event(ovs=FunctionProcess(_SWITCH, cpu, process, restarts))

    def _spawn(self, program: str, *words: str) -> Child:
        command = Command(
            [_needed(program), "-vconsole:info", "-vsyslog:off", "-vfile:off", *words],
            env=self._env(),
            cwd=self._folder,
        )
        started = child.start(
            program, command, self._log, self.run.state.run_id, leaf=self.run.leaf
        )
        self._children.append(started)
        return started

    def _env(self) -> dict[str, str]:
        """Where it looks for what, instead of in the host's folders."""
        return {f"OVS_{what}DIR": str(self._folder) for what in ("RUN", "LOG", "DB", "SYSCONF")}

    def _wait_for(self, file: str) -> None:
        until = time.monotonic() + _SECONDS
        while not (self._folder / file).exists():
            self.check()
            if time.monotonic() > until:
                raise RunFailedError(
                    f"{file} of Open vSwitch is not there after {_SECONDS} s; see {self._log}"
                )
            time.sleep(0.005)

    def _tool(self, program: str, *words: str, said: str = "") -> str:
        """What it answers. RunFailedError with what it said."""
        try:
            done = subprocess.run(
                [_needed(program), *words],
                cwd=self._folder,
                env={**os.environ, **self._env()},
                input=said,
                capture_output=True,
                text=True,
                timeout=2 * _SECONDS,
                check=False,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunFailedError(f"{program}: {error}; see {self._log}") from None
        if done.returncode:
            self.check()
            raise RunFailedError(f"{program}: {done.stderr.strip()}; see {self._log}")
        return done.stdout

    # ------------------------------------------------------------------ bridges

    def _join(self, plan: Plan, *, only: bool) -> None:
        wanted = {
            links.KINDS["ovs"].made(link): details_of(link).ports
            for link in plan.links
            if link.kind == "ovs"
        }
        # Also what a call that failed has left.
        there = self._tool("ovs-vsctl", *_DATABASE, "list-br").split() if only else []
        gone = {*there} - {*wanted}
        new = [(name, ports) for name, ports in wanted.items() if name not in self._bridges]
        words = [word for name in gone for word in ("--", "--if-exists", "del-br", name)]
        for name, ports in new:
            words += ["--", "--may-exist", "add-br", name]
            words += ["--", "set", "Bridge", name, "datapath_type=dummy", "fail_mode=secure"]
            for number, port in enumerate(ports, 1):
                words += ["--", "--may-exist", "add-port", name, port]
                words += ["--", "set", "Interface", port, f"ofport_request={number}"]
        if not words:
            return
        self._tool("ovs-vsctl", *_DATABASE, *words)
        self._bridges -= gone
        asked = {port for _, ports in new for port in ports}
        if failed := [": ".join(row) for row in self._without_number() if row[0] in asked]:
            raise RunFailedError(f"Open vSwitch cannot use {', '.join(failed)}; see {self._log}")
        for name, _ in new:
            # What comes at one port leaves by the other; it learns nothing.
            self._tool(
                "ovs-ofctl",
                f"--timeout={_SECONDS}",
                "add-flows",
                f"unix:{name}.mgmt",
                "-",
                said=_FLOWS,
            )
            self._bridges.add(name)

    def _without_number(self) -> list[list[str]]:
        """The ports that it cannot use, each with its reason."""
        table = ("--format=csv", "--no-headings", "--columns=name,error")
        found = self._tool("ovs-vsctl", *_DATABASE, *table, "find", "Interface", "ofport=-1")
        return list(csv.reader(found.splitlines()))

    # ------------------------------------------------------------------ CPU and class

    def _settle(self, plan: Plan) -> None:
        """The main thread carries the packets, where no port is DPDK's; others stay aside."""
        switch = plan.switch
        process = ProcessId.of(self._children[-1].process.pid)
        if switch is None or process is None:
            return
        kernel = switch.kernel
        policy = CLASSES[kernel.policy or "other"]
        priority = kernel.priority or 0
        try:
            for thread in process.threads():
                main = thread == process.pid
                os.sched_setaffinity(thread, switch.cpus if main else plan.platform_cpus)
                if main:
                    param = os.sched_param(priority if kernel.policy in REAL_TIME else 0)
                    os.sched_setscheduler(thread, policy | os.SCHED_RESET_ON_FORK, param)
                    os.setpriority(os.PRIO_PROCESS, thread, kernel.nice or 0)
        except ProcessLookupError:  # a thread that has ended
            return
        except OSError as error:
            raise LaunchError(
                f"cannot set how the kernel runs {_SWITCH}: {error.strerror}", bad_input=False
            ) from None


def observed(noted: FunctionProcess) -> dict[str, Any]:
    """Of the thread that carries packets, as the kernel tells it now."""
    told: dict[str, Any] = {"pid": None, "restarts": noted.restarts, "ended": noted.ended}
    pid = noted.process.pid
    with contextlib.suppress(OSError):
        found = {
            "cpus": sorted(os.sched_getaffinity(pid)),
            "policy": class_name(os.sched_getscheduler(pid)),
            "priority": os.sched_getparam(pid).sched_priority,
            "nice": os.getpriority(os.PRIO_PROCESS, pid),
        }
        if noted.process.alive():
            told |= {"pid": pid, **found}
    return told


_DATABASE = ("--db=unix:db.sock", "--retry", f"--timeout={_SECONDS}")
_FLOWS = "in_port=1,actions=output:2\nin_port=2,actions=output:1\n"


def _needed(name: str) -> str:
    found = find(name)
    if found is None:
        raise LaunchError(
            f"links of kind ovs need Open vSwitch, and there is no {name} here: "
            "`apt-get install openvswitch-switch`; its service need not run"
        )
    return str(found)
