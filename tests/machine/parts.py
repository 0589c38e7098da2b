"""What the emulated machine is made of: QEMU, a kernel and its modules, as `tools/third-party
machine` unpacks them; and its first file system.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.machine.initramfs import archive, folder, modules, program
from unis.container.libraries import files_needed

DRIVERS = "UNIS_TEST_DRIVERS"  # environment: those of DPDK that programs inside may load
LINES = "unis.lines"  # name of the port over which lines of JSON go
_DRIVERS = ("net_e1000", "net_af_packet", "net_ring", "net_null")  # that no program is linked to
_MODULES = [
    *("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"),
    *("igb", "igbvf", "vfio-pci", "vfio_iommu_type1"),
    *("veth", "bridge", "tun", "sch_ingress", "af_packet_diag"),
]

# Everything of the host is there, at its own path, and what is written stays in memory.
_INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs none /dev
for module in /modules/*.ko; do
  $b insmod "$module" || echo "cannot load $module"
done
$b mount -t tmpfs none /written
$b mkdir /written/files /written/work
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 host /host
$b mount -t overlay -o lowerdir=/host,upperdir=/written/files,workdir=/written/work none /root
cd /root
$b mount -t proc none proc
$b mount -t sysfs none sys
$b mount -t devtmpfs none dev
$b mkdir -p dev/pts dev/shm dev/hugepages
$b mount -t devpts none dev/pts
$b mount -t tmpfs none dev/shm
$b mount -t hugetlbfs none dev/hugepages
$b mount -t cgroup2 none sys/fs/cgroup
$b mount -t debugfs none sys/kernel/debug
$b mount -t tmpfs -o mode=755 none run
$b mkdir -p run/home
exec $b switch_root /root /bin/sh -c {command}
"""


def drivers(programs: Sequence[Path]) -> list[str]:
    """DPDK's that these programs need. Each would load all that are there: 150 take it seconds."""
    needed = {path.name.split(".")[0] for path in files_needed(programs)}
    return sorted({*(name for name in needed if name.startswith("librte_")),
                   *(f"librte_{name}" for name in _DRIVERS)})  # fmt: skip


@dataclass(frozen=True)
class Parts:
    """Where they are."""

    root: Path  # that packages are unpacked into

    def missing(self) -> str:
        """What is not there; empty if all is."""
        wanted = (self.qemu, self.busybox, self.root / "boot", self.root / "lib" / "modules")
        return ", ".join(str(path) for path in wanted if not path.exists())

    @property
    def qemu(self) -> Path:
        return self.root.parent / "bin" / "qemu-system-x86_64"

    @property
    def busybox(self) -> Path:
        return self.root / "bin" / "busybox"

    @property
    def kernel(self) -> Path:
        return max((self.root / "boot").glob("vmlinuz-*"))

    @property
    def release(self) -> str:
        return self.kernel.name.removeprefix("vmlinuz-")

    def firmware(self) -> list[Path]:
        """Folders of what QEMU loads into the machine."""
        share = self.root / "usr" / "share"
        return [share / "qemu", share / "seabios"]

    def initramfs(self, command: Sequence[str], environment: Mapping[str, str]) -> bytes:
        """It loads modules, mounts this machine's files and starts the command as root."""
        said = shlex.join(["env", "-i", *(f"{k}={v}" for k, v in environment.items()), *command])
        loaded = modules(self.root / "lib" / "modules" / self.release, _MODULES)
        folders = ["bin", "dev", "host", "modules", "root", "written"]
        return archive(
            [
                *map(folder, folders),
                program("bin/busybox", self.busybox.read_bytes()),
                *(
                    program(f"modules/{at:03d}-{module.name}.ko", module.content)
                    for at, module in enumerate(loaded)
                ),
                # Not `exec`: the shell stays the first process, which waits for orphans.
                program("init", _INIT.format(command=shlex.quote(f"{said}; exit 1")).encode()),
            ]
        )
