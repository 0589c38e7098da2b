"""How a function's process is started, and what else a kind of program has."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from unis.links.kind import EalDevice, LinkKind

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
    devices: Sequence[EalDevice]

    def load_plugin(self) -> tuple[str, ...]:
        """EAL's arguments that load it."""
        return ("-d", str(self.port_plugin)) if self.port_plugin else ()

    def bus(self) -> tuple[str, ...]:
        """EAL's arguments that keep it off every device of the machine, unless it is given some."""
        return ("--no-pci",) if all(device.virtual for device in self.devices) else ()

    def ports(self) -> tuple[str, ...]:
        """EAL's arguments for its ports."""
        return tuple(device.argument for device in self.devices)


class Workload(Protocol):
    """A kind of program, and of DPDK group. To add one: a module with this, and its line in
    `unis.workload`.
    """

    group: GroupName
    link: str  # the kind of its links, where the file states none
    hugepages_mb: int  # for each function, beside the engine's
    # Its threads poll only once the programs at the other ends of its links run.
    needs_neighbours: bool

    def opens(self, kind: LinkKind) -> bool:
        """Whether it can have ports on links of this kind."""

    def file_prefix(self, run: str, function: str) -> str:
        """The name of its DPDK group."""

    def eal(self, start: Start) -> list[str]:
        """EAL's arguments."""

    def leaves(self, file_prefix: str) -> Sequence[str]:
        """Folders in DPDK's that are its alone, and stay where it was killed."""


def engine_prefix(run: str) -> str:
    """The name of the engine's DPDK group."""
    return f"unis-{run}"
