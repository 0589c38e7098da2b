"""Keeps a CPU from all functions on it, most of the time: `python hog.py CPU SECONDS`.

It tells when it had the CPU, as a JSON list of [begin, end] in ns of CLOCK_MONOTONIC, once its
input ends, or after so many seconds. It is of class fifo, with a higher priority than functions. So
none of them gets the CPU meanwhile, and each does in between.
"""

import json
import os
import select
import sys
import time

_BUSY, _PERIOD = 0.002, 0.0024  # seconds; less than the 95 % that the kernel gives to real time
_PRIORITY = 40  # functions have 1, and the kernel's own threads 50


def main(cpu: int, seconds: float) -> None:
    """Tells what it did."""
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    log = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and not select.select([sys.stdin], [], [], 0)[0]:
        begin = time.monotonic_ns()
        until = begin + round(_BUSY * 1e9)
        while (now := time.monotonic_ns()) < until:
            pass
        log.append([begin, now])
        time.sleep(_PERIOD - _BUSY)
    sys.stdout.write(json.dumps(log))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
