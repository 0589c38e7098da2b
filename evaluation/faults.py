"""Kills what a run is made of at random moments, and looks what comes of it.

Three chains share one CPU. The functions of the first, over rings, and of the second, over memif,
are killed and stopped; the third is a bystander, which must lose nothing. Engine, launcher and
guard are killed too, alone and two at once, and then nothing of the run may be left on the machine.
Every second run has its packets from a process of its own, which is struck too.
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

from evaluation.leaks import leavings, settings
from unis.bench.strangers import testpmd
from unis.chain.model import API_VERSION
from unis.engine.client import EngineClient, EngineError
from unis.measure.paired import Quartiles
from unis.runtime.directory import RunDirectory, run_directory
from unis.runtime.errors import LaunchError
from unis.runtime.state import RunState
from unis.v1 import engine_pb2 as pb

STRUCK = ("struck-1", "struck-2", "over-memif")  # functions: those of the first chain first
SOURCE = "source"  # the process that sends, where there is one
PARTS = ("unisd", "launcher", "guard")
_DNS = {"protocol": "udp", "dst_port": 53}
_DEVICES = Path("/sys/class/net")
_UNIS = str(Path(sys.executable).with_name("unis"))
_STOPPED_SECONDS = 0.05
_UP_SECONDS = 60.0
_END_SECONDS = 30.0  # until a run is undone
_BACK_SECONDS = 30.0  # until a function delivers again, its back-off included
_LOOK_SECONDS = 0.005
_SOURCE_PPS = 15_000
_OUTLIVED = 0.75  # of strikes: the others cost a run, and seconds for the next


@dataclass(frozen=True)
class Strike:
    """Who is struck, and whether it is stopped for a while, killed, or first stopped and killed."""

    target: str
    how: str  # kill, stop, stop-kill

    def __str__(self) -> str:
        return f"{self.how} {self.target}"


Fault = tuple[Strike, ...]  # one, or two at once


class Outcome(BaseModel):
    """One fault, and what came of it."""

    fault: str
    ends_the_run: bool
    seconds: float  # until all was as it should be again
    wrong: list[str]  # sentences; none: it was as documented


class FaultCounts(BaseModel):
    """All faults of one kind."""

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
    failures: list[Outcome]


def faults_of(dice: random.Random, *, sent: bool) -> Fault:
    """Three in four strike functions, or the source where packets are `sent` by one; the rest
    strike a part of the run; one in five two at once.
    """
    outlived = (*STRUCK, SOURCE) if sent else STRUCK

    def one() -> Strike:
        if dice.random() < _OUTLIVED:
            return Strike(dice.choice(outlived), dice.choice(("kill", "kill", "stop", "stop-kill")))
        return Strike(dice.choice(PARTS), "kill")

    first = one()
    if dice.random() >= 0.2:
        return (first,)
    second = one()
    while second.target == first.target:
        second = one()
    return (first, second)


def ends_the_run(fault: Fault) -> bool:
    """Whether a part is struck without which no run goes on."""
    return any(strike.target in PARTS for strike in fault)


def program_over_memif() -> tuple[str, dict[str, object]]:
    """Its name, and what the chain file says of it: testpmd where it was fetched, else ours."""
    if stranger := testpmd():
        return Path(stranger["command"][0]).name, stranger
    return "macswap", {"program": "macswap", "cost_ns": 60}


def chain_file(directory: Path, name: str, cpu: int, device: str | None = None) -> Path:
    """Three chains on one CPU that keeps up; packets come from kernel `device`, or are made."""
    macswap = {"program": "macswap", "cost_ns": 60, "cpu": cpu, "restart": "on-failure"}
    functions: dict[str, dict[str, object]] = {one: {**macswap} for one in (*STRUCK, "bystander")}
    first, second, over_memif = STRUCK
    functions[over_memif] = {**program_over_memif()[1], "cpu": cpu, "restart": "on-failure"}
    made = {"source": {"kind": "synthetic", "size": 64, "flows": 16}, "rate": "200kpps"}
    sent = {"source": {"kind": "port", "device": f"net_tap0,iface={device}"}}
    data = {
        "apiVersion": API_VERSION,
        "name": name,
        "traffic": sent if device else made,
        "functions": functions,
        "chains": {
            # 4096 slots hold 60 ms: for up to 28 the kernel frees a killed program's memory there.
            "bystander": {"match": [_DNS], "path": ["bystander"], "ring": 4096},
            "over-memif": {"match": [{"dst_port": 8080}], "path": [over_memif]},
            "struck": {"path": [first, second]},
        },
        "links": [
            {"from": "ingress", "to": over_memif, "kind": "memif"},
            {"from": over_memif, "to": "egress", "kind": "memif"},
        ],
    }
    file = directory / ("sent.yaml" if device else "made.yaml")
    file.write_text(json.dumps(data))  # which is YAML too
    return file


class Faults:
    """A run that is struck again and again, and brought up anew where that ended it."""

    def __init__(self, folder: Path, name: str, cpu: int, seed: int) -> None:
        self._device = f"unis{os.getpid()}"
        self._files = itertools.cycle(
            (chain_file(folder, name, cpu), chain_file(folder, name, cpu, self._device))
        )
        self._sent = True  # by a process of its own; in the first run they are made
        self._source: subprocess.Popen[bytes] | None = None
        self._dice = random.Random(seed)  # noqa: S311  # the same faults from the same seed
        self._directory: RunDirectory = run_directory(name)
        self._before = settings()
        self._launcher: subprocess.Popen[bytes] | None = None

    # ------------------------------------------------------------------ up and down

    def up(self) -> None:
        """LaunchError, with what it said, if it does not come up."""
        self._sent = not self._sent
        with tempfile.TemporaryFile() as said:
            self._launcher = subprocess.Popen(
                [_UNIS, "up", str(next(self._files))],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
            try:
                _until(self._delivers, _UP_SECONDS, self._launcher_lives)
            except TimeoutError:
                said.seek(0)
                words = said.read().decode(errors="replace")
                raise LaunchError(f"the run did not come up:\n{words}") from None

    def down(self) -> None:
        """Whatever is left."""
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
        if self._sent and self._has_device() and not self._sends():
            self._start_source()
        stats = self._stats()
        chains = list(stats.chains) if stats else []
        return bool(chains) and all(chain.delivered and not chain.down for chain in chains)

    # ------------------------------------------------------------------ one fault

    def strike(self) -> Outcome:
        """Strikes once, and judges what came of it."""
        fault = faults_of(self._dice, sent=self._sent)
        state = self._directory.read()
        before = self._stats()
        if state is None or before is None:
            raise LaunchError("the run is not there")
        time.sleep(self._dice.random() * 0.05)
        begin = time.monotonic()
        for one in fault:
            _strike(self._pid_of(state, one.target), one.how)
        ends = ends_the_run(fault)
        wrong = self._undone(fault, state) if ends else self._goes_on(fault, state, before)
        seconds = time.monotonic() - begin
        if ends or wrong:
            self.down()
            self.up()
        what = " and ".join(str(one) for one in fault)
        return Outcome(fault=what, ends_the_run=ends, seconds=seconds, wrong=wrong)

    def _undone(self, fault: Fault, state: RunState) -> list[str]:
        if {"launcher", "guard"} <= {one.target for one in fault}:
            self._command("down")  # nobody is left who would do it by himself
        with contextlib.suppress(TimeoutError):
            _until(lambda: not self._left(state), _END_SECONDS)
        return [f"left: {what}" for what in self._left(state)]

    def _left(self, state: RunState) -> list[str]:
        devices = [str(_DEVICES / self._device)] if self._has_device() else []
        return leavings(state, self._before) + devices

    def _goes_on(self, fault: Fault, state: RunState, before: pb.Stats) -> list[str]:
        killed = {one.target for one in fault if one.how != "stop"}
        if SOURCE in killed:  # whoever has started it does so again; the chains wait for it
            self._end_source()
            self._start_source()
            killed.remove(SOURCE)
        with contextlib.suppress(TimeoutError):
            _until(lambda: self._is_back(killed, state), _BACK_SECONDS)
        if not self._is_back(killed, state):
            return [f"not all of {', '.join(sorted(killed))} came back"]
        at_return = self._stats()
        with contextlib.suppress(TimeoutError):
            _until(lambda: self._moves_since(at_return), _BACK_SECONDS)
        now = self._directory.read()
        wrong = []
        if now is None or (now.unisd, now.launcher) != (state.unisd, state.launcher):
            wrong.append("engine or launcher is another")
        if not self._moves_since(at_return):
            wrong.append("a chain delivers nothing")
        return wrong + self._bystander_lost(before) + self._account()

    def _pid_of(self, state: RunState, target: str) -> int:
        function = state.function(target)
        parts = {
            "unisd": state.unisd, "launcher": state.launcher, "guard": state.guard,
            SOURCE: self._source,
        }  # fmt: skip
        process = function.process if function else parts.get(target)
        if process is None:
            raise LaunchError(f"there is no {target}")
        return process.pid

    def _is_back(self, killed: set[str], state: RunState) -> bool:
        now = self._directory.read()
        stats = self._stats()
        if now is None or stats is None or any(chain.down for chain in stats.chains):
            return False
        return all(now.function(name) != state.function(name) for name in killed)

    def _moves_since(self, before: pb.Stats | None) -> bool:
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
        return [f"the chain beside it lost {lost} packets"] if lost else []

    def _account(self) -> list[str]:
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
        time.sleep(_LOOK_SECONDS)


def summarise(seed: int, outcomes: Sequence[Outcome]) -> FaultsResult:
    """By what was struck."""
    kinds: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        kinds.setdefault(outcome.fault, []).append(outcome)
    return FaultsResult(
        seed=seed,
        program_over_memif=program_over_memif()[0],
        faults=len(outcomes),
        wrong=sum(bool(outcome.wrong) for outcome in outcomes),
        kinds={
            fault: FaultCounts(
                faults=len(of),
                wrong=sum(bool(outcome.wrong) for outcome in of),
                seconds=Quartiles.of([outcome.seconds for outcome in of]),
            )
            for fault, of in sorted(kinds.items())
        },
        failures=[outcome for outcome in outcomes if outcome.wrong],
    )


def run_faults(
    cpu: int, seed: int, go_on: Callable[[int], bool], report: Callable[[str], None]
) -> FaultsResult:
    """Strikes while `go_on` of how many there were says so; takes the run down at the end."""
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="unis-bench-") as folder:
        name = f"bench-faults-{os.getpid()}"
        faults = Faults(Path(folder), name, cpu, seed)
        try:
            faults.up()
            while go_on(len(outcomes)):
                outcome = faults.strike()
                outcomes.append(outcome)
                told = "; ".join(outcome.wrong) or "as it should be"
                report(f"{len(outcomes)}: {outcome.fault}: {told}, {outcome.seconds:.2f} s")
        finally:
            faults.down()
    return summarise(seed, outcomes)
