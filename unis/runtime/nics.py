"""NICs of a run: which those are that its file names, and whether it can have them.

Looked at before anything is started; `unis.runtime.steps` binds them.
"""

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from unis.chain.load import LoadedChain
from unis.chain.model import InterfaceSink, InterfaceSource, PortSink, PortSource
from unis.chain.problem import Problem
from unis.errors import UnisError
from unis.links.netlink import use_by_host
from unis.links.sriov import SriovPlan
from unis.nics import sysfs, usable
from unis.nics.sysfs import Device, full_address
from unis.plan import dma
from unis.plan.model import NicPlan, Plan
from unis.runtime.errors import LaunchError
from unis.runtime.state import RunState

_PROC = Path("/proc")
_IFACE = re.compile(r",(?:[rt]x_)?iface=([^,]+)")  # of EAL's strings for interfaces


def resolved(chain: LoadedChain, runs: Sequence[RunState]) -> LoadedChain:
    """The same chain with NICs by their whole addresses, each with its driver; those with driver
    `mmsg` are interfaces. ChainFileError where that cannot be. A NIC that is not here stays as it
    is: to plan needs none.

    The interface of a NIC is gone while a run has it: the notes of `runs` say which that is.
    """
    names = _NicNames(runs)
    traffic = chain.file.traffic
    ends: dict[str, _End] = {}
    drivers: dict[str, set[str]] = {}  # by NIC; of one that keeps its interface an empty one
    problems: list[Problem] = []
    for key, end in (("source", traffic.source), ("sink", traffic.sink)):
        if isinstance(end, _End):
            ends[key], why = names.resolved(end)
            problems += [Problem(("traffic", key, "driver"), why)] if why else []
            address, driver = names.nic(ends[key])
            drivers.setdefault(address, set()).add(driver)
    problems += [
        Problem(
            ("traffic",),
            f"source and sink are one NIC, so state one driver for both: while vfio-pci has "
            f"{address}, it has no interface and no other driver",
        )
        for address, found in drivers.items()
        if address and len(found) > 1 and usable.VFIO in found
    ]
    if problems:
        raise chain.error(problems)
    changed = traffic.model_copy(update=ends)
    return replace(chain, file=chain.file.model_copy(update={"traffic": changed}))


_End = PortSource | PortSink | InterfaceSource | InterfaceSink


class _NicNames:
    """What NICs are called."""

    def __init__(self, runs: Sequence[RunState]) -> None:
        bound = {
            binding.interface: binding.address
            for run in runs
            if not run.undone()
            for binding in run.bindings
        }
        self._devices = {device.address: device for device in sysfs.devices(sysfs.SYS)}
        here = self._devices.values()
        known = {name: device.address for device in here for name in device.interfaces}
        self._addresses = {**bound, **known}

    def nic(self, end: _End) -> tuple[str, str]:
        """The address of the NIC that a resolved end is on, or nothing, and its driver there."""
        if isinstance(end, PortSource | PortSink) and (address := dma.nic(end)):
            return address, end.driver or ""
        interface = _IFACE.search(end.device)
        return self._addresses.get(interface[1], "") if interface else "", ""

    def resolved(self, end: _End) -> tuple[_End, str]:
        """The port or interface that it is, and what is wrong with its driver, if anything."""
        if isinstance(end, InterfaceSource | InterfaceSink):
            return end, ""
        name, comma, arguments = end.device.partition(",")
        address = full_address(name) or self._addresses.get(name, "")
        device = self._devices.get(address)
        if not address:
            why = f"is for NICs, and `{name}` is none here: `unis doctor` lists NICs"
            return end, why if end.driver else ""
        if end.driver == "mmsg":
            try:
                device = sysfs.find(address, sysfs.SYS)
            except UnisError as error:
                return end, f"mmsg needs an interface, and {error}"
            if len(device.interfaces) != 1:
                return end, (
                    f"mmsg needs the interface of {address}, and it has none here; give it to the "
                    "kernel's own driver, in the network namespace of UNiS"
                )
            kind = InterfaceSource if isinstance(end, PortSource) else InterfaceSink
            try:
                return kind(kind="interface", interface=device.interfaces[0]), ""
            except ValueError:  # a comma, or what is no text
                return end, f"DPDK cannot take the name {device.interfaces[0]!r}; rename it"
        bifurcated = device is not None and usable.is_bifurcated(device)
        driver = end.driver or ("kernel" if bifurcated else "vfio-pci")
        changes = {"device": address + comma + arguments, "driver": driver}
        return end.model_copy(update=changes), ""


def require(plan: Plan, others: Sequence[RunState], ours: Collection[str] = ()) -> None:
    """LaunchError if the run cannot have one of its NICs; `ours`: addresses that it has already.

    VFs that a link is going to make are not there yet.
    """
    for end in plan.traffic.ends:
        if isinstance(end, PortSource | PortSink) and (why := _not_here(end.device)):
            raise LaunchError(why)
    for port in [link.details.nic for link in plan.links if isinstance(link.details, SriovPlan)]:
        for other in others:
            if port.port in other.nics or port.interface in other.interfaces:
                raise LaunchError(
                    f"NIC {port.interface} is source or sink of run `{other.name}`, and to make "
                    "virtual functions would cut its link: name another, or end that run: "
                    f"`unis down {other.name}`"
                )
    for nic in plan.nics:
        for other in others:
            if nic.address in other.nics:
                raise LaunchError(
                    f"NIC {nic.address} is in use by run `{other.name}`: name another, or end that "
                    f"run: `unis down {other.name}`"
                )
        if nic.address not in ours:
            _require(nic, plan, others)


def _require(nic: NicPlan, plan: Plan, others: Sequence[RunState]) -> None:
    named = nic.address in dma.pci_addresses(plan.traffic)
    try:
        device = sysfs.find(nic.address, sysfs.SYS)
    except UnisError as error:
        if named:
            raise LaunchError(str(error)) from None
        return
    for other in others:
        for interface in {*device.interfaces} & {*other.interfaces}:
            raise LaunchError(
                f"NIC {nic.address} has the interface {interface}, source or sink of run "
                f"`{other.name}`: name another, or end that run: `unis down {other.name}`"
            )
    if nic.driver:
        why = hindrance(device, nic.driver, [one.address for one in plan.nics if one.driver])
    else:
        why = _without_vfio(device) if named else ""
    if why:
        raise LaunchError(f"NIC {nic.address} cannot be used: {why}")


def _without_vfio(device: Device) -> str:
    of_programs = device.driver in usable.WITHOUT_INTERFACE and not device.interfaces
    if usable.is_bifurcated(device) or of_programs:
        return ""
    return (
        f"DPDK does not use NICs beside driver {device.driver}; leave `driver` out, or name its "
        "interface with kind: interface"
    )


def _not_here(device: str) -> str:
    """Why a device, that is no NIC here, can be none of DPDK's virtual ones either."""
    name, comma, _ = device.partition(",")
    if comma or full_address(name) or name.startswith(("net_", "eth_")):
        return ""
    if (sysfs.SYS / "class/net" / name).exists():
        return f"interface {name} is no PCI device; write kind: interface, interface: {name}"
    return f"there is no NIC `{name}` here: `unis doctor` lists NICs"


def hindrance(device: Device, driver: str = usable.VFIO, together: Collection[str] = ()) -> str:
    """Why a driver of DPDK's cannot have the device now, and what mends that; empty: it can.
    `together`: addresses of those that it gets at the same time.
    """
    if device.driver == driver:
        return _held(device)
    return (
        next(_in_use(device), "") or usable.hindrance(device, sysfs.SYS, together) or _held(device)
    )


def _in_use(device: Device) -> Iterator[str]:
    """By the kernel."""
    if device.driver and not device.interfaces and device.driver not in usable.WITHOUT_INTERFACE:
        yield (
            f"driver {device.driver} has it and its interface is not here, but perhaps in a "
            "network namespace of others"
        )
    for name in device.interfaces:
        for above in sysfs.above(name, sysfs.SYS):
            yield f"its interface {name} is part of {above}; take it out of that first"
        try:
            why = use_by_host(name)
        except OSError as error:
            why = f"cannot be looked at: {os.strerror(error.errno or 0)}"
        if why:
            yield f"its interface {name} {why}"


def is_unseen(device: Device) -> bool:
    """Whether a program may have the device, of which nothing is known, as we are not root."""
    group = (device.driver, *(sysfs.driver_of(peer, sysfs.SYS) for peer in device.group_peers))
    return os.geteuid() != 0 and usable.VFIO in group


def _held(device: Device) -> str:
    """By a program, through vfio."""
    if device.iommu_group is None:
        return ""
    file = f"/dev/vfio/{device.iommu_group}"
    for folder in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(str(link.readlink()) == file for link in (folder / "fd").iterdir()):
                name = sysfs.content(folder / "comm")
                return f"process {folder.name} ({name}) has it open; end that process"
    return ""
