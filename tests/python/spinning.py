"""Processes that spin, maybe at real-time priority on CPU 1."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from unis.runtime.process import ProcessId
from unis.runtime.state import RUN_MARK

CPU = 1
SPIN = (
    "import time\nprint('up', flush=True)\nend = time.monotonic() + 20\n"
    "while time.monotonic() < end: pass"
)


@contextlib.contextmanager
def process(code: str, run_id: str = "", real_time: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, RUN_MARK: run_id} if run_id else None,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        # Only in its loop may it starve: while it starts it holds locks that all need.
        assert child.stdout
        assert child.stdout.readline() == b"up\n"
        if real_time:
            os.sched_setaffinity(child.pid, {CPU})
            os.sched_setscheduler(child.pid, os.SCHED_RR, os.sched_param(real_time))
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setscheduler(child.pid, os.SCHED_OTHER, os.sched_param(0))
            child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


def identity(child: subprocess.Popen[bytes]) -> ProcessId:
    found = ProcessId.of(child.pid)
    assert found is not None
    return found
