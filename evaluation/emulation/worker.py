"""One thing after the other in a process of its own, at idle priority, that ends when told to."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from threading import Lock
from types import FrameType
from typing import Any

from unis.errors import UnisError
from unis.runtime.process import children

_PR_SET_PDEATHSIG = 1  # prctl(2)
_PATIENCE = 10.0  # seconds for what is ended, to clean up
_SAID, _RETURNED, _RAISED = range(3)  # what comes from the process


class WorkError(UnisError):
    """The process could not do it; the text says why."""


class IdleWorker(Executor):
    """What it runs, and what that starts, gets what CPU time nobody else wants.

    Functions, arguments and what is returned are pickled. A `report` among the keywords is called
    here with what the function says there. Any error there is a WorkError here.
    """

    def __init__(self) -> None:
        self._queue = ThreadPoolExecutor(max_workers=1)
        self._lock = Lock()
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._closed = False

    def submit(self, of: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Done when all before is; until it is begun it can be cancelled."""
        return self._queue.submit(self._do, of, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:  # noqa: ARG002
        """What is being done is not waited for: it ends, and what it has started with it."""
        self._queue.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
            if self._process:
                _end(self._process)
        self._queue.shutdown(wait)

    def _do(self, of: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        report = kwargs.pop("report", None)
        try:
            pipe = self._opened()
            pipe.send((of, args, kwargs, report is not None))
            while True:
                kind, found = pipe.recv()
                if kind == _RETURNED:
                    return found
                if kind == _RAISED:
                    raise WorkError(found[0], bad_input=found[1])
                _tell(report, found)
        except (EOFError, OSError):
            self._pipe = None  # the next has another process
            raise WorkError("the process that was at it has ended", bad_input=False) from None

    def _opened(self) -> Connection:
        """To the process; it is started where there is none."""
        with self._lock:
            if self._closed:
                raise EOFError
            if self._pipe is None:
                context = multiprocessing.get_context("spawn")  # we have threads, and hold locks
                self._pipe, there = context.Pipe()
                self._process = context.Process(target=_work, args=(there,), daemon=True)
                self._process.start()
                there.close()
            return self._pipe


def _end(process: SpawnProcess) -> None:
    """With what it has started, which it ends itself; killed where that takes too long.

    At idle priority its turn may never come, beside functions that poll.
    """
    if process.pid is None:
        return
    started = [child.pid for child in children(process.pid)]
    for pid in (process.pid, *started):
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
    process.terminate()
    process.join(_PATIENCE)
    if process.is_alive():
        for pid in started:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        process.kill()


def _tell(report: Callable[[str], None], sentence: str) -> None:
    """What goes wrong there is not the work's: its answer is still to come."""
    with contextlib.suppress(Exception):
        report(sentence)


class _StoppedError(BaseException):
    """Unwinds what is being done, with the processes and folders that it has."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: it is cleaned up after
    raise _StoppedError


def _work(pipe: Connection) -> None:
    """In the process, until the other end is closed, its owner gone, or SIGTERM comes."""
    for number in (signal.SIGINT, signal.SIGHUP):  # of a terminal: the owner's to heed
        signal.signal(number, signal.SIG_IGN)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM))
    signal.signal(signal.SIGTERM, _stop)
    with contextlib.suppress(_StoppedError, EOFError, OSError):  # OSError: nobody listens any more
        while True:
            pipe.send(_answer(pipe, *pipe.recv()))


def _answer(
    pipe: Connection,
    of: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    reports: bool,
) -> tuple[int, Any]:
    if reports:
        kwargs["report"] = lambda sentence: pipe.send((_SAID, sentence))
    try:
        return _RETURNED, of(*args, **kwargs)
    except UnisError as error:
        return _RAISED, (str(error), error.bad_input)
    except Exception as error:
        return _RAISED, (f"{type(error).__name__}: {error}", False)
