"""Inside the machine: `python -m tests.machine.guest [WORDS of pytest]` runs the tests of
tests/machine/inside, says what came of them, and ends the machine.
"""

import ctypes
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from tests.machine.frames import Exchange, Outcome
from tests.machine.lines import Inside
from tests.machine.parts import DRIVERS
from unis import built

_RESTART = 0x1234567  # of reboot(2): QEMU ends instead
_DRIVERS = Path("/usr/lib/x86_64-linux-gnu/dpdk")
_MOST_WORDS = 6000  # of what a test that failed has printed
_INSIDE = "tests/machine/inside"


def uptime() -> float:
    """Seconds since the kernel started."""
    return float(Path("/proc/uptime").read_text().split()[0])


class Outside:
    """What is at the other ends of the cables, and hears of the tests: a plugin of pytest."""

    KEY = pytest.StashKey["Outside"]()

    def __init__(self, lines: Inside) -> None:
        self._lines = lines
        self._began = 0.0

    def exchange(self, out: int, back: int, exchange: Exchange) -> Outcome:
        """Frames go into one card's wire, and come out of one."""
        message = {"what": "exchange", "out": out, "back": back, "exchange": vars(exchange)}
        return Outcome(**self._lines.ask(message))

    def seen(self, wire: int) -> list[bytes]:
        """What came out of it since somebody asked."""
        answer = self._lines.ask({"what": "seen", "wire": wire})
        return [bytes.fromhex(frame) for frame in answer["frames"]]

    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[self.KEY] = self

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        words = f"{len(session.items)} tests"
        self._lines.say({"what": "ready", "seconds": uptime(), "words": words})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._lines.say({"what": "running", "test": nodeid.rpartition("/")[2]})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One message a test: of its call, or of the step that failed."""
        if report.when == "setup":
            self._began = time.monotonic() - report.duration
        if report.when == "call" or report.outcome != "passed":
            self._lines.say(
                {
                    "what": "test",
                    "test": report.nodeid.rpartition("/")[2],
                    "outcome": report.outcome,
                    "seconds": time.monotonic() - self._began,
                    "facts": report.user_properties,
                    "words": "" if report.outcome == "passed" else _words(report),
                }
            )


def _words(report: pytest.TestReport) -> str:
    """Why it failed, and what was printed."""
    said = "\n".join(f"--- {title}\n{text[-_MOST_WORDS:]}" for title, text in report.sections)
    return f"{report.longreprtext}\n{said}"


def prepare() -> None:
    """What a running system has, and what makes DPDK start faster."""
    Path("/proc/sys/kernel/hung_task_timeout_secs").write_text("30")
    for settings in ("all", "default"):
        Path(f"/proc/sys/net/ipv6/conf/{settings}/disable_ipv6").write_text("1")
    os.system("ip link set lo up")  # noqa: S605
    kept = os.environ.pop(DRIVERS).split(",")
    for driver in _DRIVERS.glob("pmds-*/librte_*"):
        if driver.name.split(".")[0] not in kept:
            driver.unlink()


def main(words: list[str]) -> Any:
    lines = Inside()
    prepare()
    os.chdir(built.clone())
    files = [word for word in words if not word.startswith("-") and ".py" in word]
    common = [
        *("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:xdist", "-m", ""),
        *("--confcutdir", _INSIDE, "--basetemp=/run/pytest", "--color=no", "-o", "timeout=300"),
        *("-o", "faulthandler_timeout=150"),  # who hangs says where
    ]
    code = pytest.main([*common, *words, *([] if files else [_INSIDE])], plugins=[Outside(lines)])
    lines.say({"what": "end", "code": int(code)})


if __name__ == "__main__":
    try:
        from tests.machine import guest  # as tests import it

        guest.main(sys.argv[1:])
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os.sync()
    time.sleep(0.2)  # for the last line to go
    ctypes.CDLL(None).reboot(_RESTART)
