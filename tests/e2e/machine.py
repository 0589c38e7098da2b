"""What the end-to-end tests do with `unis`, and what they look at on the machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import forked
from tests.leaves import leaves
from unis.cli.look_commands import as_dict
from unis.engine import names
from unis.engine.client import EngineClient
from unis.runtime import kernel_settings
from unis.runtime.directory import run_directory
from unis.runtime.folders import ports_directory

UNIS = str(Path(sys.executable).with_name("unis"))
EVALUATION = [sys.executable, "-P", "-m", "evaluation"]

_SECONDS = 300  # until a command must have ended: a bound, not an expectation
_THROTTLE = Path("/proc/sys/kernel/sched_rt_runtime_us")

Json = dict[str, Any]


def macswap(cost: str = "light", **more: object) -> Json:
    """A function for `Machine.chain_file`."""
    return {
        "program": "macswap",
        "args": ["--cost", cost],
        "cpu": 1,
        "yield_every": 8,
        "cost_ns": 50,
        **more,
    }


class Machine:
    """Runs `unis` in a folder of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.name = f"test{os.getpid()}"
        self._throttle = _THROTTLE.read_text()
        self._before = leaves()  # those of runs that were killed before, or that go on

    def unis(self, *words: str, code: int = 0, codes: Sequence[int] = ()) -> str:
        """The output of a command that must end with `code`, or one of `codes`."""
        ended, output, errors = forked.unis(words, self.directory, _SECONDS, favoured=True)
        said = output + errors
        assert ended in (codes or (code,)), said
        return said

    def evaluation(self, *words: str, codes: Sequence[int] = (0,)) -> str:
        """The same of `python -m evaluation`, which must end with one of `codes`."""
        with subprocess.Popen(
            [*EVALUATION, *words], cwd=self.directory, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            forked.favour_session(process.pid)
            try:
                said = "".join(process.communicate(timeout=_SECONDS))
            except BaseException:
                process.kill()
                raise
        assert "Traceback" not in said, said
        assert process.returncode in codes, said
        return said

    def start(self, *words: str, program: Sequence[str] = (UNIS,)) -> subprocess.Popen[str]:
        """A command that goes on by itself."""
        return subprocess.Popen(
            [*program, *words],
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def chain_file(self, functions: dict[str, Json], **more: object) -> Path:
        """Writes a chain file of one chain, or `chains`; `more` are further keys at its top."""
        content = {
            "apiVersion": "unis/v1",
            "name": self.name,
            "functions": functions,
            "chains": {"chain": {"path": list(functions)}},
            **more,
        }
        path = self.directory / "chain.yaml"
        path.write_text(json.dumps(content, indent=1))  # JSON is YAML
        return path

    def up(self, file: Path, *options: str) -> None:
        """Brings the chain up in the background."""
        self.unis("up", str(file), "--detach", *options)

    def ps(self) -> Json:
        """What `unis ps --json` says of our run, without the start of a Python each time."""
        directory = run_directory(self.name)
        state = directory.read()
        assert state
        assert state.unisd
        with EngineClient(directory.socket) as client:
            stats = client.stats()
        return {
            "launcher": {"pid": state.launcher.pid},
            "unisd": {"pid": state.unisd.pid},
            "functions": {function.name: function.process.pid for function in state.functions},
            "policy": names.policy_name(stats.policy),
            "stats": as_dict(stats),
        }

    def set_policy(self, policy: str) -> None:
        """Of the engine alone: unlike with `unis policy` the launcher does not hear of it, and
        the next unisd has the former one.
        """
        with EngineClient(run_directory(self.name).socket) as client:
            client.set_policy(names.policy(policy))

    def exact_account(self, seconds: float = 5) -> Json:
        """Every packet so far, counted with the chains drained, as `unis account` does."""
        with EngineClient(run_directory(self.name).socket) as client:
            account: Json = as_dict(client.settle(seconds))
        assert account["exact"], account
        return account

    def down(self) -> str:
        """Takes our run down, if it is there."""
        if run_directory(self.name).path.exists():
            return self.unis("down", self.name)
        return ""

    def processes(self) -> list[int]:
        """Process ids of our run: engine, functions, guard."""
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and self._is_ours(entry)
        ]

    def _is_ours(self, process: Path) -> bool:
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            stat = (process / "stat").read_text()
        except OSError:
            return False
        zombie = stat.rpartition(")")[2].split()[0] == "Z"
        ours = f"unis-{self.name}" in line or str(run_directory(self.name).path) in line
        return ours and not zombie

    def pid_of(self, what: str) -> int:
        """The pid of `launcher`, `unisd` or a function."""
        run = self.ps()
        return int(run["functions"].get(what) or run[what]["pid"])

    def kill(self, pid: int) -> None:
        """As the kernel's out-of-memory killer does."""
        os.kill(pid, signal.SIGKILL)

    def assert_clean(self) -> None:
        """No process, hugepage file, socket, cgroup or changed setting is left."""
        self.wait_for(lambda: not self.processes(), "processes are left")
        prefix = f"unis-{self.name}"
        folder = run_directory(self.name).path
        left = [*Path("/dev/hugepages").glob(f"{prefix}map_*"), *folder.glob("*.sock")]
        left += [leaf for leaf in leaves() if leaf not in self._before]
        left += Path("/var/run/dpdk").glob(f"{prefix}*")
        left += ports_directory().glob(self.name)
        left += kernel_settings.ledger().glob("*")
        assert left == [], left
        assert _THROTTLE.read_text() == self._throttle

    @staticmethod
    def wait_for(condition: Callable[[], bool], complaint: str) -> None:
        """Until it is so; a bound, not an expectation."""
        end = time.monotonic() + _SECONDS
        while not condition():
            assert time.monotonic() < end, complaint
            time.sleep(0.05)


@contextmanager
def machine_in(directory: Path) -> Iterator[Machine]:
    """This machine, which the tests must leave as they found it."""
    machine = Machine(directory)
    try:
        yield machine
    finally:
        machine.down()
    machine.assert_clean()
