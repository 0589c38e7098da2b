"""Gives a PCI device to another driver, and back.

The kernel's drivers may wait in a write to sysfs for a program that has the device open. So a
process of its own writes, and has a time limit.
"""

import errno
import fcntl
import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unis.errors import UnisError
from unis.nics.sysfs import (
    SYS,
    UP,
    content,
    driver_of,
    find,
    flags,
    folder_of,
    full_address,
    is_name,
    number,
)

SECONDS = 10.0  # for a write
_PROBE_SECONDS = 3.0  # some drivers go on after the write
_LOOK_SECONDS = 0.02
_SIOCSIFNAME = 0x8923
_NAME_BYTES = 15
_NO_OVERRIDE = "(null)"
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Opens no file that is not there, and says by its exit code what went wrong. It dies with whoever
# started it: what it wrote later nobody would undo.
_WRITER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[3]):
    sys.exit(1)
try:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
    os.write(file, sys.argv[2].encode())
    os.close(file)
except OSError as error:
    sys.exit(error.errno)
"""


@dataclass(frozen=True)
class Binding:
    """Which driver has a device, and what is lost with that driver."""

    address: str
    driver: str | None
    override: str  # driver_override; empty: none
    interface: str = ""  # the network interface that the driver made; empty: none, or several
    flags: int = 0  # of that interface, IFF_
    mtu: int = 0

    def __post_init__(self) -> None:
        # Root reads this from a file and makes paths of it.
        words = filter(None, (self.driver, self.override))
        names = filter(None, (self.interface,))
        if not (
            full_address(self.address) == self.address
            and all(map(_is_word, words))
            and all(map(is_name, names))
        ):
            raise ValueError(f"not a binding: {self}")


def found(address: str, root: Path = SYS) -> Binding:
    """The binding as it is now. UnisError: there is no such device."""
    device = find(address, root)
    name = device.interfaces[0] if len(device.interfaces) == 1 else ""
    try:
        return Binding(
            device.address,
            device.driver,
            _override(folder_of(device.address, root) / "driver_override"),
            name,
            flags(name, root) if name else 0,
            number(root / "class/net" / name / "mtu") if name else 0,
        )
    except ValueError as error:
        raise UnisError(f"{address} cannot be given to another driver: {error}") from None


def bind(
    address: str, driver: str, root: Path = SYS, marks: Mapping[str, str] | None = None
) -> Binding:
    """Gives the device to `driver`; the binding before. UnisError: it is as it was before, or the
    sentence says what is not. `marks`: environment of the processes that write.
    """
    before = found(address, root)
    if before.driver == driver:
        return before
    try:
        _give(before.address, driver, root, marks)
    except OSError as error:
        left = restore(before, root)
        raise UnisError(
            "; ".join([f"driver {driver} does not take {before.address}: {error.strerror}", *left]),
            bad_input=False,
        ) from None
    return before


def restore(binding: Binding, root: Path = SYS) -> list[str]:
    """Gives the device back to the driver that had it; sentences of what could not be done.

    Nothing where the device is gone, as a VF is when its NIC has no VFs any more.
    """
    problems: list[str] = []
    for back in (_restore_driver, _restore_override, _restore_interface):
        if not folder_of(binding.address, root).exists():
            return []
        try:
            back(binding, root)
        except UnisError as error:  # it went just now
            problems.append(str(error))
        except OSError as error:
            whose = f"driver {binding.driver}" if binding.driver else "no driver"
            problems.append(
                f"PCI device {binding.address} is not as it was, with {whose}: {error.strerror}"
                + (f" ({error.filename})" if error.filename else "")
            )
    return problems if folder_of(binding.address, root).exists() else []


def write(
    file: Path, text: str, seconds: float | None = None, marks: Mapping[str, str] | None = None
) -> None:
    """Writes to a file of sysfs. OSError if the kernel refuses, or does not end in time: then the
    process that writes may be left. It ends when the kernel lets it.
    """
    writer = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WRITER, file, text, str(os.getpid())],
        env={**os.environ, **(marks or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C does not reach it
    )
    try:
        code = writer.wait(seconds := seconds or SECONDS)
    except subprocess.TimeoutExpired:
        writer.kill()
        raise TimeoutError(
            errno.ETIMEDOUT, f"the kernel does not answer within {seconds:g} s", str(file)
        ) from None
    if code:
        raise OSError(code, os.strerror(code), str(file))


def _restore_driver(binding: Binding, root: Path) -> None:
    if driver_of(binding.address, root) != binding.driver:
        _give(binding.address, binding.driver, root)


def _restore_override(binding: Binding, root: Path) -> None:
    file = folder_of(binding.address, root) / "driver_override"
    if _override(file) != binding.override:
        write(file, binding.override or "\n")


def _restore_interface(binding: Binding, root: Path) -> None:
    if not binding.interface:
        return
    name = _wait_for_interface(binding, root)
    if name != binding.interface:
        _rename(name, binding.interface)
    folder = root / "class/net" / binding.interface
    if content(folder / "mtu") != str(binding.mtu):
        write(folder / "mtu", str(binding.mtu))
    now = flags(binding.interface, root)
    if binding.flags & UP > now & UP:
        write(folder / "flags", hex(now | UP))


def _wait_for_interface(binding: Binding, root: Path) -> str:
    """Its name, as soon as it is the one that it had; else the name that it has then."""
    end = time.monotonic() + _PROBE_SECONDS
    while True:
        names = find(binding.address, root).interfaces
        if binding.interface in names:
            return binding.interface
        if time.monotonic() > end:
            if len(names) == 1:
                return names[0]
            raise OSError(errno.ENODEV, f"interface {binding.interface} does not come back")
        time.sleep(_LOOK_SECONDS)


def _rename(interface: str, name: str) -> None:
    names = (interface.encode()[:_NAME_BYTES], name.encode()[:_NAME_BYTES])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, _SIOCSIFNAME, struct.pack("16s16s", *names))


def _give(
    address: str, driver: str | None, root: Path, marks: Mapping[str, str] | None = None
) -> None:
    """By driver_override, which also binds VFs whose NIC has sriov_drivers_autoprobe off."""
    folder = folder_of(address, root)
    if driver:
        write(folder / "driver_override", driver, marks=marks)
    if driver_of(address, root):
        write(folder / "driver/unbind", address, marks=marks)
        _wait_for(address, None, root)
    if driver:
        write(root / "bus/pci/drivers_probe", address, marks=marks)
        _wait_for(address, driver, root)


def _wait_for(address: str, driver: str | None, root: Path) -> None:
    end = time.monotonic() + _PROBE_SECONDS
    while (has := driver_of(address, root)) != driver:
        if time.monotonic() > end:
            raise OSError(errno.EBUSY, f"driver {has} has it" if has else "no driver has it")
        time.sleep(_LOOK_SECONDS)


def _override(file: Path) -> str:
    text = content(file)
    return "" if text == _NO_OVERRIDE else text


def _is_word(text: str) -> bool:
    return _WORD.fullmatch(text) is not None
