"""Packets of many flows in a capture, for a function that runs by itself under Valgrind."""

import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ENTRY = "*::Process(*"  # the reference functions' work on a burst
_MEMORY_MB = 512
_ETHERNET = bytes.fromhex("0200000000020200000000010800")


@dataclass(frozen=True)
class Flows:
    """Traffic as in ResQ's Table 1: the smallest packets, of flows drawn uniformly.

    First each flow once, which fills the function's tables, then `packets` drawn. UDP and TCP in
    turn, from 10.0.1.0 on to port 443 of addresses all over 64.0.0.0/2.
    """

    flows: int = 100_000
    packets: int = 300_000
    seed: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.flows <= 1 << 22 and self.packets > 0):
            raise ValueError("1 to 4194304 flows, and at least one packet")

    @property
    def total(self) -> int:
        """Packets of the capture."""
        return self.flows + self.packets

    def frames(self) -> Iterator[bytes]:
        """Without FCS: 60 bytes each."""
        dice = random.Random(self.seed)  # noqa: S311
        frames = [_frame(flow, dice.getrandbits(30)) for flow in range(self.flows)]
        yield from frames
        for _ in range(self.packets):
            yield frames[dice.randrange(self.flows)]


def write_capture(file: Path, frames: Iterator[bytes]) -> None:
    """A capture of Ethernet frames, in pcap's format."""
    with file.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for second, frame in enumerate(frames):
            out.write(struct.pack("<IIII", second, 0, len(frame), len(frame)) + frame)


def by_itself(program: Path, arguments: tuple[str, ...], capture: Path) -> list[str]:
    """The command of a reference function that takes the packets of a capture, and ends."""
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    return [
        str(program.resolve()),
        "--no-huge", "-m", str(_MEMORY_MB), "--no-pci", "--no-shconf", "--no-telemetry",
        "--no-hpet", "--lcores", f"0@({cpus})",
        "--vdev", f"net_pcap0,rx_pcap={capture},tx_pcap=/dev/null",
        "--", *arguments, "--exit-idle", "1",
    ]  # fmt: skip


def _frame(flow: int, destination: int) -> bytes:
    """Of a flow to a host of 64.0.0.0/2: 60 bytes, UDP or TCP, with a right IP checksum."""
    tcp = flow % 2
    source, destination = 10 << 24 | flow + 256, 64 << 24 | destination
    ports = struct.pack("!HH", 1024 + flow % 64000, 443)
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, 46, 0, 0, 64, 6 if tcp else 17, 0, source, destination)
    checksum = sum(struct.unpack("!10H", ip))
    checksum = (checksum & 0xFFFF) + (checksum >> 16)
    checksum = ~((checksum & 0xFFFF) + (checksum >> 16)) & 0xFFFF
    transport = ports + (bytes(8) + b"\x50\x10" if tcp else struct.pack("!HH", 26, 0))
    frame = _ETHERNET + ip[:10] + struct.pack("!H", checksum) + ip[12:] + transport
    return frame.ljust(60, b"\0")
