"""When sampled packets passed the ports of programs: what plug-in and engine write down, in memory
that the reader shares with them (ports/unis_ports/passages_shm.h).
"""

import contextlib
import fcntl
import mmap
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from unis.errors import UnisError

_FILE = "/memfd:unis_passages"
_VERSION = 3
_THREADS = 32
KEPT = 8192  # passages of a thread
OWN_MOST = 0xFFFF  # of `own`: that or more

_PASSAGE = np.dtype(
    [("stamp", "u8"), ("begin", "u8"), ("end", "u8"), ("kind", "u2"), ("own", "u2"),
     ("packets", "u2"), ("port", "u2")]
)  # fmt: skip
_LOG = np.dtype(
    [("tid", "i4"), ("unused", "u4"), ("written", "u8"), ("unused_too", "u8", 6),
     ("passages", _PASSAGE, KEPT)]
)  # fmt: skip
_ALL = np.dtype(
    [("version", "u4"), ("looks", "u4"), ("mark", "u8"), ("origin", "u8"), ("period", "u8"),
     ("until", "u8"), ("unused", "u8", 3), ("logs", _LOG, _THREADS)]
)  # fmt: skip


class Direction(IntEnum):
    """Of a passage."""

    RECEIVED = 1
    SENT = 2


_DIRECTIONS = frozenset(Direction)


@dataclass(frozen=True)
class Passage:
    """A sampled packet in a burst; all times in TSC cycles."""

    stamp: int  # of the packet
    begin: int  # the burst was called
    end: int  # and returned
    direction: Direction
    thread: int  # TID
    own: int = 0  # by so much the packet was held up to be noted, after `end` or before `begin`


@dataclass(frozen=True)
class Sampling:
    """Which packets are sampled: of each period the first, cycles."""

    mark: int
    origin: int
    period: int
    until: int  # programs look no longer, if the reader is gone without a word


class PassageLog:
    """Of one program. Close it. Threads are told by TID as they are here, not in a container."""

    def __init__(self, pid: int) -> None:
        """UnisError: the program writes none, or another profiler follows its packets."""
        self._file, self._memory = _map(pid)
        self._all: Any = np.frombuffer(self._memory, _ALL, count=1)[0]
        if int(self._all["version"]) != _VERSION:
            self.close()
            raise _no_log(pid)
        self._read = [0] * _THREADS
        self._pid = pid

    def close(self) -> None:
        """Samples no more."""
        self.stop()
        del self._all
        with contextlib.suppress(BufferError):  # a view of it is left: it goes with that
            self._memory.close()
        os.close(self._file)

    @property
    def _here(self) -> Mapping[int, int]:
        """TIDs by those in the program's own PID namespace. None, once it has ended."""
        found = {}
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{self._pid}/task").iterdir():
                with contextlib.suppress(OSError):  # that one has ended
                    status = (task / "status").read_text()
                    numbers = re.search(r"^NSpid:\t(.*)$", status, re.MULTILINE)
                    own = int(numbers[1].split()[-1]) if numbers else int(task.name)
                    found[own] = int(task.name)
        return found

    @property
    def is_over(self) -> bool:
        """Whether the program has ended; one that was started in its place has a log of its own."""
        return not self._here

    @property
    def threads(self) -> list[int]:
        """TIDs of those that have polled."""
        here = self._here
        return [here[tid] for tid in self._all["logs"]["tid"].tolist() if tid in here]

    def begin(self, sampling: Sampling, looks: int) -> None:
        """From now on; `looks`: 1, or 2 to look twice, for the cost."""
        self._all["looks"] = 0
        self._read = [int(written) for written in self._all["logs"]["written"]]
        self._all["mark"] = sampling.mark
        self._all["period"] = sampling.period
        self._all["until"] = sampling.until
        self._all["looks"] = looks
        self._all["origin"] = sampling.origin

    def stop(self) -> None:
        """Programs look no more."""
        self._all["looks"] = 0

    def noted(self) -> list[Passage]:
        """What was written since `begin`, of threads that live: of those that are gone nobody
        can tell when they ran.
        """
        found: list[Passage] = []
        here = self._here
        for log, before in zip(self._all["logs"], self._read, strict=True):
            tid, written = here.get(int(log["tid"])), int(log["written"])
            first = max(before, written - KEPT + 1)
            if tid is None or first >= written:
                continue
            entries = log["passages"][[at % KEPT for at in range(first, written)]].tolist()
            # The writer may have gone on meanwhile, and may be at the one after the last.
            whole = max(first, int(log["written"]) - KEPT + 1)
            found += (
                Passage(stamp, begin, end, Direction(kind), tid, own)
                for stamp, begin, end, kind, own, _, _ in entries[whole - first :]
                if kind in _DIRECTIONS
            )
        return found


def _map(pid: int) -> tuple[int, mmap.mmap]:
    """The file that a program writes, locked, and its memory."""
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                if str(link.readlink()).partition(" ")[0] == _FILE:
                    file = os.open(link, os.O_RDWR | os.O_CLOEXEC)
                    with contextlib.ExitStack() as failed:
                        failed.callback(os.close, file)
                        if not fcntl.fcntl(file, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
                            continue  # to read it could kill us
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        memory = mmap.mmap(file, _ALL.itemsize)
                        failed.pop_all()
                        return file, memory
    except BlockingIOError:
        raise UnisError(
            f"another `unis profile chain` follows the packets of process {pid}: wait till it ends",
            bad_input=False,
        ) from None
    except (OSError, ValueError) as error:
        raise UnisError(
            f"cannot read when process {pid} has packets: {error}", bad_input=False
        ) from None
    raise _no_log(pid)


def _no_log(pid: int) -> UnisError:
    return UnisError(
        f"process {pid} does not tell when it has packets; it must load the plug-in of this "
        "version of UNiS: start the run anew, without `plugin: false`",
        bad_input=False,
    )


@contextlib.contextmanager
def passage_logs(pids: Mapping[str, int]) -> Iterator[Mapping[str, PassageLog]]:
    """Of programs by name."""
    with contextlib.ExitStack() as stack:
        logs = {}
        for pid in dict.fromkeys(pids.values()):  # source and sink are one program
            logs[pid] = PassageLog(pid)
            stack.callback(logs[pid].close)
        yield {name: logs[pid] for name, pid in pids.items()}


class Noted:
    """What was noted, once the block has ended without an error."""

    def __init__(self) -> None:
        self.passages: Mapping[str, Sequence[Passage]] = {}


@contextlib.contextmanager
def noting(logs: Mapping[str, PassageLog], sampling: Sampling, looks: int) -> Iterator[Noted]:
    """While something is measured. `sampling` begins later than now: a packet that is sampled must
    find all of them at it.
    """
    noted = Noted()
    try:
        for log in logs.values():
            log.begin(sampling, looks)
        yield noted
    finally:
        for log in logs.values():
            log.stop()
    noted.passages = {name: log.noted() for name, log in logs.items()}
