"""Kills parts of a run at random moments, and checks the consequences.

Three chains share one CPU. Functions of the first chain (rings) and of the second (memif) are
killed and stopped; the third is a bystander, which must lose no packet. Engine, launcher and guard
are killed too, one or two at once: then nothing of the run may be left on the machine. In every
second run a separate process sends the packets; it is killed and stopped as well.
"""

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from evaluation.leaks import leaks, rt_runtime_us
from unis.bench.third_party import testpmd
from unis.chain.model import API_VERSION
from unis.engine.client import EngineClient, EngineError
from unis.measure.paired import Quartiles
from unis.runtime.directory import RunDirectory, run_directory
from unis.runtime.errors import LaunchError
from unis.runtime.state import RunState
from unis.v1 import engine_pb2 as pb

_ACTIONS = ("kill", "kill", "stop", "stop-kill")
TARGETS = ("struck-1", "struck-2", "over-memif")  # functions; two of the first chain
SOURCE = "source"  # the process that sends the packets, in every second run
PARTS = ("unisd", "launcher", "guard")
_DNS = {"protocol": "udp", "dst_port": 53}
_DEVICES = Path("/sys/class/net")
_UNIS = str(Path(sys.executable).with_name("unis"))
_STOPPED_SECONDS = 0.05
_UP_SECONDS = 60.0
_END_SECONDS = 30.0  # timeout: nothing of the run is left
_BACK_SECONDS = 30.0  # timeout: a function delivers again, after its back-off
_POLL_SECONDS = 0.005
_SOURCE_PPS = 15_000
_SURVIVABLE = 0.75  # of strikes; each of the others ends the run, and a restart takes seconds


@dataclass(frozen=True)
class Strike:
    """A target, and what is done to it: kill, stop for a while, or stop and then kill."""

    target: str
    how: str  # kill, stop, stop-kill

    def __str__(self) -> str:
        return f"{self.how} {self.target}"


InjectedFault = tuple[Strike, ...]  # one strike, or two at once


class FaultOutcome(BaseModel):
    """One fault, and its consequences."""

    fault: str
    ends_the_run: bool
    seconds: float  # until the run had recovered, or nothing of it was left
    wrong: list[str]  # failed checks, as sentences


class FaultCounts(BaseModel):
    """The faults with the same strikes."""

    faults: int
    wrong: int
    seconds: Quartiles


class FaultsResult(BaseModel):
    """What `--json` writes."""

    seed: int
    program_over_memif: str  # the function struck in the second chain
    faults: int
    wrong: int
    kinds: dict[str, FaultCounts]
    failures: list[FaultOutcome]


def draw_fault(dice: random.Random, *, with_source: bool) -> InjectedFault:
    """Three strikes in four hit a function or the source, the others a part of the run.

    One fault in five has two strikes. `with_source`: a separate process sends the packets.
    """
    survivable = (*TARGETS, SOURCE) if with_source else TARGETS

    def strike() -> Strike:
        if dice.random() < _SURVIVABLE:
            return Strike(dice.choice(survivable), dice.choice(_ACTIONS))
        return Strike(dice.choice(PARTS), "kill")

    first = strike()
    if dice.random() >= 0.2:
        return (first,)
    second = strike()
    while second.target == first.target:
        second = strike()
    return (first, second)


def ends_the_run(fault: InjectedFault) -> bool:
    """Whether it hits engine, launcher or guard, without which a run ends."""
    return any(strike.target in PARTS for strike in fault)


def program_over_memif() -> tuple[str, dict[str, object]]:
    """Name and chain file entry: testpmd if it was fetched, else macswap."""
    if third_party := testpmd():
        return Path(third_party["command"][0]).name, third_party
    return "macswap", {"program": "macswap", "cost_ns": 60}


def chain_file(directory: Path, name: str, cpu: int, device: str | None = None) -> Path:
    """Three chains on one CPU at a rate that it sustains.

    `device`: the kernel device that the packets come from; None: synthetic packets.
    """
    macswap = {"program": "macswap", "cost_ns": 60, "cpu": cpu, "restart": "on-failure"}
    functions: dict[str, dict[str, object]] = {
        function: {**macswap} for function in (*TARGETS, "bystander")
    }
    first, second, over_memif = TARGETS
    functions[over_memif] = {**program_over_memif()[1], "cpu": cpu, "restart": "on-failure"}
    synthetic = {"source": {"kind": "synthetic", "size": 64, "flows": 16}, "rate": "200kpps"}
    from_device = {"source": {"kind": "port", "device": f"net_tap0,iface={device}"}}
    data = {
        "apiVersion": API_VERSION,
        "name": name,
        "traffic": from_device if device else synthetic,
        "functions": functions,
        "chains": {
            # 8192 slots hold 120 ms. To free a killed program's memory takes up to 28 ms of an idle
            # CPU, and longer on a busy machine.
            "bystander": {"match": [_DNS], "path": ["bystander"], "ring": 8192},
            "over-memif": {"match": [{"dst_port": 8080}], "path": [over_memif]},
            "struck": {"path": [first, second]},
        },
        "links": [
            {"from": "ingress", "to": over_memif, "kind": "memif"},
            {"from": over_memif, "to": "egress", "kind": "memif"},
        ],
    }
    file = directory / ("device.yaml" if device else "synthetic.yaml")
    file.write_text(json.dumps(data))  # JSON is YAML
    return file


class FaultInjector:
    """Strikes a run again and again, and restarts it when a fault has ended it."""

    def __init__(self, folder: Path, name: str, cpu: int, seed: int) -> None:
        self._device = f"unis{os.getpid()}"
        self._files = itertools.cycle(
            (chain_file(folder, name, cpu), chain_file(folder, name, cpu, self._device))
        )
        self._with_source = True  # toggled at each start: the first run has synthetic packets
        self._source: subprocess.Popen[bytes] | None = None
        self._dice = random.Random(seed)  # noqa: S311  # the same faults from the same seed
        self._directory: RunDirectory = run_directory(name)
        self._rt_runtime_before = rt_runtime_us()
        self._launcher: subprocess.Popen[bytes] | None = None

    # ------------------------------------------------------------------ up and down

    def up(self) -> None:
        """Starts the next run. LaunchError with the output of `unis up` if it delivers nothing."""
        self._with_source = not self._with_source
        with tempfile.TemporaryFile() as output:
            self._launcher = subprocess.Popen(
                [_UNIS, "up", str(next(self._files))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                _until(self._delivers, _UP_SECONDS, self._launcher_lives)
            except TimeoutError:
                output.seek(0)
                text = output.read().decode(errors="replace")
                raise LaunchError(f"the run did not come up:\n{text}") from None

    def down(self) -> None:
        """Ends the source and the run, if they are still there."""
        self._end_source()
        state = self._directory.read()
        if state and not state.undone():
            self._command("down")
        if self._launcher:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._launcher.wait(_END_SECONDS)

    def _launcher_lives(self) -> bool:
        return self._launcher is not None and self._launcher.poll() is None

    def _command(self, word: str) -> None:
        command = [_UNIS, word, self._directory.name]
        subprocess.run(command, capture_output=True, timeout=60, check=False)

    def _stats(self) -> pb.Stats | None:
        if not self._directory.socket.exists():
            return None
        with contextlib.suppress(EngineError), EngineClient(self._directory.socket) as client:
            return client.stats()
        return None

    def _start_source(self) -> None:
        words = [sys.executable, "-P", "-m", "evaluation.sender", self._device, str(_SOURCE_PPS)]
        self._source = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _end_source(self) -> None:
        if self._source:
            self._source.kill()
            self._source.wait()
            self._source = None

    def _sends(self) -> bool:
        return self._source is not None and self._source.poll() is None

    def _has_device(self) -> bool:
        return (_DEVICES / self._device).exists()

    def _delivers(self) -> bool:
        if self._with_source and self._has_device() and not self._sends():
            self._start_source()
        stats = self._stats()
        chains = list(stats.chains) if stats else []
        return bool(chains) and all(chain.delivered and not chain.down for chain in chains)

    # ------------------------------------------------------------------ one fault

    def strike(self) -> FaultOutcome:
        """Injects one fault, and checks the consequences."""
        fault = draw_fault(self._dice, with_source=self._with_source)
        state = self._directory.read()
        before = self._stats()
        if state is None or before is None:
            raise LaunchError("the run does not exist")
        time.sleep(self._dice.random() * 0.05)
        begin = time.monotonic()
        for strike in fault:
            _strike(self._pid_of(state, strike.target), strike.how)
        ends = ends_the_run(fault)
        wrong = (
            self._check_end(fault, state) if ends else self._check_recovery(fault, state, before)
        )
        seconds = time.monotonic() - begin
        if ends or wrong:
            self.down()
            self.up()
        name = " and ".join(str(strike) for strike in fault)
        return FaultOutcome(fault=name, ends_the_run=ends, seconds=seconds, wrong=wrong)

    def _check_end(self, fault: InjectedFault, state: RunState) -> list[str]:
        if {"launcher", "guard"} <= {strike.target for strike in fault}:
            self._command("down")  # neither is left to undo the run
        with contextlib.suppress(TimeoutError):
            _until(lambda: not self._leaks(state), _END_SECONDS)
        return [f"left: {leak}" for leak in self._leaks(state)]

    def _leaks(self, state: RunState) -> list[str]:
        devices = [str(_DEVICES / self._device)] if self._has_device() else []
        return leaks(state, self._rt_runtime_before) + devices

    def _check_recovery(self, fault: InjectedFault, state: RunState, before: pb.Stats) -> list[str]:
        killed = {strike.target for strike in fault if strike.how != "stop"}
        if SOURCE in killed:  # nothing of UNiS restarts it; the chains wait for it
            self._end_source()
            self._start_source()
            killed.remove(SOURCE)
        with contextlib.suppress(TimeoutError):
            _until(lambda: self._is_back(killed, state), _BACK_SECONDS)
        if not self._is_back(killed, state):
            return [f"not all of {', '.join(sorted(killed))} came back"]
        recovered = self._stats()
        with contextlib.suppress(TimeoutError):
            _until(lambda: self._delivers_since(recovered), _BACK_SECONDS)
        now = self._directory.read()
        wrong = []
        if now is None or (now.unisd, now.launcher) != (state.unisd, state.launcher):
            wrong.append("engine or launcher was replaced")
        if not self._delivers_since(recovered):
            wrong.append("a chain delivers nothing")
        return wrong + self._bystander_lost(before) + self._check_account()

    def _pid_of(self, state: RunState, target: str) -> int:
        function = state.function(target)
        parts = {
            "unisd": state.unisd, "launcher": state.launcher, "guard": state.guard,
            SOURCE: self._source,
        }  # fmt: skip
        process = function.process if function else parts.get(target)
        if process is None:
            raise LaunchError(f"{target} is not running")
        return process.pid

    def _is_back(self, killed: set[str], state: RunState) -> bool:
        now = self._directory.read()
        stats = self._stats()
        if now is None or stats is None or any(chain.down for chain in stats.chains):
            return False
        return all(now.function(name) != state.function(name) for name in killed)

    def _delivers_since(self, before: pb.Stats | None) -> bool:
        stats = self._stats()
        if before is None or stats is None:
            return False
        return all(
            chain.delivered > earlier.delivered
            for chain, earlier in zip(stats.chains, before.chains, strict=True)
        )

    def _bystander_lost(self, before: pb.Stats) -> list[str]:
        stats = self._stats()
        if stats is None:
            return ["the engine does not answer"]
        lost = _lost(stats) - _lost(before)
        return [f"the bystander chain lost {lost} packets"] if lost else []

    def _check_account(self) -> list[str]:
        try:
            with EngineClient(self._directory.socket) as client:
                account = client.settle()
        except EngineError as error:
            return [str(error)]
        if not account.exact:
            return [f"the account is not exact: {account.doubt}"]
        if account.unaccounted:
            return [f"{account.unaccounted} packets are not accounted for"]
        return []


def _lost(stats: pb.Stats) -> int:
    chain = next(chain for chain in stats.chains if chain.name == "bystander")
    function = next(function for function in stats.functions if function.name == "bystander")
    behind = sum(path.dropped_egress_full for path in function.paths)
    return int(chain.dropped_ingress_full + chain.dropped_down + behind)


def _strike(pid: int, how: str) -> None:
    with contextlib.suppress(ProcessLookupError):
        if "stop" in how:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(_STOPPED_SECONDS)
        os.kill(pid, signal.SIGCONT if how == "stop" else signal.SIGKILL)


def _until(
    condition: Callable[[], bool], seconds: float, alive: Callable[[], bool] = lambda: True
) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end or not alive():
            raise TimeoutError
        time.sleep(_POLL_SECONDS)


def summarise(seed: int, outcomes: Sequence[FaultOutcome]) -> FaultsResult:
    """Counts and failures by fault."""
    kinds: dict[str, list[FaultOutcome]] = {}
    for outcome in outcomes:
        kinds.setdefault(outcome.fault, []).append(outcome)
    return FaultsResult(
        seed=seed,
        program_over_memif=program_over_memif()[0],
        faults=len(outcomes),
        wrong=sum(bool(outcome.wrong) for outcome in outcomes),
        kinds={
            fault: FaultCounts(
                faults=len(same_fault),
                wrong=sum(bool(outcome.wrong) for outcome in same_fault),
                seconds=Quartiles.of([outcome.seconds for outcome in same_fault]),
            )
            for fault, same_fault in sorted(kinds.items())
        },
        failures=[outcome for outcome in outcomes if outcome.wrong],
    )


def run_faults(
    cpu: int, seed: int, go_on: Callable[[int], bool], report: Callable[[str], None]
) -> FaultsResult:
    """Injects faults while `go_on(faults so far)` is true, then takes the run down."""
    outcomes: list[FaultOutcome] = []
    with tempfile.TemporaryDirectory(prefix="unis-bench-") as folder:
        name = f"bench-faults-{os.getpid()}"
        injector = FaultInjector(Path(folder), name, cpu, seed)
        try:
            injector.up()
            while go_on(len(outcomes)):
                outcome = injector.strike()
                outcomes.append(outcome)
                verdict = "; ".join(outcome.wrong) or "as expected"
                report(f"{len(outcomes)}: {outcome.fault}: {verdict}, {outcome.seconds:.2f} s")
        finally:
            injector.down()
    return summarise(seed, outcomes)
