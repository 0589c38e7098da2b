"""A folder that imitates sysfs, and a thread that imitates what the kernel does when it is written
to. An emulation: no device is behind it.
"""

import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class FakeSysfs:
    """`root` is the folder."""

    root: Path
    refusing: set[str] = field(default_factory=set)  # drivers that take no device
    probed: list[str] = field(default_factory=list)  # by address and driver
    _names: dict[str, tuple[str, str]] = field(default_factory=dict)  # driver, interface
    _pipes: dict[int, str | None] = field(default_factory=dict)  # driver whose `unbind` it is

    def __post_init__(self) -> None:
        (self.root / "bus/pci/devices").mkdir(parents=True)
        (self.root / "bus/pci/drivers").mkdir()
        (self.root / "class/net").mkdir(parents=True)
        self._pipe(self.root / "bus/pci/drivers_probe", None)

    def _pipe(self, path: Path, driver: str | None) -> None:
        os.mkfifo(path)
        self._pipes[os.open(path, os.O_RDWR | os.O_NONBLOCK)] = driver

    def device(self, address: str) -> Path:
        return self.root / "bus/pci/devices" / address

    def add_driver(self, name: str, *, hangs: bool = False) -> None:
        """One that `hangs` never comes back from a write to `unbind`."""
        folder = self.root / "bus/pci/drivers" / name
        folder.mkdir(exist_ok=True)
        if hangs:
            os.mkfifo(folder / "unbind")
        elif not (folder / "unbind").exists():
            self._pipe(folder / "unbind", name)

    def add(
        self,
        address: str,
        driver: str | None = None,
        interface: str = "",
        *,
        group: int | None = None,
        pci_class: int = 0x020000,
        **files: object,
    ) -> Path:
        """`driver` is its usual one; `files` have texts."""
        folder = self.device(address)
        folder.mkdir()
        texts = {"vendor": "0x8086", "device": "0x10c9", "class": hex(pci_class), "numa_node": -1}
        for name, text in {**texts, "driver_override": "(null)", **files}.items():
            (folder / name).write_text(f"{text}\n")
        if group is not None:
            members = self.root / f"kernel/iommu_groups/{group}/devices"
            members.mkdir(parents=True, exist_ok=True)
            (members / address).symlink_to(folder)
            (folder / "iommu_group").symlink_to(members.parent)
        if driver:
            self.add_driver(driver)
            self._names[address] = (driver, interface)
            self._attach(address, driver)
        return folder

    def add_vfs(self, physical: str, *addresses: str) -> None:
        """Of devices that are there."""
        for at, address in enumerate(addresses):
            (self.device(physical) / f"virtfn{at}").symlink_to(self.device(address))
            (self.device(address) / "physfn").symlink_to(self.device(physical))

    def _attach(self, address: str, driver: str) -> None:
        usual, interface = self._names.get(address, ("", ""))
        if driver == usual and interface:
            folder = self.device(address) / "net" / interface
            folder.mkdir(parents=True)
            (folder / "flags").write_text("0x1002\n")
            (folder / "mtu").write_text("1500\n")
            (self.root / "class/net" / interface).symlink_to(folder)
        (self.device(address) / "driver").symlink_to(self.root / "bus/pci/drivers" / driver)

    def _detach(self, address: str) -> None:
        interfaces = self.device(address) / "net"
        for folder in [*interfaces.iterdir()] if interfaces.exists() else []:
            (self.root / "class/net" / folder.name).unlink()
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
        (self.device(address) / "driver").unlink()

    def _probe(self, address: str) -> None:
        override = (self.device(address) / "driver_override").read_text().strip()
        usual = self._names.get(address, ("", ""))[0]
        driver = override if override not in ("", "(null)") else usual
        self.probed.append(f"{address} {driver}")
        known = (self.root / "bus/pci/drivers" / driver).exists()
        if driver and known and driver not in self.refusing:
            self._attach(address, driver)

    def serve(self, ended: threading.Event) -> None:
        """Till the end: does what the kernel does."""
        while not ended.is_set():
            for pipe in select.select([*self._pipes], [], [], 0.01)[0]:
                address = os.read(pipe, 64).decode().strip()
                if self._pipes[pipe] is None:
                    self._probe(address)
                else:
                    self._detach(address)
        self.close()

    def close(self) -> None:
        """It reacts to nothing any more."""
        while self._pipes:
            os.close(self._pipes.popitem()[0])


@contextmanager
def answering(root: Path) -> Iterator[FakeSysfs]:
    """A folder like sysfs that reacts to writes while this lasts; add all drivers at once."""
    fake, ended = FakeSysfs(root), threading.Event()
    thread = threading.Thread(target=fake.serve, args=(ended,))
    thread.start()
    try:
        yield fake
    finally:
        ended.set()
        thread.join()
