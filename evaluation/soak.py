"""`python -m evaluation soak`: random operations on a run over the API, held against a model.

Each operation is asked of `unis serve`, or kills a process. Afterwards the run must be what a model
of a few lines says: its functions, policy, phase and generation. At the end nothing may be left on
the machine, and no process that lived throughout may have grown.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from evaluation.leaks import leaks, rt_runtime_us
from evaluation.scrapes import UnixConnection, served
from unis.errors import UnisError
from unis.measure.summary import MachineSummary
from unis.runtime.directory import base_directory, run_directory
from unis.runtime.state import RunState

_UNIS = (sys.executable, "-P", "-c", "from unis.cli import main; main()")
_ANSWER_SECONDS = 60.0
_SETTLE_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_FUNCTIONS = ("a", "b", "c")
_LAST = "last"  # of a chain of its own, which goes on where others die
_POLICIES = ("unis", "rr", "other")
_RATE = "20kpps"
# What grows in the first quarter is caches and pools that fill. So the second is compared with the
# last, each by the most that was seen in it.
_GROWTH = {"rss_kb": 4096, "descriptors": 2, "threads": 2, "files": 0}


class ProcessReading(BaseModel):
    """Of a process, and the files below /run/unis."""

    rss_kb: int
    descriptors: int
    threads: int
    files: int

    @classmethod
    def most(cls, readings: Sequence[ProcessReading]) -> ProcessReading:
        """The most of each."""
        return cls(**{key: max(getattr(one, key) for one in readings) for key in _GROWTH})


class ProcessGrowth(BaseModel):
    """Of a process that lived throughout."""

    first: ProcessReading
    """The most in the second quarter."""
    last: ProcessReading
    """The most in the last quarter."""

    def grown(self) -> Iterator[str]:
        """What grew by more than a little."""
        for key, most in _GROWTH.items():
            before, after = getattr(self.first, key), getattr(self.last, key)
            if after > before + most:
                yield f"{key} grew from {before} to {after}"


class SoakResult(BaseModel):
    """What was done, and what grew."""

    machine: MachineSummary
    seed: int
    seconds: float
    operations: dict[str, int]
    """How often each was chosen."""
    killed: dict[str, int]
    """Processes that were killed: functions, engines, launchers."""
    refused: int
    """Operations that had to be refused, and were."""
    scrapes: int
    growth: dict[str, ProcessGrowth]
    """By process; empty: it was too short."""
    left: list[str]
    """What the runs left on the machine; empty: nothing."""

    @property
    def grown(self) -> list[str]:
        """What grew by more than a little."""
        return [f"{name}: {each}" for name, it in self.growth.items() for each in it.grown()]


class SoakError(UnisError):
    """The run is not what the model says."""


@dataclass
class _RunModel:
    """The model: what the run must be. None: it must not be there."""

    functions: frozenset[str]
    policy: str = "unis"
    uid: str = ""
    generation: int = 1
    dead: set[str] = field(default_factory=set)  # functions that were killed
    phase: str = "running"


@dataclass
class _Api:
    path: Path

    def __call__(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        connection = UnixConnection(self.path, _ANSWER_SECONDS)
        try:
            sent = None if body is None else json.dumps(body)
            kind = {"Content-Type": "application/json"} if sent else {}
            connection.request(method, path, sent, {**kind, **headers})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise SoakError(f"{method} {path}: the server does not answer: {error}") from None
        finally:
            connection.close()
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError:
            found = {"text": text.decode(errors="replace")}
        return answer.status, found


class _Soak:
    def __init__(self, api: _Api, name: str, seed: int, *, one_run: bool) -> None:
        self.api = api
        self.one_run = one_run
        self.name = name
        self.dice = random.Random(seed)  # noqa: S311
        self.wanted: _RunModel | None = None
        self.done = Counter[str]()
        self.killed = Counter[str]()
        self.refused = 0
        self.scrapes = 0
        self.states: dict[str, RunState] = {}  # of each start, by its id
        self.path = f"/v1/runs/{name}"

    def step(self) -> None:
        """One operation, and a look whether the run is as it must be."""
        ends = {self.restart: 1, self.delete: 1, self.kill_engine: 1, self.kill_launcher: 1}
        there = {
            self.put: 5, self.put_same: 1, self.put_wrong: 2, self.put_unseen: 1, self.dry_run: 2,
            self.set_policy: 4, self.kill_function: 3, self.scrape: 4, self.count: 1,
            self.second_run: 1, **({} if self.one_run else ends),
        }  # fmt: skip
        away = {self.put: 6, self.put_wrong: 1, self.dry_run: 1, self.delete: 1, self.scrape: 1}
        up = self.wanted is not None and self.wanted.phase == "running"
        choices = there if up else {self.put: 1, self.delete: 3} if self.wanted else away
        (operation,) = self.dice.choices([*choices], [*choices.values()])
        self.done[operation.__name__] += 1
        operation()
        self.check(operation.__name__)

    # -------------------------------------------------------------- operations

    def put(self) -> None:
        functions = frozenset(self.dice.sample(_FUNCTIONS, self.dice.randint(1, 3)))
        self._put(functions)

    def put_same(self) -> None:
        if self.wanted:
            self._put(self.wanted.functions)

    def _put(self, functions: frozenset[str]) -> None:
        before = self.wanted
        status, run = self.api("PUT", f"{self.path}?waitSeconds=30", self.spec(functions))
        if before and before.phase != "running":  # what is left must go first
            if status in (200, 201):  # a failed run that was undone makes room
                self._began(functions, run)
                return
            self._is_refused(status, run, 409, 422)
            return
        if before is None:
            self._is(status, run, 201)
            self._began(functions, run)
            return
        self._is(status, run, 200)
        if functions != before.functions:
            before.generation += 1
        before.functions = functions
        before.dead.clear()

    def _began(self, functions: frozenset[str], run: dict[str, Any]) -> None:
        self.wanted = _RunModel(functions, uid=run["metadata"]["uid"])
        if state := run_directory(self.name).read():
            self.states[state.run_id] = state

    def put_wrong(self) -> None:
        wrong = self.spec(frozenset("a"))
        wrong["functions"]["a"]["cpu"] = "one"
        self._is_refused(*self.api("PUT", self.path, wrong), 422)

    def put_unseen(self) -> None:
        spec = self.spec(frozenset("a"))
        answer = self.api("PUT", self.path, spec, **{"If-Match": '"of-yesterday"'})
        self._is_refused(*answer, 412)

    def dry_run(self) -> None:
        functions = frozenset(self.dice.sample(_FUNCTIONS, self.dice.randint(1, 3)))
        answer = self.api("PUT", f"{self.path}?dryRun=All", self.spec(functions))
        self._is(*answer, 200)

    def set_policy(self) -> None:
        policy = self.dice.choice(_POLICIES)
        self._is(*self.api("PUT", f"{self.path}/policy", {"policy": policy}), 200)
        if self.wanted:
            self.wanted.policy = policy

    def kill_function(self) -> None:
        """Its chain is down until the next PUT. With the last function the run would fail."""
        if not self.wanted or self.wanted.dead:
            return
        name = self.dice.choice(sorted(self.wanted.functions))
        found = self.api("GET", f"{self.path}/functions/{name}")[1]
        self._kill("functions", found["status"]["pid"])
        self.wanted.dead.add(name)

    def scrape(self) -> None:
        status, found = self.api("GET", "/metrics")
        self.scrapes += 1
        if status != 200 or "unis_build_info" not in found["text"]:
            raise SoakError(f"/metrics answers {status}: {found}")

    def count(self) -> None:
        if self.wanted and self.wanted.dead:
            return
        status, found = self.api("POST", f"{self.path}/account?waitSeconds=30")
        account = found["status"]["result"]
        if status != 200 or account["unaccounted"]:
            raise SoakError(f"the account answers {status}: {found}")

    def restart(self) -> None:
        if not self.wanted:
            return
        status, run = self.api("POST", f"{self.path}/restart?waitSeconds=30")
        self._is(status, run, 200)
        policy = self.wanted.policy  # as with an option of `unis up`
        self._began(self.wanted.functions, run)
        self.wanted.policy = policy

    def delete(self) -> None:
        status, found = self.api("DELETE", f"{self.path}?waitSeconds=30")
        self._is(status, found, 200 if self.wanted else 404)
        self.wanted = None

    def kill_engine(self) -> None:
        state = self._state()
        if state and state.unisd and self.wanted:
            self._kill("engines", state.unisd.pid)
            self.wanted.phase = "failed"

    def kill_launcher(self) -> None:
        """The guard undoes the run."""
        state = self._state()
        if state and self.wanted:
            self._kill("launchers", state.launcher.pid)
            self.wanted.phase = "failed"

    def second_run(self) -> None:
        """It wants the CPU that the first one has."""
        other = f"{self.name}x"
        spec = {**self.spec(frozenset("a")), "name": other}
        answer = self.api("PUT", f"/v1/runs/{other}?waitSeconds=30", spec)
        self._is_refused(*answer, 409, 422)

    # -------------------------------------------------------------- the model against the machine

    def check(self, after: str) -> None:
        """SoakError: the run is not what the model says, and does not become so soon."""
        end = time.monotonic() + _SETTLE_SECONDS
        while problem := self._problem():
            if time.monotonic() > end:
                raise SoakError(f"after {after}: {problem}")
            time.sleep(_LOOK_SECONDS)

    def _problem(self) -> str:
        wanted = self.wanted
        status, run = self.api("GET", self.path)
        if wanted is None:
            return "" if status == 404 else f"the run is there: {run['status']['phase']}"
        if status != 200:
            return f"the run is not there: {status}"
        if run["metadata"]["uid"] != wanted.uid:
            return "the run was started anew"
        found = run["status"]
        if found["phase"] != wanted.phase:
            return f"its phase is {found['phase']}, not {wanted.phase} ({found['reason']})"
        if wanted.phase != "running":
            return ""
        if found["policy"] != wanted.policy:
            return f"its policy is {found['policy']}, not {wanted.policy}"
        if found["observedGeneration"] != wanted.generation:
            return f"generation {found['observedGeneration']}, not {wanted.generation}"
        items = self.api("GET", f"{self.path}/functions")[1]["items"]
        runs = {
            one["metadata"]["name"]: one["status"]["conditions"][0]["status"] == "True"
            for one in items
        }
        must = {name: name not in wanted.dead for name in (*wanted.functions, _LAST)}
        return "" if runs == must else f"functions that run: {runs}, not {must}"

    def _kill(self, what: str, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.killed[what] += 1

    def _state(self) -> RunState | None:
        return run_directory(self.name).read()

    def is_comparable(self) -> bool:
        """Whether readings can be compared: no run is up, or the one run with all functions."""
        if not self.one_run:
            return self.wanted is None
        wanted = self.wanted
        return bool(wanted and len(wanted.functions) == len(_FUNCTIONS) and not wanted.dead)

    def living(self) -> dict[str, int]:
        """PIDs of the run's processes that live throughout, by name."""
        state = self._state() if self.one_run else None
        if not (state and state.unisd):
            return {}
        return {"unisd": state.unisd.pid, "launcher": state.launcher.pid}

    def _is(self, status: int, found: dict[str, Any], wanted: int) -> None:
        if status != wanted:
            raise SoakError(f"{status} instead of {wanted}: {json.dumps(found)[:2000]}")

    def _is_refused(self, status: int, found: dict[str, Any], *wanted: int) -> None:
        if status not in wanted:
            raise SoakError(f"{status} instead of {wanted}: {json.dumps(found)[:2000]}")
        self.refused += 1

    def spec(self, functions: frozenset[str]) -> dict[str, Any]:
        """A chain file of two chains."""
        part = {"program": "macswap", "args": ["--cost", "light"], "cpu": 1, "cost_ns": 50}
        chains: dict[str, Any] = {
            "web": {"match": [{"dst_port": 80}], "path": sorted(functions)},
            "rest": {"path": [_LAST]},
        }
        return {
            "apiVersion": "unis/v1", "name": self.name, "traffic": {"rate": _RATE},
            "functions": dict.fromkeys([*sorted(functions), _LAST], part), "chains": chains,
        }  # fmt: skip


@dataclass(frozen=True)
class SoakSettings:
    """What the command line says."""

    operations: int
    minutes: float
    seed: int
    one_run: bool  # that no operation ends


def soak(settings: SoakSettings, report: Callable[[str], None]) -> SoakResult:
    """Ends after so many operations, or minutes, whichever is first. SoakError; whatever happens,
    the run is taken down.
    """
    name = f"soak{os.getpid()}"
    throttle = rt_runtime_us()
    readings: dict[str, list[tuple[float, ProcessReading]]] = {}
    begin = time.monotonic()
    with served() as (socket_file, pid):
        it = _Soak(_Api(socket_file), name, settings.seed, one_run=settings.one_run)
        try:
            for number in range(settings.operations):
                waited = (time.monotonic() - begin) / (settings.minutes * 60)
                passed = max(waited, number / settings.operations)
                if passed >= 1:
                    break
                it.step()
                if it.is_comparable():
                    for process, its_pid in {"unis serve": pid, **it.living()}.items():
                        reading = passed, _reading(process, its_pid)
                        readings.setdefault(process, []).append(reading)
                if number % 50 == 49:
                    report(f"{number + 1} operations in {time.monotonic() - begin:.0f} s")
        finally:
            with contextlib.suppress(SoakError):  # the server may have died
                it.api("DELETE", f"{it.path}?waitSeconds=30")
            if run_directory(name).read():
                subprocess.run([*_UNIS, "down", name], check=False)
    cpus = len(os.sched_getaffinity(0))
    left = [one for state in it.states.values() for one in leaks(state, throttle)]
    left += map(str, (base_directory() / "desired").glob(f"*{name}*"))
    return SoakResult(
        machine=MachineSummary.this(cpus), seed=settings.seed, seconds=time.monotonic() - begin,
        operations=dict(it.done), killed=dict(it.killed), refused=it.refused, scrapes=it.scrapes,
        growth={
            process: ProcessGrowth(first=first, last=last)
            for process, all_ in readings.items()
            if (first := _most(all_, 0.25, 0.5)) and (last := _most(all_, 0.75, 1.0))
        },
        left=left,
    )  # fmt: skip


def _most(
    readings: Sequence[tuple[float, ProcessReading]], begin: float, end: float
) -> ProcessReading | None:
    found = [one for passed, one in readings if begin <= passed < end]
    return ProcessReading.most(found) if found else None


def _reading(name: str, pid: int) -> ProcessReading:
    """SoakError: it is gone."""
    folder = Path(f"/proc/{pid}")
    try:
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        descriptors = len([*(folder / "fd").iterdir()])
        if "VmRSS" not in status:
            raise ProcessLookupError(pid)  # a zombie
    except OSError:
        raise SoakError(f"{name} has died") from None
    kb = sum(int(status[key].split()[0]) for key in ("VmRSS", "HugetlbPages"))
    return ProcessReading(
        rss_kb=kb, threads=int(status["Threads"]),
        descriptors=descriptors, files=_files(),
    )  # fmt: skip


def _files() -> int:
    """Below /run/unis, but for the logs of runs that have ended, of which some are kept."""
    base = base_directory()
    return sum(1 for path in base.rglob("*") if base / "ended" not in path.parents)
