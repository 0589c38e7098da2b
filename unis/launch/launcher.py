"""`unis up`: brings a chain up step by step, watches it, and takes it down whatever happens."""

import contextlib
import os
import select
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from unis import built
from unis.chain.deploy import deploy_request, pci_addresses
from unis.chain.load import LoadedChain
from unis.chain.machine import Machine
from unis.engine import names
from unis.engine.client import EngineClient, EngineError
from unis.launch import nf, preflight
from unis.launch.clean_up import clean_up
from unis.launch.costs import ESTIMATE_ROUNDS, Cost, CostCache, cost_key, sizes_of
from unis.launch.errors import LaunchError, RunFailedError
from unis.launch.interrupts import Interrupts
from unis.launch.process import ProcessId, keep_off
from unis.launch.state import (
    NfProcess,
    Phase,
    RunDirectory,
    RunState,
    last_lines,
    run_directory,
)
from unis.v1 import engine_pb2 as pb

_UNISD_SECONDS = 30.0  # until it answers: it reserves and clears packet memory first
_UNISD_END_SECONDS = 3.0
_BAD_USAGE = 2  # exit code of a program whose arguments or files are wrong
_UNANSWERED = 5  # calls of GetStats in a row that may fail while unisd lives

Report = Callable[[str], None]


@dataclass
class Options:
    """What the command line says beside the chain file."""

    policy: str | None = None
    start: bool = True  # False: attach the functions, but let no traffic run
    use_cache: bool = True
    estimate: bool = True
    sizes: list[int] = field(default_factory=list)  # to estimate with, instead of the traffic's


@dataclass
class _Child:
    what: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raises RunFailedError if it has ended."""
        code = self.process.poll()
        if code is None:
            return
        how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        sentence = f"{self.what} (pid {self.process.pid}) {how}"
        if lines := last_lines(self.log):
            sentence += f"; the end of {self.log}:\n{lines}"
        raise RunFailedError(sentence, bad_input=code == _BAD_USAGE)


class Run:
    """A chain that is coming up or running. Made by `running()`."""

    def __init__(self, chain: LoadedChain, machine: Machine, options: Options, report: Report):
        self.chain = chain
        self.machine = machine
        self.directory: RunDirectory = run_directory(chain.file.name)
        self._options = options
        self._report_line = report
        self._children: list[_Child] = []
        self._guard: subprocess.Popen[bytes] | None = None
        self._state: RunState | None = None
        self.client = EngineClient(self.directory.socket)
        self.costs: dict[str, Cost] = {}

    # ------------------------------------------------------------------ up

    def up(self) -> None:
        """Brings everything up; on any exception `take_down` undoes what was done."""
        hugepages = self._check()
        self._state = self._new_state(hugepages)
        self._start_guard()
        self._start_unisd()
        known = self._known_costs()
        request = deploy_request(self.chain, known)
        self._report("making rings and traffic")
        ports = {port.nf: port for port in self.client.deploy(request).ports}
        for function in self.chain.file.functions:
            self._start_nf(function.name, ports[function.name])
        if self._options.estimate:
            self._estimate(known)
        if self._options.start:
            policy = self._options.policy or self.chain.file.scheduler.policy
            self.client.start(names.policy(policy))
            self._report(f"running under policy {policy}")
        self._update(phase=Phase.RUNNING)

    def _check(self) -> Path:
        preflight.require_permission()
        built.unisd()
        built.port_driver()
        keep_off(self.chain.file.cpus, self.machine.cpus)
        preflight.clear_stale_runs(self._report_line)
        preflight.require_no_clash(self.chain, self.directory)
        return preflight.require_hugepages()

    def _new_state(self, hugepages: Path) -> RunState:
        me = ProcessId.of(os.getpid())
        assert me is not None  # noqa: S101  we run
        prefix = f"unis-{self.chain.file.name}"
        state = RunState(
            run_id=uuid.uuid4().hex,
            name=self.chain.file.name,
            chain_file=str(self.chain.path.resolve()),
            file_prefix=prefix,
            hugepage_dir=hugepages,
            runtime_dir=Path("/var/run/dpdk") / prefix,
            cpus=sorted(self.chain.file.cpus),
            platform_cpus=self.machine.platform_cpus(self.chain.file.cpus),
            supervisor=me,
            sysctls=preflight.original_sysctls(),
        )
        self.directory.path.mkdir(parents=True, exist_ok=True)
        self.directory.lock.touch()
        # EAL loads no driver from below a folder that everybody may write, such as /tmp.
        shutil.copy(built.port_driver(), self.directory.port_driver)
        for old in self.directory.path.glob("*.log"):  # of a run that failed
            old.unlink()
        self.directory.write(state)
        return state

    @property
    def _run(self) -> RunState:
        if self._state is None:
            raise RuntimeError("the run has no state yet")
        return self._state

    def _update(self, **changes: object) -> None:
        self._state = self._run.model_copy(update=changes)
        self.directory.write(self._state)

    def _report(self, line: str) -> None:
        self.note(line)
        self._report_line(line)

    def note(self, text: str) -> None:
        """Adds to the event log, which `unis down` of another terminal reads."""
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        with contextlib.suppress(OSError), self.directory.event_log.open("a") as stream:
            stream.writelines(f"{now} {line}\n" for line in text.splitlines())

    def _start_guard(self) -> None:
        with self.directory.event_log.open("ab") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-m", "unis.launch.guard", self.directory.path, self._run.run_id],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=built.clone(),
                start_new_session=True,
            )
        self._update(guard=ProcessId.of(self._guard.pid))

    def _tell_guard(self, line: str) -> None:
        if self._guard and self._guard.stdin:
            with contextlib.suppress(OSError):
                self._guard.stdin.write(f"{line}\n".encode())
                self._guard.stdin.flush()

    def _start_unisd(self) -> None:
        self._report("starting unisd")
        argv = [
            str(built.unisd()),
            *("--socket", str(self.directory.socket)),
            *("--file-prefix", self._run.file_prefix),
            *("--cpus", ",".join(map(str, self._run.platform_cpus))),
            *("--hugepage-dir", str(self._run.hugepage_dir)),
        ]
        for address in pci_addresses(self.chain.file.traffic):
            argv += ["--pci", address]
        process = nf.start(argv, self.directory.unisd_log, self._run.run_id, None)
        self._update(unisd=ProcessId.of(process.pid))
        self._tell_guard(f"unisd {process.pid}")
        child = _Child("unisd", process, self.directory.unisd_log)
        self._children.append(child)
        self.client.wait_ready(_UNISD_SECONDS, child.check)

    def _start_nf(self, name: str, port: pb.NfPort) -> None:
        function = next(f for f in self.chain.file.functions if f.name == name)
        self._report(f"starting {name} on CPU {function.cpu}")
        argv = nf.command(
            nf.program_of(function, self.chain),
            function,
            port,
            self.directory.port_driver,
            self._run.file_prefix,
        )
        log = self.directory.nf_log(name)
        process = nf.start(argv, log, self._run.run_id, self.chain.directory)
        if identity := ProcessId.of(process.pid):
            started = NfProcess(name=name, cpu=function.cpu, process=identity)
            self._update(nfs=[*self._run.nfs, started])
        child = _Child(f"function {name}", process, log)
        self._children.append(child)
        try:
            self.client.attach(name, process.pid, child.check)
        except EngineError:
            child.check()  # its own last words say more
            raise
        child.check()

    # ------------------------------------------------------------------ costs

    def _sizes(self) -> list[int]:
        return self._options.sizes or sizes_of(self.chain.file.traffic)

    def _key(self, name: str) -> str:
        function = next(f for f in self.chain.file.functions if f.name == name)
        program = nf.program_of(function, self.chain)
        return cost_key(program, function, self.chain.directory, self._sizes())

    def _known_costs(self) -> dict[str, float]:
        if not self._options.use_cache:
            return {}
        cache = CostCache()
        for function in self.chain.file.functions:
            if cost := cache.get(self._key(function.name)):
                self.costs[function.name] = cost
        return {name: cost.ns for name, cost in self.costs.items()}

    def _estimate(self, known: dict[str, float]) -> None:
        wanted = [
            function.name
            for function in self.chain.file.functions
            if function.mean_cost_ns is None and function.name not in known
        ]
        if wanted:
            self.estimate(wanted)

    def estimate(self, functions: Sequence[str]) -> None:
        """Measures what a packet costs each function, and remembers it in `costs`."""
        self._report(f"measuring what a packet costs {', '.join(functions)}")
        self._measure_costs(functions, ESTIMATE_ROUNDS)
        for name in functions:
            self._report(f"{name}: {self.costs[name].ns:.1f} ns a packet")
            CostCache().put(self._key(name), self.costs[name])

    def estimate_again(self, rounds: int = 200) -> None:
        """Measures all costs anew while the chains run; traffic pauses for some tenths of a second.

        A machine that others share may be half as fast as when the costs were first measured.
        """
        self._measure_costs([function.name for function in self.chain.file.functions], rounds)

    def _measure_costs(self, functions: Sequence[str], rounds: int) -> None:
        for estimate in self.client.estimate(functions, self._sizes(), rounds):
            self.costs[estimate.nf] = Cost.of(estimate)

    # ------------------------------------------------------------------ watch

    def watch(self, on_stats: Callable[[pb.Stats], None], interval: float = 1.0) -> None:
        """Calls `on_stats` every so many seconds, till an exception: a death or an interrupt."""
        unanswered = 0
        while True:
            self.wait(interval)
            try:
                stats = self.client.stats()
            except EngineError as error:
                unanswered += 1
                if unanswered >= _UNANSWERED:
                    raise RunFailedError(str(error)) from None
                continue
            unanswered = 0
            if stats.failure:
                raise RunFailedError(f"unisd gave up: {stats.failure}")
            on_stats(stats)

    def wait(self, seconds: float) -> None:
        """Sleeps; raises RunFailedError as soon as a process of the run dies."""
        with contextlib.ExitStack() as stack:
            poll = select.poll()
            for process in [child.process for child in self._children] + self._guards():
                self.check()
                try:
                    descriptor = os.pidfd_open(process.pid)
                except ProcessLookupError:
                    continue
                stack.callback(os.close, descriptor)
                poll.register(descriptor, select.POLLIN)
            poll.poll(seconds * 1000)
        self.check()

    def _guards(self) -> list[subprocess.Popen[bytes]]:
        return [self._guard] if self._guard else []

    def check(self) -> None:
        """Raises RunFailedError if a process of the run has died."""
        for child in self._children:
            child.check()
        if self._guard and self._guard.poll() is not None:
            raise RunFailedError("the guard that cleans up after a crash died")

    # ------------------------------------------------------------------ down

    def take_down(self, reason: str | None) -> tuple[pb.Account | None, list[str]]:
        """Undoes everything; the last account of packets, and what could not be undone."""
        account = None
        problems: list[str] = []
        if self._state:
            with contextlib.suppress(OSError):
                self._update(phase=Phase.STOPPING, reason=reason or "")
            account = self._stop_engine()
            if account:
                self.note(f"account: {account_line(account)}")
            if reason:
                self.note(reason)
            problems = clean_up(self.directory, self._run.run_id, reason)
        self.client.close()
        self._tell_guard("down")
        self._reap()
        return account, problems

    def _stop_engine(self) -> pb.Account | None:
        unisd = next((c.process for c in self._children if c.what == "unisd"), None)
        if unisd is None or unisd.poll() is not None:
            return None
        try:
            account = self.client.stop()
        except EngineError:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            unisd.wait(_UNISD_END_SECONDS)
        return account

    def _reap(self) -> None:
        if self._guard and self._guard.stdin:
            with contextlib.suppress(OSError):
                self._guard.stdin.close()
        end = time.monotonic() + 1.0
        for process in [child.process for child in self._children] + self._guards():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))


def account_line(account: pb.Account) -> str:
    """offered = delivered + dropped + in flight, in one line."""
    dropped = {
        "first ring full": account.dropped_ingress_full,
        "a ring full": account.dropped_egress_full,
        "by functions": account.dropped_by_function,
        "unclassified": account.unclassified,
        "at the sink": account.dropped_sink,
    }
    parts = [f"{count:,} {why}" for why, count in dropped.items() if count]
    causes = f" ({', '.join(parts)})" if parts else ""
    line = (
        f"{account.offered:,} offered = {account.delivered:,} delivered + "
        f"{sum(dropped.values()):,} dropped{causes} + {account.in_flight:,} in flight"
    )
    # While packets move, counters are read one after the other and need not add up.
    missing = account.unaccounted if account.exact else 0
    return line + (f"; {missing:,} unaccounted for" if missing else "")


@contextlib.contextmanager
def running(
    chain: LoadedChain, machine: Machine, options: Options, report: Report, switch: Interrupts
) -> Iterator[Run]:
    """Brings `chain` up; takes it down when the block ends, however it ends."""
    run = Run(chain, machine, options, report)
    reason: str | None = None
    try:
        run.up()
        yield run
    except (LaunchError, RunFailedError, EngineError) as error:
        reason = str(error)
        raise
    finally:
        switch.hold()
        account, problems = run.take_down(reason)
        if account and account.offered:
            report(account_line(account))
        for problem in problems:
            report(problem)
