"""The configuration of a container, as the runtime specification of the OCI has it. Pure."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unis.container.model import Mount

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Made in each container, so that nothing is written into an image. DPDK keeps its own files below
# /var/run.
_SCRATCH = ("/tmp", "/run", "/var/run")  # noqa: S108  of the container
_DEVICES = ("/dev", "/dev/pts", "/dev/shm", "/dev/hugepages")  # noqa: S108  of the container
FIXED = tuple(map(Path, ("/proc", "/sys", *_DEVICES, *_SCRATCH)))
_OPEN, _PRIVATE = ["nosuid", "nodev", "mode=1777"], ["nosuid", "nodev", "mode=755"]
_BARE = ["nosuid", "noexec", "nodev"]
_MASKED = [
    "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/scsi",
    "/proc/sched_debug", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
]  # fmt: skip
_READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
_SETS = ("bounding", "effective", "permitted", "inheritable", "ambient")


@dataclass(frozen=True)
class Contained:
    """A process, and what it may see and do."""

    name: str  # also of the machine, as it sees it
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    uid: int
    gid: int
    groups: Sequence[int]  # beside `gid`
    capabilities: Sequence[str]  # as capabilities(7) has them, without CAP_
    image: Sequence[Mount]  # what of its root file system comes of an image
    mounts: Sequence[Mount]  # above that, and above what each container has
    network: Path | None = None  # of a network namespace; None: the launcher's


def config(root: Path, process: Contained) -> dict[str, Any]:
    """What config.json says; `root` is the folder that becomes the container's `/`, read-only.

    Limits of resources, CPUs and scheduling are those of whoever starts it: no key changes them.
    """
    capabilities = [f"CAP_{name.upper()}" for name in process.capabilities]
    namespaces: list[dict[str, str]] = [
        {"type": kind} for kind in ("pid", "mount", "ipc", "uts", "cgroup")
    ]
    if process.network:
        namespaces.append({"type": "network", "path": str(process.network)})
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {
                "uid": process.uid,
                "gid": process.gid,
                "additionalGids": [group for group in process.groups if group != process.gid],
            },
            "args": list(process.argv),
            "env": [f"{key}={value}" for key, value in process.env.items()],
            "cwd": str(process.cwd),
            "capabilities": dict.fromkeys(_SETS, capabilities),
            "noNewPrivileges": True,
        },
        "root": {"path": str(root), "readonly": True},
        "hostname": process.name,
        "mounts": [
            *map(_bound, process.image),
            *_own_mounts(),
            *map(_bound, process.mounts),
        ],
        "linux": {
            "namespaces": namespaces,
            "maskedPaths": _MASKED,
            "readonlyPaths": _READ_ONLY,
        },
    }


def within(path: Path, folder: Path) -> bool:
    """Whether it is the folder or in it; neither has `..`."""
    return path == folder or folder in path.parents


def ordered(mounts: Sequence[Mount]) -> tuple[Mount, ...]:
    """Without repetition, an inner one behind the one that it is in."""
    found: dict[Path, Mount] = {}
    for mount in mounts:
        inside = Path(os.path.normpath(mount.inside))
        before = found.get(inside)
        if before is None or (mount.writable and before.source == mount.source):
            found[inside] = Mount(mount.source, inside, mount.writable)
    return tuple(found[inside] for inside in sorted(found, key=lambda path: path.parts))


def _own_mounts() -> list[dict[str, Any]]:
    def made(inside: str, kind: str, options: Sequence[str]) -> dict[str, Any]:
        return {"destination": inside, "type": kind, "source": kind, "options": [*options]}

    return [
        made("/proc", "proc", _BARE),
        made("/sys", "sysfs", [*_BARE, "ro"]),
        made("/dev", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        made("/dev/pts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666"]),
        made("/dev/shm", "tmpfs", _OPEN),  # noqa: S108  of the container
        # For programs that keep files of packet memory; others have hugepages without it.
        made("/dev/hugepages", "hugetlbfs", ["nosuid", "nodev", "noexec", "mode=1777"]),
        *(made(place, "tmpfs", _OPEN if place == _SCRATCH[0] else _PRIVATE) for place in _SCRATCH),
    ]


def _bound(mount: Mount) -> dict[str, Any]:
    return {
        "destination": str(mount.inside),
        "type": "bind",
        "source": str(mount.source),
        # Not what is mounted below it here: only a folder itself is handed in.
        "options": ["bind", "nosuid", "nodev", "private", "rw" if mount.writable else "ro"],
    }
