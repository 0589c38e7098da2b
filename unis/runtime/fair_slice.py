"""The time slice of a thread in the kernel's fair classes, which Python's `os` does not know.

As engine/controller/fair_slice.h: a kernel from Linux 6.12 on keeps one that a thread was given
through every other class and every sched_setscheduler().
"""

import ctypes
import os
import struct

_SCHED_SETATTR = 314  # on x86-64
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, …


def put_fair_slice(tid: int, nanoseconds: int, nice: int) -> None:
    """Puts a thread into SCHED_OTHER with a slice of its own; 0: with that of all. OSError."""
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, nanoseconds, 0, 0)
    if ctypes.CDLL(None, use_errno=True).syscall(_SCHED_SETATTR, tid, wanted, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))  # the kind of error that the code stands for
