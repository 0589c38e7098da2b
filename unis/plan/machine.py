"""What a plan is made for: the CPUs that we may use, and the runs that are there already."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_RR_TIMESLICE = Path("/proc/sys/kernel/sched_rr_timeslice_ms")


def parse_cpu_list(text: str) -> frozenset[int]:
    """`0-2,5` as the kernel writes sets of CPUs; empty text is the empty set."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def format_cpu_list(cpus: Iterable[int]) -> str:
    """{0, 1, 2, 5} as `0-2,5`."""
    parts: list[str] = []
    run: list[int] = []
    for cpu in [*sorted(cpus), -1]:
        if run and cpu != run[-1] + 1:
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
            run = []
        run.append(cpu)
    return ",".join(parts)


@dataclass(frozen=True)
class Machine:
    """The CPUs that this process may use: in a container not all that are online."""

    cpus: frozenset[int]

    @classmethod
    def this(cls) -> "Machine":
        """The machine that we run on; before we restrict ourselves to some of its CPUs."""
        return cls(frozenset(os.sched_getaffinity(0)))


def rr_timeslice_ms() -> int:
    """The kernel's SCHED_RR time slice as it is now."""
    return int(_RR_TIMESLICE.read_text())


@dataclass(frozen=True)
class OtherRun:
    """A run that is on the machine already."""

    name: str
    cpus: frozenset[int]  # of its functions
    platform_cpus: frozenset[int]
    nic_buffers: int = 0  # packets that its NICs can have under way
