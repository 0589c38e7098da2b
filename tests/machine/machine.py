"""The emulated machine: two network cards of seven virtual functions each, and no speed.

QEMU computes what the processors and the cards (Intel's 82576, driver igb) would do; there is no
hardware below. So it shows what works, and never how fast.
"""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.machine.parts import LINES, Parts

CARDS = 2
MEMORY_MB = 2800  # functions of cards above 4 GB do not work in QEMU 10.0
HUGEPAGES = 560  # of 2 MB
_KEPT_FRAMES = 1000  # of a wire that nobody asked about yet
_KERNEL = (
    "console=ttyS0 quiet panic=-1 nokaslr mitigations=off nowatchdog nohz=off highres=off "
    f"intel_iommu=on iommu=pt hugepages={HUGEPAGES}"
)


class MachineError(Exception):
    """The machine did not do what it should; the text says what."""


class SilenceError(MachineError):
    """It said nothing for too long."""


def card_address(card: int) -> str:
    """Of a card on the machine's PCI bus."""
    return f"0000:{card + 1:02x}:00.0"


def _command(parts: Parts, folder: Path, lines: int, wires: Sequence[int]) -> list[str]:
    command = [
        *("setpriv", "--pdeathsig", "KILL"),  # however we end
        *(str(parts.qemu), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *(word for path in parts.firmware() for word in ("-L", str(path))),
        *("-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"),
        *("-smp", "2", "-m", str(MEMORY_MB)),
        *("-kernel", str(parts.kernel), "-initrd", str(folder / "initramfs")),
        *("-append", _KERNEL),
        *("-serial", f"file:{folder / 'serial.log'}"),
        *("-device", "intel-iommu,intremap=on"),
        *("-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"),
        *("-device", "virtio-9p-pci,fsdev=host,mount_tag=host"),
        *("-device", "virtio-serial-pci", "-chardev", f"socket,id=lines,fd={lines}"),
        *("-device", f"virtserialport,chardev=lines,name={LINES}"),
    ]
    for card, wire in enumerate(wires):
        command += [
            *("-netdev", f"dgram,id=wire{card},local.type=fd,local.str={wire}"),
            *("-device", f"pcie-root-port,id=slot{card},chassis={card},slot={card}"),
            *("-device", f"igb,netdev=wire{card},bus=slot{card},mac={card_mac(card)},romfile="),
        ]
    return command


def card_mac(card: int) -> str:
    """Of a card's own port."""
    return f"52:54:00:00:00:{card + 1:02x}"


@dataclass
class Booted:
    """The machine while it runs."""

    process: subprocess.Popen[bytes]
    lines: socket.socket  # to and from what runs inside
    wires: list[socket.socket]  # the other end of each card's cable
    seen: list[deque[bytes]]  # frames that came out of each cable, and that nobody asked about

    def read_lines(self, allowed: Callable[[], float], end: float) -> Iterator[bytes]:
        """Lines from inside, until the machine has ended.

        SilenceError: nothing for as many seconds as are `allowed` now. MachineError: it is later
        than `end`, of time.monotonic.
        """
        part = b""
        heard = time.monotonic()
        with selectors.DefaultSelector() as ready:
            for opened in (self.lines, *self.wires):
                ready.register(opened, selectors.EVENT_READ)
            while True:
                now, silence = time.monotonic(), allowed()
                if now > end:
                    raise MachineError("the machine took too long as a whole")
                if now > heard + silence:
                    raise SilenceError(f"the machine said nothing for {silence:.0f} s")
                events = ready.select(min(end, heard + silence) - now + 0.1)
                self._keep_frames()
                if not any(key.fileobj is self.lines for key, _ in events):
                    continue
                heard = time.monotonic()
                came = self._read()
                if not came:
                    return
                *whole, part = (part + came).split(b"\n")
                yield from whole
                heard = time.monotonic()

    def _read(self) -> bytes:
        try:
            return self.lines.recv(1 << 16)
        except ConnectionResetError:
            return b""

    def write_line(self, line: bytes) -> None:
        self.lines.sendall(line + b"\n")

    def _keep_frames(self) -> None:
        for wire, frames in zip(self.wires, self.seen, strict=True):
            with contextlib.suppress(BlockingIOError):
                while True:
                    frames.append(wire.recv(1 << 16))


@contextlib.contextmanager
def booted(parts: Parts, folder: Path, initramfs: bytes) -> Iterator[Booted]:
    """Starts the machine, and ends it. `folder` keeps what it wrote on its serial port."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "initramfs").write_bytes(initramfs)
    (folder / "serial.log").write_bytes(b"")
    with contextlib.ExitStack() as stack:
        lines, its_lines = socket.socketpair()
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(CARDS)]
        for opened in (lines, its_lines, *(end for pair in pairs for end in pair)):
            stack.enter_context(opened)
        ours, its = ([pair[end] for pair in pairs] for end in (0, 1))
        for wire in ours:
            wire.setblocking(False)
        given = [its_lines.fileno(), *(wire.fileno() for wire in its)]
        said = stack.enter_context(tempfile.TemporaryFile())
        process = subprocess.Popen(
            _command(parts, folder, given[0], given[1:]),
            pass_fds=given, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            start_new_session=True,  # so that Ctrl-C is ours to handle
        )  # fmt: skip
        its_lines.close()
        try:
            yield Booted(process, lines, ours, [deque(maxlen=_KEPT_FRAMES) for _ in ours])
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            (folder / "initramfs").unlink()
            said.seek(0)
            if words := said.read().decode(errors="replace").strip():
                print(f"QEMU: {words}")  # noqa: T201
