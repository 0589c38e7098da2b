"""Kinds of programs: how a function's process is started, and its DPDK group."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unis.links.kind import LinkKind
from unis.nics.sysfs import full_address

GroupName = Literal["engine", "own"]
# What the plug-in reads (ports/unis_ports/offloads.h, next_hops.h, turns.h, lcore_usage.h).
OFFLOADS, NEXT_HOPS, COUNTED = "UNIS_OFFLOADS", "UNIS_NEXT_HOPS", "UNIS_COUNTED"
LCORE_USAGE = "UNIS_LCORE_USAGE"


def engine_prefix(run: str) -> str:
    """The name of the engine's DPDK group."""
    return f"unis-{run}"


@dataclass(frozen=True)
class Start:
    """What a kind of program makes its command line of."""

    file_prefix: str  # of its DPDK group
    lcores: str  # value of EAL's --lcores
    drivers: Sequence[Path]  # of its ports, those that are ours
    # Stands between a program and its ports, whatever their driver; None: nothing does.
    port_plugin: Path | None
    devices: Sequence[str]  # values of EAL's --vdev, or of -a for PCI devices
    needed: Sequence[str] = ()  # further arguments of EAL's, by its ports
    telemetry: bool = False  # whether DPDK's stays on

    @property
    def loaded(self) -> list[str]:
        """EAL's arguments that load drivers and plug-in."""
        parts = [*self.drivers, *([self.port_plugin] if self.port_plugin else [])]
        return [word for part in parts for word in ("-d", str(part))]

    @property
    def pci(self) -> list[str]:
        """EAL's arguments for its ports on PCI devices, and for no other PCI device."""
        devices = [device for device in self.devices if is_pci(device)]
        return [word for device in devices for word in ("-a", device)] or ["--no-pci"]

    @property
    def ports(self) -> list[str]:
        """EAL's arguments for its other ports."""
        return [f"--vdev={device}" for device in self.devices if not is_pci(device)]


def is_pci(device: str) -> bool:
    """Whether EAL's name of a device is the address of a PCI device."""
    return bool(full_address(device.partition(",")[0]))


def order_problem(devices: Sequence[str]) -> str:
    """Why EAL would number these devices in another order; empty: it would not.

    It opens PCI devices first, by address.
    """
    pci = [device for device in devices if is_pci(device)]
    if [*sorted(pci), *(device for device in devices if device not in pci)] == [*devices]:
        return ""
    return (
        f"DPDK numbers ports on PCI devices first, by address, and here they are {', '.join(pci)} "
        "among others; give its first ports the NICs, in the order of their addresses"
    )


class ProgramKind(ABC):
    """A kind of program, and of DPDK group. To add one: a subclass, and its line in `KINDS`."""

    group: GroupName
    link: str  # the kind of its links, where the file states none
    hugepages_mb: int  # for each function, beside the engine's
    # Its threads poll only once the programs at the other ends of its links run.
    needs_neighbours: bool

    @abstractmethod
    def opens(self, kind: LinkKind) -> bool:
        """Whether it can have ports on links of this kind."""

    @abstractmethod
    def file_prefix(self, run: str, function: str) -> str:
        """The name of its DPDK group."""

    @abstractmethod
    def eal(self, start: Start) -> list[str]:
        """EAL's arguments."""

    @abstractmethod
    def leaves(self, file_prefix: str) -> Sequence[str]:
        """Folders in DPDK's that are its alone, and stay where it was killed."""


class Secondary(ProgramKind):
    """A secondary process of the engine's group, on rings: any program that uses the ports it
    finds. Packets stay where they are.
    """

    group = "engine"
    link = "ring"
    hugepages_mb = 0
    needs_neighbours = False

    def opens(self, kind: LinkKind) -> bool:
        """What is in the memory of its group; a secondary process makes no devices of its own."""
        return kind.of_group

    def file_prefix(self, run: str, function: str) -> str:  # noqa: ARG002
        """The engine's."""
        return engine_prefix(run)

    def eal(self, start: Start) -> list[str]:
        """Memory and packets are the engine's; the ports are net_unis."""
        return [
            *start.loaded,
            *("--lcores", start.lcores),
            "--proc-type=secondary",
            f"--file-prefix={start.file_prefix}",
            *start.pci,
            # The default pool is not preemptible: real-time functions would wait for ever.
            "--mbuf-pool-ops-name=lf_stack",
            "--iova-mode=va",  # as unisd: packets never leave for a device of the function's
            "--no-telemetry",
            *start.ports,
        ]

    def leaves(self, file_prefix: str) -> Sequence[str]:  # noqa: ARG002
        """None: the group lives on with the engine."""
        return ()


class Primary(ProgramKind):
    """The primary process of a group of its own: a program that knows nothing of the engine."""

    group = "own"
    link = "memif"
    hugepages_mb = 64
    needs_neighbours = True

    def opens(self, kind: LinkKind) -> bool:
        """All that does not need the engine's memory."""
        return not kind.of_group

    def file_prefix(self, run: str, function: str) -> str:
        """Its own, so that two groups never meet: no name of a run or function has a dot."""
        return f"{engine_prefix(run)}.{function}"

    def eal(self, start: Start) -> list[str]:
        """Hugepages without a file: nothing is left behind, however it ends."""
        return [
            *start.loaded,
            *("--lcores", start.lcores),
            "--proc-type=primary",
            f"--file-prefix={start.file_prefix}",
            "--in-memory",
            *start.pci,
            "--iova-mode=va",
            *([] if start.telemetry else ["--no-telemetry"]),
            *start.needed,
            *start.ports,
        ]

    def leaves(self, file_prefix: str) -> Sequence[str]:
        """The group's, for nobody else is in it."""
        return (file_prefix,)


KINDS: dict[str, ProgramKind] = {kind.group: kind for kind in (Secondary(), Primary())}
