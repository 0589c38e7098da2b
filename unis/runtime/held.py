"""The file `held` of a run: which threads unisd holds, what they were before, and that it goes on.

unisd writes it (engine/run/held_file.h); a guard reads it, also after unisd's death, and puts the
threads back. A thread is touched only if it is still the one that was taken.
"""

import contextlib
import ctypes
import os
import signal
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from unis.runtime.kernel_classes import is_class
from unis.runtime.process import ThreadId

_MAGIC = 0x444C4548
_VERSION = 3
_HEADER = struct.Struct("=5I44x")
_BEATS, _BEAT = 32, struct.Struct("=Q56x")
_THREADS, _THREAD = 256, struct.Struct("=iiQiiii128s")
_RETURNED, _RETURNED_AT = struct.Struct("=I"), 16
_PULSE_BYTES = _HEADER.size + _BEATS * _BEAT.size
_NICE = range(-20, 20)
_SLICE = range(100_000_001)  # ns
_SCHED_SETATTR = 314  # on x86-64; Python's `os` does not know it
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, …


class Pulse(NamedTuple):
    """How the loops of the engine are."""

    beats: tuple[int, ...]  # of each loop that must go on, how often it has
    changing: bool  # a policy changes: a loop may wait for that
    returned: bool  # all threads were put back, and unisd has not taken them again


@dataclass(frozen=True)
class HeldThread:
    """A thread that unisd holds, and what it was before."""

    thread: ThreadId
    policy: int
    priority: int
    nice: int
    slice_ns: int  # of its own, in the fair classes; 0: none
    cpus: frozenset[int]

    def put_back(self, *, cpus: bool = False) -> str | None:
        """Gives it its class again and lets it go on; a sentence where that failed.

        With `cpus` its CPUs too. Without: a unisd that goes on keeps the CPUs that it chose.
        """
        tid = self.thread.tid
        if not self.thread.alive():
            return None
        problem: str | None = None
        try:
            # First, for it goes through the default class, and that is not to hang on it.
            put_fair_slice(tid, self.slice_ns, self.nice)
        except ProcessLookupError:
            return None
        except OSError as error:
            problem = f"cannot put the time slice of thread {tid} back: {error.strerror}"
        try:
            os.sched_setscheduler(tid, self.policy, os.sched_param(self.priority))
            os.setpriority(os.PRIO_PROCESS, tid, self.nice)
            if cpus and self.cpus:
                os.sched_setaffinity(tid, self.cpus)
        except ProcessLookupError:
            return None
        except OSError as error:
            return (
                f"cannot put thread {tid} of {self.thread.pid} back into its scheduling class: "
                f"{error.strerror}"
            )
        if self.thread.stopped():
            self.thread.send(signal.SIGCONT)
        return problem


class HeldFile:
    """The file, open."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: Path) -> "HeldFile | None":
        """None: unisd has not written it yet. ValueError: it is of another version."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        file = cls(descriptor)
        data = os.pread(descriptor, _HEADER.size, 0)
        magic, version, *_ = _HEADER.unpack(data) if len(data) == _HEADER.size else (0, 0)
        if (magic, version) == (_MAGIC, _VERSION):
            return file
        file.close()
        if magic == _MAGIC:
            raise ValueError(
                f"{path} has layout {version}, and this guard knows {_VERSION}: `make build`"
            )
        return None

    def close(self) -> None:
        """Once."""
        os.close(self._descriptor)

    def pulse(self) -> Pulse:
        """How the loops are now."""
        data = os.pread(self._descriptor, _PULSE_BYTES, 0)
        if len(data) < _PULSE_BYTES:
            return Pulse((), changing=False, returned=False)
        _, _, beating, changing, returned = _HEADER.unpack_from(data)
        end = _HEADER.size + _BEAT.size * min(beating, _BEATS)
        beats = tuple(count for (count,) in _BEAT.iter_unpack(data[_HEADER.size : end]))
        return Pulse(beats, bool(changing), bool(returned))

    def threads(self) -> list[HeldThread]:
        """Those that are held; what nobody can have written is left out."""
        data = os.pread(self._descriptor, _THREADS * _THREAD.size, _PULSE_BYTES)
        whole = len(data) // _THREAD.size * _THREAD.size
        return [
            HeldThread(
                ThreadId(pid, start, tid),
                policy,
                priority,
                nice,
                slice_ns if slice_ns in _SLICE else 0,
                _cpus(mask),
            )
            for tid, pid, start, policy, priority, nice, slice_ns, mask in _THREAD.iter_unpack(
                data[:whole]
            )
            if tid > 0 and pid > 0 and nice in _NICE and is_class(policy, priority)
        ]

    def tell_returned(self) -> None:
        """unisd takes the threads again when it goes on."""
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, _RETURNED.pack(1), _RETURNED_AT)


class Stillness:
    """Sees by looks, some milliseconds apart, whether a loop stands still.

    Looks, not time: where nobody gets the CPU, no time passes for those who look either.
    """

    def __init__(self, looks: int, looks_while_changing: int) -> None:
        self._patience = looks
        self._patience_while_changing = looks_while_changing
        self._beats: tuple[int, ...] = ()
        self._still: list[int] = []  # looks in which that loop has not moved

    def look(self, pulse: Pulse) -> bool:
        """Whether any loop has stood still for too many looks."""
        before, self._beats = self._beats, pulse.beats
        if len(before) != len(pulse.beats) or pulse.returned:
            self._still = [0] * len(pulse.beats)
            return False
        self._still = [
            still + 1 if now == then else 0
            for still, now, then in zip(self._still, pulse.beats, before, strict=True)
        ]
        patience = self._patience_while_changing if pulse.changing else self._patience
        return any(still >= patience for still in self._still)


def put_back(path: Path) -> list[str]:
    """After the death of a unisd: every thread that it held as it found it; what failed."""
    held = HeldFile.open(path)
    if held is None:
        return []
    try:
        return [problem for thread in held.threads() if (problem := thread.put_back(cpus=True))]
    finally:
        held.close()


def _cpus(mask: bytes) -> frozenset[int]:
    # Words in native order, as the kernel has them; on a little-endian machine one long number.
    words = struct.unpack("=16Q", mask)
    return frozenset(
        64 * at + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1
    )


def put_fair_slice(tid: int, nanoseconds: int, nice: int) -> None:
    """Puts a thread into SCHED_OTHER with a time slice of its own; 0: the kernel's. OSError.

    As engine/controller/fair_slice.h: from Linux 6.12 on a thread keeps its slice through every
    other class and every sched_setscheduler().
    """
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, nanoseconds, 0, 0)
    if ctypes.CDLL(None, use_errno=True).syscall(_SCHED_SETATTR, tid, wanted, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))  # the kind of error that the code stands for
