"""How a function's process is started."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

GroupName = Literal["engine", "own"]


@dataclass(frozen=True)
class Start:
    """What a kind of program makes its command line of."""

    run: str
    function: str
    engine_prefix: str  # of the engine's DPDK group
    lcore: int
    cpu: int
    port_driver: Path
    devices: Sequence[str]


class Workload(Protocol):
    """A kind of program, and of DPDK group."""

    group: GroupName
    hugepages_mb: int  # for each function, beside the engine's

    def file_prefix(self, start: Start) -> str:
        """The name of its DPDK group."""

    def eal(self, start: Start) -> list[str]:
        """EAL's arguments."""


def lcores(start: Start) -> list[str]:
    """A distinct lcore for each process, or they would share the caches of the mempool."""
    return ["--lcores", f"{start.lcore}@{start.cpu}"]
