"""Scheduling classes of the kernel, by the names that chain files have for them."""

import os

CLASSES = {
    "other": os.SCHED_OTHER,
    "batch": os.SCHED_BATCH,
    "idle": os.SCHED_IDLE,
    "rr": os.SCHED_RR,
    "fifo": os.SCHED_FIFO,
}
REAL_TIME = ("rr", "fifo")


def class_name(policy: int) -> str:
    """Of what sched_getscheduler() tells; its number where a chain file has no name for it."""
    plain = policy & ~os.SCHED_RESET_ON_FORK
    return next((name for name, number in CLASSES.items() if number == plain), str(plain))


def is_class(policy: int, priority: int) -> bool:
    """Whether a thread can be of that class with that priority."""
    name = class_name(policy)
    return name in CLASSES and priority in (range(1, 100) if name in REAL_TIME else range(1))
