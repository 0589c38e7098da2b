"""What happens to runs, told as it happens: server-sent events."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool

from unis.serve.objects import CountedRun, ObjectMeta, RestPart, promise_objects
from unis.serve.operations import now_text

if TYPE_CHECKING:
    from unis.runtime.asked import AskedRun
    from unis.serve.operations import Operation

_LOOK_SECONDS = 1.0
_KEPT = 1000
_STREAM_SECONDS = 55.0  # of one answer; clients ask again, and say which event was the last
_KEEP_ALIVE_SECONDS = 10.0
_REMAINS_SECONDS = 10.0  # for who asks again
_STREAMS = 16


class EventObject(RestPart):
    """Something that happened."""

    id: int
    time: str
    type: str
    """Normal or Warning."""
    reason: str
    """PhaseChanged, FunctionEnded, FunctionRestarted, ChainDown, ChainUp, PromiseBroken,
    PromiseKept, RunAdded, RunRemoved, OperationStarted, OperationEnded."""
    kind: str
    metadata: ObjectMeta
    message: str


class Happening:
    """An event before it is numbered."""

    def __init__(
        self, reason: str, kind: str, name: str, run: str, message: str, *, bad: bool = False
    ) -> None:
        self.reason = reason
        self.kind = kind
        self.name = name
        self.run = run
        self.message = message
        self.bad = bad


class SeenRun:
    """What of a run events tell."""

    def __init__(self, asked: AskedRun) -> None:
        state, stats = asked.state, asked.stats
        self.name = state.name
        self.uid = state.run_id
        self.phase = asked.phase()
        self.reason = state.reason or asked.silence
        self.functions = {one.name: (one.ended, one.restarts) for one in state.functions}
        self.down = {chain.name: bool(chain.down) for chain in stats.chains} if stats else {}
        self.kept = _kept(asked)


def _kept(asked: AskedRun) -> dict[str, bool]:
    found = {}
    for promise in promise_objects(CountedRun(asked)):
        status = promise.status.conditions[0].status
        if status != "Unknown":
            found[promise.spec.chain] = status == "True"
    return found


def happenings(before: Mapping[str, SeenRun], after: Mapping[str, SeenRun]) -> Iterator[Happening]:
    """What changed between two looks at all runs, by their names."""
    for name in before.keys() - after.keys():
        yield Happening("RunRemoved", "Run", name, name, f"run {name} is down")
    for name, now in after.items():
        then = before.get(name)
        if then is None or then.uid != now.uid:
            yield Happening("RunAdded", "Run", name, name, f"run {name} is {now.phase}")
        else:
            yield from _of_run(then, now)


def _of_run(then: SeenRun, now: SeenRun) -> Iterator[Happening]:
    run = now.name
    if then.phase != now.phase:
        bad = now.phase in ("failed", "stale")
        why = f": {now.reason}" if now.reason else ""
        yield Happening("PhaseChanged", "Run", run, run, f"run {run} is {now.phase}{why}", bad=bad)
    for name, (ended, restarts) in now.functions.items():
        ended_then, restarts_then = then.functions.get(name, ("", restarts))
        if restarts > restarts_then:
            told = f"function {name} was started again, {restarts} times by now"
            yield Happening("FunctionRestarted", "Function", name, run, told, bad=True)
        elif ended and not ended_then:
            told = f"function {name} {ended}"
            yield Happening("FunctionEnded", "Function", name, run, told, bad=True)
    for name, down in now.down.items():
        if name in then.down and then.down[name] != down:
            told = "drops its packets: a function is missing" if down else "carries packets again"
            reason = "ChainDown" if down else "ChainUp"
            yield Happening(reason, "Chain", name, run, f"chain {name} {told}", bad=down)
    for name, kept in now.kept.items():
        if name in then.kept and then.kept[name] != kept:
            told = "keeps its latency goal again" if kept else "exceeds its latency goal"
            reason = "PromiseKept" if kept else "PromiseBroken"
            yield Happening(reason, "Promise", name, run, f"chain {name} {told}", bad=not kept)


class Broker:
    """Keeps the last events, and tells them to all who listen. It looks at the runs only while
    somebody listens, so before that only operations are told.
    """

    def __init__(self, look: Callable[[], list[AskedRun]]) -> None:
        self._look = look
        self._kept: deque[EventObject] = deque(maxlen=_KEPT)
        self._next = 1
        self._lock = threading.Lock()
        self._streams = 0
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._seen: dict[str, SeenRun] | None = None
        self._task: asyncio.Task[None] | None = None

    def operation(self, operation: Operation) -> None:
        """Tells that an operation began or ended. From any thread."""
        what = f"{operation.verb} of run {operation.run or '-'}"
        if operation.ended is None:
            happening = Happening("OperationStarted", "Operation", operation.name, operation.run,
                                  f"{what} began")  # fmt: skip
        else:
            last = operation.lines()[-1:]
            told = f"{what}: {operation.phase}" + "".join(f": {line}" for line in last)
            happening = Happening("OperationEnded", "Operation", operation.name, operation.run,
                                  told, bad=operation.code != 0)  # fmt: skip
        if self._loop:
            self._loop.call_soon_threadsafe(self._add, happening)
        else:
            self._add(happening)

    def _add(self, one: Happening) -> None:
        meta = ObjectMeta(name=one.name, run=one.run or None)
        with self._lock:
            number, self._next = self._next, self._next + 1
        self._kept.append(
            EventObject(
                id=number, time=now_text(), type="Warning" if one.bad else "Normal",
                reason=one.reason, kind=one.kind, metadata=meta, message=one.message,
            )
        )  # fmt: skip
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def recent(self, after: int = 0) -> list[EventObject]:
        """Those that are kept, with a greater id."""
        return [one for one in self._kept if one.id > after]

    @property
    def last_id(self) -> int:
        """Of the newest event; 0: there was none."""
        return self._next - 1

    @property
    def full(self) -> bool:
        """Whether nobody else may listen now."""
        return self._streams >= _STREAMS

    async def stream(self, after: int | None) -> AsyncIterator[bytes]:
        """Events with a greater id, now and as they come. None: only those that come."""
        if self._loop is not (loop := asyncio.get_running_loop()):
            self._loop, self._changed, self._task = loop, asyncio.Event(), None
        self._streams += 1
        try:
            if self._task is None or self._task.done():
                self._task = loop.create_task(self._watch())
            seen = self.last_id if after is None or after > self.last_id else after
            yield b"retry: 1000\n\n"
            end = time.monotonic() + _STREAM_SECONDS
            quiet = time.monotonic()
            while (now := time.monotonic()) < end:
                changed = self._changed
                for event in self.recent(seen):
                    seen, quiet = event.id, now
                    yield _as_sent(event)
                if now - quiet >= _KEEP_ALIVE_SECONDS:
                    quiet = now
                    yield b": still here\n\n"
                try:
                    await asyncio.wait_for(changed.wait(), min(_LOOK_SECONDS, end - now))
                except TimeoutError:
                    continue
        finally:
            self._streams -= 1

    async def _watch(self) -> None:
        """While somebody listens."""
        alone = time.monotonic()
        while self._streams or time.monotonic() - alone < _REMAINS_SECONDS:
            alone = time.monotonic() if self._streams else alone
            try:
                found = await run_in_threadpool(self._look)
            except Exception:  # the notes cannot be read now: /healthz tells
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            now = {asked.state.name: SeenRun(asked) for asked in found}
            if self._seen is not None:
                for happening in happenings(self._seen, now):
                    self._add(happening)
            self._seen = now
            await asyncio.sleep(_LOOK_SECONDS)
        self._seen = None  # what happens meanwhile nobody has seen


def _as_sent(event: EventObject) -> bytes:
    data: dict[str, Any] = event.model_dump(by_alias=True, exclude_none=True)
    return f"id: {event.id}\nevent: {event.reason}\ndata: {json.dumps(data)}\n\n".encode()
