"""`unis-packet-trace` while something is measured."""

import contextlib
import select
import subprocess
from collections.abc import Iterator, Sequence

from unis import built
from unis.errors import UnisError
from unis.parts.accounting import Route
from unis.parts.events import PacketPlace, Recording, read_recording

_START_SECONDS = 10.0
_END_SECONDS = 10.0
_OF_CALLS = ("message_received", "call_begins", "call_ends")  # programs that only they need


class Tracing:
    """A tracer that runs."""

    def __init__(self) -> None:
        self._found: Recording | None = None

    def ended(self, found: Recording) -> None:
        """With what it wrote."""
        self._found = found

    def recording(self) -> Recording:
        """Once the block has ended."""
        if self._found is None:
            raise RuntimeError("the tracer runs still")
        return self._found


@contextlib.contextmanager
def tracing(
    route: Route, mark: int, one_in: int, seconds: float, sets: int = 1, *, calls: bool = True
) -> Iterator[Tracing]:
    """Follows one of `one_in` packets, for at most `seconds`. `sets`: times that each probe is
    attached; one tells, the others only cost. `calls`: whether system calls are seen too.
    UnisError: it cannot.
    """
    command = [*_command(route, mark, one_in, seconds), f"--sets={sets}"]
    if not calls:
        command.append(f"--without={','.join(_OF_CALLS)}")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            _wait_until_ready(process)
            found = Tracing()
            yield found
            try:
                data, told = process.communicate(timeout=_END_SECONDS)  # its input ends
            except subprocess.TimeoutExpired:
                raise UnisError("unis-packet-trace does not end", bad_input=False) from None
            if process.returncode != 0:
                raise _failed(told)
            found.ended(read_recording(data))
        finally:
            if process.poll() is None:
                process.kill()


def _command(route: Route, mark: int, one_in: int, seconds: float) -> Sequence[str]:
    threads = ",".join(str(stage.thread) for stage in route.stages)
    return [
        str(built.packet_tracer()),
        f"--object={built.packet_trace_program()}",
        f"--mark={mark:x}",
        f"--first={_text(route.stages[0].device)}",
        f"--last={_text(route.last)}",
        f"--threads={threads}",
        f"--engine={route.engine}",
        f"--one-in={one_in}",
        f"--seconds={seconds}",
    ]


def _text(device: PacketPlace) -> str:
    return f"{device.namespace}:{device.index}"


def _wait_until_ready(process: subprocess.Popen[bytes]) -> None:
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("its output is no pipe")
    ready, _, _ = select.select([process.stdout], [], [], _START_SECONDS)
    if not ready:
        raise UnisError("unis-packet-trace does not start", bad_input=False)
    if process.stdout.readline() != b"ready\n":
        raise _failed(process.stderr.read())


def _failed(told: bytes) -> UnisError:
    why = told.decode(errors="replace").strip() or "unis-packet-trace ended without a word"
    return UnisError(why, bad_input=False)
