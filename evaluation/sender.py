"""A traffic source in its own process: sends packets into a network device until it is killed.

`python -P -m evaluation.sender DEVICE PPS`. Packets that it cannot send in time are not sent.
"""

import errno
import itertools
import socket
import struct
import sys
import time

_INTERVAL_SECONDS = 0.002
_TEMPORARY = (errno.ENOBUFS, errno.ENETDOWN, errno.EAGAIN, errno.EIO)  # device full or down
_ETHERNET = bytes.fromhex("0200000000020200000000010800")
_DATA = bytes(18)  # fills the shortest Ethernet frame
DESTINATION_PORTS = (53, 80, 8080)  # each chain of the fault injection matches one


def frame(destination_port: int) -> bytes:
    """A UDP packet of 60 bytes, without FCS and checksums."""
    udp = struct.pack("!HHHH", 1024, destination_port, 8 + len(_DATA), 0) + _DATA
    addresses = socket.inet_aton("10.0.0.1") + socket.inet_aton("10.0.0.2")
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, socket.IPPROTO_UDP, 0)
    return _ETHERNET + ip + addresses + udp


def main() -> None:
    """Sends as long as the device exists."""
    device, pps = sys.argv[1], float(sys.argv[2])
    frames = itertools.cycle(frame(port) for port in DESTINATION_PORTS)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((device, 0))
        while True:
            due = time.monotonic() + _INTERVAL_SECONDS
            for _ in range(round(pps * _INTERVAL_SECONDS)):
                try:
                    out.send(next(frames))
                except OSError as error:
                    if error.errno not in _TEMPORARY:  # the device is gone
                        return
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
