"""An executor with one process at idle priority, which can be ended at any time."""

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
_END_SECONDS = 10.0  # timeout of the clean-up in an ended process
_REPORTED, _RETURNED, _RAISED = range(3)  # kinds of messages from the process


class WorkError(UnisError):
    """The work failed in the process; the text says why."""


class IdleWorker(Executor):
    """Runs functions one by one in a process that gets only idle CPU time, as do its children.

    Functions, arguments and results are pickled. A `report` among the keywords is called here
    with the sentences that the function reports there. Any error there is a WorkError here.
    """

    def __init__(self) -> None:
        self._queue = ThreadPoolExecutor(max_workers=1)
        self._lock = Lock()
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._closed = False

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs after all earlier calls; can be cancelled until it starts."""
        return self._queue.submit(self._do, function, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:  # noqa: ARG002
        """Ends the running call, and the processes that it has started."""
        self._queue.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
            if self._process:
                _end(self._process)
        self._queue.shutdown(wait)

    def _do(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        report = kwargs.pop("report", None)
        try:
            pipe = self._opened()
            pipe.send((function, args, kwargs, report is not None))
            while True:
                kind, found = pipe.recv()
                if kind == _RETURNED:
                    return found
                if kind == _RAISED:
                    raise WorkError(found[0], bad_input=found[1])
                _tell(report, found)
        except (EOFError, OSError):
            self._pipe = None  # the next call starts another process
            raise WorkError("the worker process has ended", bad_input=False) from None

    def _opened(self) -> Connection:
        """The pipe to the process, which is started if necessary."""
        with self._lock:
            if self._closed:
                raise EOFError
            if self._pipe is None:
                context = multiprocessing.get_context(
                    "spawn"
                )  # no fork: there are threads and locks
                self._pipe, child_end = context.Pipe()
                self._process = context.Process(target=_work, args=(child_end,), daemon=True)
                self._process.start()
                child_end.close()
            return self._pipe


def _end(process: SpawnProcess) -> None:
    """Ends the process, which ends its own children; kills all after a timeout.

    They leave idle priority first: beside functions that poll they might never run.
    """
    if process.pid is None:
        return
    started = [child.pid for child in children(process.pid)]
    for pid in (process.pid, *started):
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
    process.terminate()
    process.join(_END_SECONDS)
    if process.is_alive():
        for pid in started:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        process.kill()


def _tell(report: Callable[[str], None], sentence: str) -> None:
    """Reports a sentence. An error of `report` does not stop the work."""
    with contextlib.suppress(Exception):
        report(sentence)


class _StoppedError(BaseException):
    """Unwinds the running call, so that it cleans up its processes and folders."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not stop the clean-up
    raise _StoppedError


def _work(pipe: Connection) -> None:
    """The process: runs until the pipe is closed, the owner has ended, or SIGTERM."""
    for number in (signal.SIGINT, signal.SIGHUP):  # from a terminal: the owner handles them
        signal.signal(number, signal.SIG_IGN)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM))
    signal.signal(signal.SIGTERM, _stop)
    with contextlib.suppress(_StoppedError, EOFError, OSError):  # OSError: the pipe is closed
        while True:
            pipe.send(_answer(pipe, *pipe.recv()))


def _answer(
    pipe: Connection,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    reports: bool,
) -> tuple[int, Any]:
    if reports:
        kwargs["report"] = lambda sentence: pipe.send((_REPORTED, sentence))
    try:
        return _RETURNED, function(*args, **kwargs)
    except UnisError as error:
        return _RAISED, (str(error), error.bad_input)
    except Exception as error:
        return _RAISED, (f"{type(error).__name__}: {error}", False)
