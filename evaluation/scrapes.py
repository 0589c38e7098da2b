"""`python -m evaluation scrapes`: what it costs a chain at full load that its metrics are scraped.

A server of metrics (`unis serve`) runs throughout. In every other window it is asked once each
interval, as Prometheus asks. Windows of one round are compared.
"""

import http.client
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from unis.bench.synthetic import macswap_chain
from unis.bench.throughput import POLICIES
from unis.chain.load import LoadedChain
from unis.errors import UnisError
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Paired, Quartiles, Ratio
from unis.measure.summary import MachineSummary
from unis.measure.windows import Arm, Rounds, in_turn, throughput
from unis.plan.machine import Machine
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up

ALLOWED = 0.005  # of the throughput
_QUIET, _SCRAPED = "no scrapes", "scrapes"
_ANSWER_SECONDS = 10.0
_OF_PROCESS = 2  # CPUCLOCK_SCHED of linux/posix-timers.h: time on a CPU
_IS_UP = b'unis_run_up{run="bench-scrapes"} 1'
_REQUEST = (
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
    b"Accept: application/openmetrics-text;version=1.0.0\r\n\r\n"
)
_HEAD = re.compile(rb"(?is)[^\r].*?\r\ncontent-length: (\d+).*?\r\n\r\n")


class ScrapeCost(BaseModel):
    """The result, and the machine it is from."""

    machine: MachineSummary
    cost: str
    length: int
    every_s: float
    window_s: float
    windows: int
    mpps: dict[str, Quartiles]  # by whether there were scrapes
    ratio: Ratio | None  # of throughput with scrapes to that without
    scrapes: int
    scraped_s: float  # in which they were
    text_bytes: int
    server_cpu: dict[str, float]  # share of a CPU, by whether there were scrapes
    disturbed: Disturbance

    @property
    def each_second(self) -> Ratio | None:
        """The ratio for a scrape each second, if each costs the same."""
        if self.ratio is None or not self.scrapes:
            return None
        median, low, high = (
            1 - self.scraped_s / self.scrapes * (1 - value)
            for value in (self.ratio.median, self.ratio.lo, self.ratio.hi)
        )
        return Ratio(median=median, lo=low, hi=high)

    @property
    def kept(self) -> bool | None:
        """Whether one each second costs less than ALLOWED; None: that cannot be told from these
        windows.
        """
        if (ratio := self.each_second) is None or ratio.lo <= 1 - ALLOWED <= ratio.hi:
            return None
        return ratio.lo > 1 - ALLOWED


@dataclass(frozen=True)
class ScrapeSettings:
    """What the command line says."""

    cost: str
    length: int
    every: float  # seconds between two scrapes
    rounds: int
    window: float  # seconds


def measure(
    settings: ScrapeSettings, machine: Machine, report: Callable[[str], None]
) -> ScrapeCost:
    """Brings the chain up, and takes it down. UnisError where a scrape fails."""

    def make() -> LoadedChain:
        return macswap_chain("bench-scrapes", settings.cost, settings.length, max(machine.cpus))

    report(f"{settings.rounds} rounds of two windows of {settings.window:g} s")
    return brought_up(make, machine, Options(), report, lambda run: _compared(run, settings))


def _compared(run: Run, settings: ScrapeSettings) -> ScrapeCost:
    arm = replace(POLICIES[run.plan.controller], name=_QUIET)
    with served() as (socket_file, pid), _Client(socket_file, settings.every) as client:
        client.ask()  # imports and connections are made
        spent = _Spent(pid)

        def look(_: Rounds, measured: Arm) -> None:
            client.check()
            spent.end(str(measured))

        def begin(asks: bool) -> None:
            client.asks = asks
            spent.begin()

        arms = [
            replace(arm, prepare=partial(begin, False)),
            replace(arm, name=_SCRAPED, prepare=partial(begin, True)),
        ]
        rounds = in_turn(run, arms, settings.rounds, settings.window, look)
    quiet, scraped = (throughput(rounds, name) for name in (_QUIET, _SCRAPED))
    return ScrapeCost(
        machine=MachineSummary.this(len(os.sched_getaffinity(0))),
        cost=settings.cost, length=settings.length, every_s=settings.every,
        window_s=settings.window, windows=len(rounds),
        mpps={_QUIET: Quartiles.of(quiet), _SCRAPED: Quartiles.of(scraped)},
        ratio=Ratio.of(Paired.ratio(scraped, quiet)),
        scrapes=client.count, scraped_s=spent.seconds(_SCRAPED), text_bytes=client.length,
        server_cpu=spent.shares(),
        disturbed=Disturbance.of([window for windows in rounds for window in windows.values()]),
    )  # fmt: skip


@contextmanager
def served() -> Iterator[tuple[Path, int]]:
    """A server of its own, and its socket, once it answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "serve.sock"
        code = "from unis.cli import main; main()"
        words = [sys.executable, "-P", "-c", code, "serve", "--socket", str(path)]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
            try:
                line = server.stderr.readline() if server.stderr else ""
                if not line.startswith("serving on"):
                    raise UnisError(f"`unis serve` does not answer: {line.strip()}")
                yield path, server.pid
            finally:
                server.terminate()


@dataclass
class _Spent:
    """CPU time of all threads of a process, by what was measured meanwhile; seconds."""

    pid: int
    _before: tuple[float, float] = (0.0, 0.0)
    _by: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def begin(self) -> None:
        """A window comes."""
        self._before = self._now()

    def end(self, name: str) -> None:
        """It is over."""
        passed, spent = (now - then for now, then in zip(self._now(), self._before, strict=True))
        self._by.setdefault(name, []).append((passed, spent))

    def seconds(self, name: str) -> float:
        """That passed."""
        return sum(passed for passed, _ in self._by.get(name, []))

    def shares(self) -> dict[str, float]:
        """Of the time that passed."""
        sums = {
            name: [sum(part) for part in zip(*of, strict=True)] for name, of in self._by.items()
        }
        return {name: spent / passed for name, (passed, spent) in sums.items()}

    def _now(self) -> tuple[float, float]:
        # The kernel's clock of a process: threads that have ended count too.
        return time.monotonic(), time.clock_gettime(~self.pid << 3 | _OF_PROCESS)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket. `seconds`: until an answer must be there."""

    def __init__(self, path: Path, seconds: float = _ANSWER_SECONDS) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        """To the Unix socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@dataclass
class _Client:
    """Asks by a thread of its own, each `every` seconds, while it `asks`; over one connection as
    long as the server keeps it, like Prometheus. It reads as little of the answer as it can: what
    Prometheus does with it is not the server's cost.
    """

    path: Path
    every: float
    count: int = 0
    length: int = 0
    asks: bool = False
    _error: str = ""
    _end: threading.Event = field(default_factory=threading.Event)
    _socket: socket.socket | None = None

    def __enter__(self) -> "_Client":
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._close()

    def check(self) -> None:
        """UnisError where a scrape has failed."""
        if self._error:
            raise UnisError(f"a scrape failed: {self._error}", bad_input=False)

    def ask(self) -> None:
        """One scrape. OSError, ValueError: it failed."""
        try:
            answer = self._answer()
        except OSError:  # the server closes a connection after a time
            self._close()
            answer = self._answer()
        head, _, text = answer.partition(b"\r\n\r\n")
        status = head.split(b" ", 2)[1].decode()
        if status != "200" or _IS_UP not in text:
            raise ValueError(f"status {status}: {text[:200].decode(errors='replace')}")
        self.length = len(text)

    def _answer(self) -> bytes:
        """Head and body."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(_ANSWER_SECONDS)
            self._socket.connect(str(self.path))
        self._socket.sendall(_REQUEST)
        answer, end = b"", -1
        while end < 0 or len(answer) < end:
            if not (part := self._socket.recv(1 << 16)):
                raise ConnectionResetError("the server closed the connection")
            answer += part
            if end < 0 and (found := _HEAD.match(answer)):
                end = found.end() + int(found[1])
        return answer

    def _close(self) -> None:
        if self._socket:
            self._socket.close()
            self._socket = None

    def _run(self) -> None:
        due = time.monotonic()
        while not self._end.wait(max(0.0, due - time.monotonic())):
            due = max(due + self.every, time.monotonic())  # missed scrapes are not made up for
            if self.asks:
                try:
                    self.ask()
                    self.count += 1
                except (OSError, ValueError) as error:
                    self._error = str(error)
                    return
