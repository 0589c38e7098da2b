"""A build of a false engine and functions that sleep: whole runs that carry no packets."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import forked
from tests.leaves import leaves
from unis.runtime.state import RUN_MARK
from unis.runtime.steps import STEPS, StartStep

UNIS = str(Path(sys.executable).with_name("unis"))
SECONDS = 60  # a bound, not an expectation


def step(name: str) -> StartStep:
    return next(step for step in STEPS if step.name == name)


class Place:
    """A build of a false engine and functions that sleep, and a folder for runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        self._before = leaves()  # those of runs that were killed before, or that go on
        self.environment = {
            **os.environ,
            "UNIS_BUILD": str(folder / "build"),
            "UNIS_RUN_DIR": str(folder / "run"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "FAKE_CALLS": str(self.calls),
        }
        fake = Path(__file__).with_name("fake_unisd.py")
        self.program("engine/unisd", f'exec {sys.executable} -P {fake} "$@"')
        self.program("functions/sleeper", "exec sleep 1000")
        self.program("functions/dies", "echo last words; exit 3")
        self.program("functions/panics", "while ! [ -e now ]; do sleep 0.02; done; exit 2")
        self.program("ports/librte_net_unis.so", "")
        self.program("ports/librte_net_mmsg.so", "")
        self.program("ports/librte_unis_ports.so", "")
        self.program("ports/unis_xdp.bpf.o", "")

    def program(self, name: str, text: str) -> None:
        path = self.folder / "build" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def file(
        self, name: str = "life", *, program: str = "sleeper", function: str = "a",
        cost: str = "online",
    ) -> Path:  # fmt: skip
        content = {
            "apiVersion": "unis/v1",
            "name": name,
            "functions": {function: {"program": program, "cpu": 1}},
            "chains": {"c": {"path": [function]}},
            "scheduler": {"cost": cost},
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(content))
        return path

    def start(self, *words: str | Path, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [UNIS, *map(str, words)],
            env={**self.environment, **more},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def unis(self, *words: str | Path, code: int = 0, **more: str) -> str:
        ended, output, errors = self._run(*words, **more)
        assert ended == code, output + errors
        return output + errors

    def ps(self) -> list[dict[str, Any]]:
        _, output, _ = self._run("ps", "--json")
        rows: list[dict[str, Any]] = json.loads(output)
        return rows

    def _run(self, *words: str | Path, **more: str) -> tuple[int, str, str]:
        environment = {**self.environment, **more}
        return forked.unis([*map(str, words)], self.folder, SECONDS, environment=environment)

    def called(self, name: str) -> bool:
        return self.calls.exists() and name in self.calls.read_text().split()

    def processes(self) -> dict[int, str]:
        """The command lines, by number, of what runs here have started and has not ended."""
        found: dict[int, str] = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                mark = RUN_MARK.encode() + b"=" in (entry / "environ").read_bytes()
            except OSError:
                continue
            if str(self.folder / "run") in line or (mark and str(self.folder) in line):
                found[int(entry.name)] = line
        return found

    def left(self) -> list[str]:
        """Processes of runs here, cgroups that came since, and what programs load."""
        copies = (self.folder / "run" / "ports").glob("*")
        ours = (str(leaf) for leaf in leaves() if leaf not in self._before)
        return [*self.processes().values(), *map(str, copies), *ours]

    def clear(self) -> None:
        """Ends what a test that failed has left: other tests look for cgroups too."""
        states = (self.folder / "run" / "runs").glob("*/state.json")
        ours = {json.loads(state.read_text())["run_id"] for state in states}
        processes = self.processes()
        left = [
            leaf
            for leaf in leaves()
            if leaf.name.removeprefix("unis-") in ours
            or {*map(int, (leaf / "cgroup.procs").read_text().split())} & processes.keys()
        ]
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for leaf in left:
            with contextlib.suppress(FileNotFoundError):  # whoever undoes the run was faster
                (leaf / "cgroup.kill").write_text("1")
            wait_for(functools.partial(_removed, leaf), lambda: "a cgroup stays")

    def assert_nothing_left(self) -> None:
        wait_for(lambda: not self.left(), lambda: str(self.left()))


def _removed(leaf: Path) -> bool:
    with contextlib.suppress(OSError):
        leaf.rmdir()
    return not leaf.exists()


def wait_for(condition: Callable[[], bool], complaint: Callable[[], str] = str) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, complaint()
        time.sleep(0.02)
