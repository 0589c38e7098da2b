"""Captures that the source replays: which chain has the packets, and how long they are."""

import struct
from pathlib import Path

from unis.runtime.run import Run

FLOWS = 256
_FCS = 4  # bytes, which no capture holds
_FILE = struct.Struct("<IHHiIII")
_PACKET = struct.Struct("<IIII")
_ETHER = bytes.fromhex("020000000002") + bytes.fromhex("020000000001") + b"\x08\x00"
_IP = struct.Struct(">BBHHHBBHII")
_UDP = struct.Struct(">HHHH")
_ETHERNET, _LONGEST = 1, 65535


def write_capture(file: Path, port: int, size: int) -> None:
    """`FLOWS` frames of `size` bytes with FCS: UDP to this port, each from another one."""
    frames = [_frame(flow, port, size - _FCS) for flow in range(FLOWS)]
    whole = [_FILE.pack(0xA1B2C3D4, 2, 4, 0, 0, _LONGEST, _ETHERNET)]
    for frame in frames:
        whole += [_PACKET.pack(0, 0, len(frame), len(frame)), frame]
    file.write_bytes(b"".join(whole))


def replay(run: Run, file: Path) -> None:
    """From now on the source of a run sends the packets of this file."""
    request = run.deployment(run.plan)
    request.traffic.replay.file = str(file)
    run.client.apply(request)


def _frame(flow: int, port: int, length: int) -> bytes:
    ip_length = length - len(_ETHER)
    source, destination = 0x0A000001 + flow, 0xC0A80001
    header = _IP.pack(0x45, 0, ip_length, 0, 0, 64, 17, 0, source, destination)
    words = struct.unpack(f">{len(header) // 2}H", header)
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    header = header[:10] + struct.pack(">H", checksum) + header[12:]
    udp = _UDP.pack(1024 + flow, port, ip_length - len(header), 0)
    return (_ETHER + header + udp).ljust(length, b"\0")
