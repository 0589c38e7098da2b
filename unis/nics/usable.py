"""What keeps DPDK from having a NIC by vfio-pci, as far as sysfs tells."""

import subprocess
from collections.abc import Collection
from pathlib import Path

from unis.nics.sysfs import SYS, Device, driver_of

VFIO = "vfio-pci"
# Beside these drivers DPDK uses a NIC: it stays theirs.
_BIFURCATED = frozenset({"mlx4_core", "mlx5_core", "mana"})
# Of other devices of a group these leave vfio alone.
_HARMLESS = frozenset({None, VFIO, "pcieport", "pci-stub"})
# Drivers of programs, which make no network interface.
WITHOUT_INTERFACE = frozenset({VFIO, "pci-stub", "uio_pci_generic", "igb_uio", "virtio-pci"})
_MODULE_SECONDS = 20.0


def is_bifurcated(device: Device) -> bool:
    """Whether DPDK uses it beside the kernel's driver."""
    return device.driver in _BIFURCATED


def hindrance(device: Device, root: Path = SYS, together: Collection[str] = ()) -> str:
    """Why vfio-pci cannot have the device, and what mends that; empty: it can. `together`:
    addresses of those that it gets at the same time.
    """
    if is_bifurcated(device):
        return f"DPDK uses it beside {device.driver}; leave `driver` out"
    if device.vfs:
        return (
            f"it has {len(device.vfs)} VFs, which go with its driver; use VF {device.vfs[0]}, or "
            f"remove them: `echo 0 > /sys/bus/pci/devices/{device.address}/sriov_numvfs`"
        )
    if device.iommu_group is None:
        return (
            "no IOMMU guards memory from it; boot with intel_iommu=on or amd_iommu=on, and turn "
            "the IOMMU on in the firmware. vfio's no-IOMMU mode would let the NIC write into all "
            "memory, so UNiS does not use it"
        )
    held = {peer: driver_of(peer, root) for peer in device.group_peers if peer not in together}
    for peer, driver in held.items():
        if driver not in _HARMLESS:
            return (
                f"IOMMU group {device.iommu_group} is shared with {peer}, which driver {driver} "
                "has; unbind that device, or move the NIC to another slot"
            )
    return module_missing(root)


def module_missing(root: Path = SYS) -> str:
    """Whether the kernel has no vfio-pci, and what mends that; empty: it has."""
    if (root / "bus/pci/drivers" / VFIO).exists() or _modprobe("--dry-run"):
        return ""
    return "this kernel has no module vfio-pci; install the full kernel package"


def load_module(root: Path = SYS) -> None:
    """Loads vfio-pci, unless it is there."""
    if not (root / "bus/pci/drivers" / VFIO).exists():
        _modprobe()


def _modprobe(*more: str) -> bool:
    try:
        done = subprocess.run(
            ["modprobe", "--quiet", *more, VFIO],
            capture_output=True,
            timeout=_MODULE_SECONDS,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
