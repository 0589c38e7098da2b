"""What a plan is made for: the CPUs that we may use, and the runs that are there already."""

import os
from dataclasses import dataclass
from pathlib import Path

from unis.nics.sysfs import SYS

_RR_TIMESLICE = Path("/proc/sys/kernel/sched_rr_timeslice_ms")


@dataclass(frozen=True)
class Machine:
    """The CPUs that this process may use: in a container not all that are online."""

    cpus: frozenset[int]
    sysfs: Path = SYS  # where NICs are looked up

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
    switch_cpus: frozenset[int] = frozenset()  # of its Open vSwitch

    @property
    def packet_cpus(self) -> frozenset[int]:
        """Those of what carries packets beside functions."""
        return self.platform_cpus | self.switch_cpus
