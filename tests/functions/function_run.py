"""Runs a network function, the real program, on a capture and reads back what it sent."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scapy.utils import RawPcapReader, RawPcapWriter

ROOT = Path(__file__).resolve().parents[2]
BINARIES = Path(os.environ.get("UNIS_BUILD", ROOT / "build")) / "functions"
DATA = ROOT / "tests" / "data"
# The one lcore floats over all CPUs: several tests may run side by side.
LCORE = f"0@({','.join(map(str, sorted(os.sched_getaffinity(0))))})"
EAL = (
    *("--no-huge", "-m", "128", "--no-pci", "--no-shconf", "--no-telemetry", "--no-hpet"),
    *("--lcores", LCORE),
)
ETHERNET = 1  # link type

Frames = Sequence[bytes]


def binary(name: str) -> str:
    """Path of a function's program; a build that lacks it is a failure, not a reason to skip."""
    path = BINARIES / name
    assert path.exists(), f"{path} is missing: build it, or set UNIS_BUILD to a build directory"
    return str(path)


def read_pcap(file: Path) -> list[bytes]:
    """The frames of a capture."""
    with RawPcapReader(str(file)) as reader:
        return [frame for frame, _ in reader]


def write_pcap(file: Path, frames: Frames) -> None:
    """A capture of these frames."""
    with RawPcapWriter(str(file), linktype=ETHERNET, snaplen=65535) as writer:
        writer.write_header(None)
        for second, frame in enumerate(frames):
            writer.write_packet(frame, sec=second, usec=0)


def counters(report: str) -> dict[str, int]:
    """The lines "name value" that a function prints at its end."""
    found = re.findall(r"^([a-z][a-z0-9_]+) +(\d+)$", report, re.MULTILINE)
    return {name: int(value) for name, value in found}


@dataclass(frozen=True)
class Run:
    """What came of a run."""

    sent: list[bytes]
    counters: dict[str, int]
    report: str


@dataclass(frozen=True)
class Runner:
    """Runs functions in a folder of their own."""

    folder: Path

    def file(self, name: str, text: str) -> str:
        """A file for an option to name."""
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def __call__(self, name: str, frames: Frames, *options: str, idle_ms: int = 100) -> Run:
        """Sends `frames` through the function; it ends when it has been idle for `idle_ms`."""
        came, sent = self.folder / "in.pcap", self.folder / "out.pcap"
        write_pcap(came, frames)
        port = f"net_pcap0,rx_pcap={came},tx_pcap={sent}"
        done = subprocess.run(
            [binary(name), *EAL, "--vdev", port, "--", "--exit-idle", str(idle_ms), *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        run = Run(read_pcap(sent), counters(done.stdout), done.stdout)
        count = run.counters
        assert count["rx_packets"] == len(frames)
        assert count["tx_packets"] == len(run.sent)
        assert count["dropped_egress_full"] == 0
        assert count["dropped_by_function"] == len(frames) - len(run.sent)
        return run
