"""How a function's process is started."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

GroupName = Literal["engine", "own"]
OFFLOADS = "UNIS_OFFLOADS"  # what the plug-in reads (ports/unis_ports/offloads.h)


@dataclass(frozen=True)
class Start:
    """What a kind of program makes its command line of."""

    file_prefix: str  # of the DPDK group that it is of
    lcores: str  # value of EAL's --lcores
    port_driver: Path  # of rings
    # Stands between a program and its ports, whatever their driver; None: nothing does.
    port_plugin: Path | None
    devices: Sequence[str]

    def load_plugin(self) -> tuple[str, ...]:
        """EAL's arguments that load it."""
        return ("-d", str(self.port_plugin)) if self.port_plugin else ()


class Workload(Protocol):
    """A kind of program, and of DPDK group."""

    group: GroupName
    hugepages_mb: int  # for each function, beside the engine's

    def file_prefix(self, run: str, function: str) -> str:
        """The name of its DPDK group."""

    def eal(self, start: Start) -> list[str]:
        """EAL's arguments."""


def engine_prefix(run: str) -> str:
    """The name of the engine's DPDK group."""
    return f"unis-{run}"
