"""Long work: each operation is a `unis` command of its own, so the API does what the command does.

The command is a process in a session of its own. What it has begun goes on without the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import IO, Any, Literal

from pydantic import Field

from unis.errors import EXIT_FAILED, UnisError
from unis.serve.objects import ObjectList, ObjectMeta, RestObject, RestPart
from unis.serve.problems import ApiError, StatusReason

_AT_ONCE = 8
_NEW_FILE = ("up", "apply")  # what makes a run be another file
_KEPT = 100  # that have ended
_AGAIN_SECONDS = 2.0
_TAIL_BYTES = 64 << 10
_LINES = 200  # of what a command says, the last ones
_LONGEST = 64 << 20  # bytes of a result
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH")
# SIGINT may be ignored where the server was started, as in a script's background.
_COMMAND = (
    "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "os.sched_setaffinity(0, {cpus}); from unis.cli import main; main()"
)


class OperationPhase(StrEnum):
    """How far an operation is."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


class OperationSpec(RestPart):
    """What is done."""

    verb: str
    """The command of `unis`: up, apply, down, restart, policy, account, …"""
    run: str


class OperationStatus(RestPart):
    """How far it is."""

    phase: OperationPhase
    lines: list[str] = Field(default=[])
    """What the command said, the last lines."""
    exit_code: int | None = None
    result: Any = None
    """What the command printed, where that is JSON."""
    started: str
    ended: str | None = None


class OperationObject(RestObject):
    """Work that was begun by a request."""

    kind: Literal["Operation"] = "Operation"
    spec: OperationSpec
    status: OperationStatus


class OperationList(ObjectList):
    """Operations, the newest last. Those that ended long ago are forgotten."""

    kind: str = "OperationList"
    items: list[OperationObject] = Field(default=[])


def environment() -> dict[str, str]:
    """What a command sees of the server's: no secret there gets into a chain file."""
    return {
        key: value
        for key, value in os.environ.items()
        if key in _ENVIRONMENT or key.startswith("UNIS_")
    }


def now_text() -> str:
    """The time as RFC 3339 has it, in milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Operation:
    """A command that runs, or has run."""

    verb: str
    run: str
    changes: bool = True  # the run, so nobody else may meanwhile
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    started: str = field(default_factory=now_text)
    ended: str | None = None
    code: int | None = None
    result: Any = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    # Files without a name: nothing is left of them, whoever is killed.
    _said: IO[bytes] = field(default_factory=TemporaryFile)
    _printed: IO[bytes] = field(default_factory=TemporaryFile)
    _process: subprocess.Popen[bytes] | None = None
    _last: list[str] = field(default_factory=list)
    _cancelled: bool = False
    _asked: float = -math.inf  # when it was cancelled last
    _done: Future[None] = field(default_factory=Future)
    _lock: threading.Lock = field(default_factory=threading.Lock)  # around its end

    @property
    def phase(self) -> OperationPhase:
        """How far it is."""
        if self.ended is None:
            return OperationPhase.RUNNING
        if self.code == 0:
            return OperationPhase.SUCCEEDED
        return OperationPhase.CANCELLED if self._cancelled else OperationPhase.FAILED

    def wait(self, seconds: float) -> bool:
        """Whether it has ended by then."""
        with contextlib.suppress(TimeoutError):
            self._done.result(seconds)
        return self._done.done()

    async def ends(self, seconds: float) -> bool:
        """The same, and no thread waits."""
        await asyncio.wait({asyncio.wrap_future(self._done)}, timeout=seconds)
        return self._done.done()

    def lines(self) -> list[str]:
        """What it has said so far."""
        with self._lock:
            return self._last if self.ended is not None else self._named(_lines(self._said))

    def _named(self, lines: list[str]) -> list[str]:
        """With names that the client knows in the place of our files."""
        for ours, theirs in self.aliases.items():
            lines = [line.replace(ours, theirs) for line in lines]
        return lines

    @property
    def last(self) -> list[str]:
        """What it said at last; empty while it runs."""
        return self._last

    def as_object(self) -> OperationObject:
        """For a client."""
        return OperationObject(
            metadata=ObjectMeta(name=self.name, run=self.run or None),
            spec=OperationSpec(verb=self.verb, run=self.run),
            status=OperationStatus(
                phase=self.phase, lines=self.lines(), exit_code=self.code, result=self.result,
                started=self.started, ended=self.ended,
            ),
        )  # fmt: skip

    def cancel(self) -> None:
        """As Ctrl-C does. What has been applied stays; a start is undone."""
        now = time.monotonic()
        # A second one makes it hurry; one who asks again at once has not waited for an answer.
        if self._process and self.ended is None and now - self._asked > _AGAIN_SECONDS:
            self._cancelled, self._asked = True, now
            self._process.send_signal(signal.SIGINT)

    def start(self, words: Sequence[str], cpus: Iterable[int]) -> None:
        """Starts the command. OSError: it cannot be started."""
        code = _COMMAND.format(cpus=sorted(cpus))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, *words],
            stdin=subprocess.DEVNULL, stdout=self._printed, stderr=self._said,
            env={**environment(), "NO_COLOR": "1", "COLUMNS": "1000"}, cwd="/",
            start_new_session=True,
        )  # fmt: skip

    def follow(self, settle: Callable[[], None], tell: Callable[[], None]) -> None:
        """Waits for its end, and notes what came of it. Calls `settle` before it counts as ended,
        and `tell` then.
        """
        code = self._process.wait() if self._process else EXIT_FAILED
        try:
            with self._lock:
                self.code = 128 - code if code < 0 else code
                if self.code == 0:
                    self._cancelled = False  # it was done already
                self.result = _result(self._printed)
                self._last = self._named(_lines(self._said))
            settle()
        finally:
            with self._lock:
                self.ended = now_text()
                self._printed.close()
                self._said.close()
            self._done.set_result(None)
        tell()


def _content(file: IO[bytes], most: int) -> str:
    """The end of it. The command goes on writing where it is: its position is not ours to move."""
    size = os.fstat(file.fileno()).st_size
    begin = max(0, size - most)
    return os.pread(file.fileno(), size - begin, begin).decode(errors="replace")


def _lines(file: IO[bytes]) -> list[str]:
    return _content(file, _TAIL_BYTES).splitlines()[-_LINES:]


def _result(file: IO[bytes]) -> Any:
    """What it printed: JSON, lines of JSON, or text."""
    text = _content(file, _LONGEST)
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text


class Operations:
    """All of them. One at a time for each run: the next one is refused."""

    def __init__(self, cpus: Iterable[int], told: Callable[[Operation], None]) -> None:
        self._cpus = tuple(cpus)
        self._told = told
        self._known: dict[str, Operation] = {}
        self._lock = threading.Lock()
        self._failures: dict[str, str] = {}  # of the last change of a run, by the run

    def begin(
        self,
        words: Sequence[str],
        run: str,
        *,
        changes: bool,
        aliases: Mapping[str, str] = MappingProxyType({}),
        first: Callable[[], None] = lambda: None,
        then: Callable[[Operation], None] = lambda _: None,
    ) -> Operation:
        """Starts `unis` with these words, the first of which is its verb. ApiError: the run
        has another one under way, or there are too many.

        `changes`: the run is changed, so no other operation may change it meanwhile. `first` is
        called when nobody else changes it any more, `then` when it has ended. `aliases`: what a
        client calls files of ours.
        """
        operation = Operation(words[0], run, changes, aliases=aliases)
        with self._lock:
            running = [one for one in self._known.values() if one.ended is None]
            if len(running) >= _AT_ONCE:
                told = f"{_AT_ONCE} operations are under way; wait for one of them"
                raise ApiError(StatusReason.TOO_MANY_REQUESTS, told)
            busy = next((one for one in running if one.run == run and one.changes), None)
            if changes and busy:
                told = f"`{busy.verb}` of run {run} is under way: operation {busy.name}"
                raise ApiError(StatusReason.CONFLICT, told)
            try:
                first()
                operation.start(words, self._cpus)
            except (OSError, ValueError) as error:  # ValueError: a NUL in a word
                operation.code = EXIT_FAILED
                then(operation)
                why = error.strerror if isinstance(error, OSError) else error
                told = f"cannot start `unis {operation.verb}`: {why}"
                raise ApiError(StatusReason.INTERNAL_ERROR, told) from None
            self._known[operation.name] = operation
        ends = lambda: self._settle(operation, then), lambda: self._told(operation)
        thread = threading.Thread(
            target=operation.follow, args=ends, name=f"operation {operation.name}", daemon=True
        )
        self._told(operation)
        thread.start()
        return operation

    def _settle(self, operation: Operation, then: Callable[[Operation], None]) -> None:
        try:
            then(operation)
        except (OSError, UnisError) as error:
            operation.last.append(f"the chain file of before could not be put back: {error}")
        with self._lock:
            if operation.changes and operation.verb in (*_NEW_FILE, "down"):
                self._failures.pop(operation.run, None)
            if operation.changes and operation.verb in _NEW_FILE and operation.code:
                self._failures[operation.run] = "\n".join(operation.last)
                while len(self._failures) > _KEPT:
                    self._failures.pop(next(iter(self._failures)))
            ended = [name for name, one in self._known.items() if one.ended is not None]
            for name in ended[: max(0, len(ended) + 1 - _KEPT)]:  # with this one
                del self._known[name]

    def failure(self, run: str) -> str:
        """Why the last change of a run failed; empty: it did not."""
        return self._failures.get(run, "")

    def get(self, name: str) -> Operation:
        """ApiError: there is none."""
        with self._lock:
            if found := self._known.get(name):
                return found
        raise ApiError(StatusReason.NOT_FOUND, f"there is no operation `{name}`")

    def all(self) -> list[Operation]:
        """In the order in which they began."""
        with self._lock:
            return [*self._known.values()]
