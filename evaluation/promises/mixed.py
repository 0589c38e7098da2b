"""A capture with packets of several chains in random order, in given proportions."""

import random
import struct
from collections.abc import Mapping
from pathlib import Path

from evaluation.sender import frame

_MAGIC, _MAJOR, _MINOR, _SNAP, _ETHERNET = 0xA1B2C3D4, 2, 4, 65535, 1
_PACKETS = 8192  # replayed over and over
_SEED = 1  # the same packets every time


def write_mixed(file: Path, weights: Mapping[int, float]) -> dict[int, float]:
    """Writes packets with destination ports in proportion to `weights`; returns the real shares.

    The order is random. So if the source sends the capture with Poisson arrivals, the arrivals at
    each port are nearly Poisson too.
    """
    total = sum(weights.values())
    counts = {port: max(1, round(_PACKETS * weight / total)) for port, weight in weights.items()}
    ports = [port for port, count in counts.items() for _ in range(count)]
    random.Random(_SEED).shuffle(ports)  # noqa: S311  no secret
    frames = {port: frame(port) for port in counts}
    with file.open("wb") as out:
        out.write(struct.pack("=IHHiIII", _MAGIC, _MAJOR, _MINOR, 0, 0, _SNAP, _ETHERNET))
        for microsecond, port in enumerate(ports):
            out.write(struct.pack("=IIII", 0, microsecond, len(frames[port]), len(frames[port])))
            out.write(frames[port])
    return {port: count / len(ports) for port, count in counts.items()}
