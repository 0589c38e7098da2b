"""`unis-thread-trace` while something is measured."""

import contextlib
import select
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unis import built
from unis.errors import UnisError
from unis.parts.passages import Sampling
from unis.parts.threads import Recording, read_recording

_START_SECONDS = 10.0
_END_SECONDS = 10.0
_OWN_NAMESPACE = Path("/proc/self/ns/pid")
_INITIAL_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of Linux


@dataclass(frozen=True)
class ThreadWatch:
    """Whom it watches, and when; all times in seconds."""

    threads: Sequence[int]  # TIDs; none: only clocks are told
    delay: float  # until the first period begins
    period: float
    open: float  # of each period, from its begin on
    longest: float  # then it ends by itself
    copies: bool = False  # it counts what the kernel copies to the threads, and tells no changes
    sets: int = 1  # times that each program is attached: one tells, the others only cost


class Tracing:
    """A tracer that runs."""

    def __init__(self, watch: ThreadWatch, origin: int, period: int) -> None:
        """Of the periods, TSC cycles."""
        self._watch = watch
        self.origin = origin
        self.period = period
        self._found: Recording | None = None

    def sampling(self, mark: int) -> Sampling:
        """Packets with this mark, of the same periods."""
        until = self.origin + round(self._watch.longest / self._watch.period) * self.period
        return Sampling(mark, self.origin, self.period, until)

    def ended(self, found: Recording) -> None:
        """With what it wrote."""
        self._found = found

    def recording(self) -> Recording:
        """Once the block has ended."""
        if self._found is None:
            raise RuntimeError("the tracer runs still")
        return self._found


@contextlib.contextmanager
def tracing(watch: ThreadWatch) -> Iterator[Tracing]:
    """UnisError: it cannot."""
    if watch.threads and str(_OWN_NAMESPACE.readlink()) != _INITIAL_NAMESPACE:
        raise UnisError(
            "the kernel numbers threads otherwise than the PID namespace in which UNiS runs",
            bad_input=False,
        )
    pipe = subprocess.PIPE
    with subprocess.Popen(_command(watch), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            found = Tracing(watch, *_when_ready(process))
            yield found
            try:
                data, told = process.communicate(timeout=_END_SECONDS)  # its input ends
            except subprocess.TimeoutExpired:
                raise UnisError("unis-thread-trace does not end", bad_input=False) from None
            if process.returncode != 0:
                raise _failed(told)
            found.ended(read_recording(data))
        finally:
            if process.poll() is None:
                process.kill()


def _command(watch: ThreadWatch) -> Sequence[str]:
    command = [
        str(built.thread_tracer()),
        f"--object={built.thread_trace_program()}",
        f"--delay={watch.delay}",
        f"--period={watch.period}",
        f"--open={watch.open}",
        f"--sets={watch.sets}",
        f"--seconds={watch.longest}",
    ]
    if watch.threads:
        command.append(f"--threads={','.join(map(str, watch.threads))}")
    if watch.copies:
        command.append("--copies")
    return command


def _when_ready(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("its output is no pipe")
    ready, _, _ = select.select([process.stdout], [], [], _START_SECONDS)
    if not ready:
        raise UnisError("unis-thread-trace does not start", bad_input=False)
    words = process.stdout.readline().split()
    if len(words) != 3 or words[0] != b"ready":
        raise _failed(process.stderr.read())
    return int(words[1]), int(words[2])


def _failed(told: bytes) -> UnisError:
    why = told.decode(errors="replace").strip() or "unis-thread-trace ended without a word"
    return UnisError(why, bad_input=False)
