"""Which NICs are there, and what keeps DPDK from having them?"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict

from unis.nics import sysfs, usable
from unis.nics.sysfs import Device
from unis.runtime.directory import all_runs
from unis.runtime.doctor.finding import Finding, Level, note
from unis.runtime.errors import NotAllowedError, as_root
from unis.runtime.nics import hindrance, is_unseen


def nics() -> Iterator[Finding]:
    """A finding for each."""
    found = sysfs.devices(sysfs.SYS)
    if not found:
        yield note("NICs", "no PCI device is one", "no chain can use a NIC by its PCI address")
    users: dict[str, str] | None = None
    with suppress(NotAllowedError):
        users = {
            name: run.name
            for _, run in all_runs()
            if not run.undone()
            for name in (*run.nics, *run.interfaces)
        }
    for device in found:
        names = [device.address, *device.interfaces]
        user = next((users[name] for name in names if name in users), "") if users else ""
        yield _of(device, user, unseen=users is None or is_unseen(device))


def _of(device: Device, user: str, *, unseen: bool) -> Finding:
    told = ", ".join(_told(device))
    details = asdict(device)
    check = f"NIC {device.address}"
    if user:
        return Finding(check, Level.OK, f"{told}: run `{user}` has it", details=details)
    bifurcated = usable.is_bifurcated(device)
    if not (why := "" if bifurcated else hindrance(device)):
        ready = "ready, DPDK uses it beside" if bifurcated else "ready"
        if unseen:
            return Finding(
                check,
                Level.NOTE,
                told,
                f"{ready}, unless a program has it, which is not known without root",
                as_root("doctor"),
                {**details, "unseen": True},
            )
        return Finding(check, Level.OK, f"{told}: {ready}", details=details)
    meaning, _, mend = why.partition("; ")
    return Finding(
        check,
        Level.NOTE,
        told,
        f"DPDK cannot have it: {meaning}",
        mend,
        {**details, "hindrance": why},
    )


def _told(device: Device) -> Iterator[str]:
    yield " ".join(
        [*device.interfaces, f"(driver {device.driver})" if device.driver else "no driver"]
    )
    yield (
        "no IOMMU"
        if device.iommu_group is None
        else f"IOMMU group {device.iommu_group}"
        + (f" with {len(device.group_peers)} more" if device.group_peers else "")
    )
    if device.numa_node is not None:
        yield f"NUMA node {device.numa_node}"
    if device.physical:
        yield f"VF of {device.physical}"
    elif device.total_vfs:
        yield f"{len(device.vfs)} of {device.total_vfs} VFs"
    else:
        yield "no SR-IOV"
