"""A capture whose packets go to several chains at random, each its share of them."""

import random
import struct
from collections.abc import Mapping
from pathlib import Path

from evaluation.sender import frame

_MAGIC, _MAJOR, _MINOR, _SNAP, _ETHERNET = 0xA1B2C3D4, 2, 4, 65535, 1
_PACKETS = 8192  # replayed over and over
_SEED = 1  # the same packets every time


def write_mixed(file: Path, weights: Mapping[int, float]) -> dict[int, float]:
    """Packets by destination port in such a ratio; the shares that came of it.

    Sent with Poisson arrivals those of each port are as good as Poisson: which of them is next is
    drawn, from a stock of some thousand.
    """
    whole = sum(weights.values())
    counts = {port: max(1, round(_PACKETS * of / whole)) for port, of in weights.items()}
    ports = [port for port, count in counts.items() for _ in range(count)]
    random.Random(_SEED).shuffle(ports)  # noqa: S311  no secret
    frames = {port: frame(port) for port in counts}
    with file.open("wb") as out:
        out.write(struct.pack("=IHHiIII", _MAGIC, _MAJOR, _MINOR, 0, 0, _SNAP, _ETHERNET))
        for at, port in enumerate(ports):
            out.write(struct.pack("=IIII", 0, at, len(frames[port]), len(frames[port])))
            out.write(frames[port])
    return {port: count / len(ports) for port, count in counts.items()}
