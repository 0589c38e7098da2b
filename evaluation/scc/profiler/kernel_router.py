"""Linux as a router between two veth pairs, alone on a CPU: the kernel's context of Fig. 4.

`python -m evaluation.scc.profiler.kernel_router CPU ROUNDS SECONDS`, in a network namespace of its
own (`unshare --net`), tells a JSON list of rounds. Of each: ns of the CPU for a frame that is
routed, and for one of an EtherType that ends at the first device; and how many were routed.

The kernel routes a frame within the call that sends it to a veth, on the sender's CPU. So a call
takes as long as the frame needs until it is in the queue behind the router.
"""

import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

_BATCH = 64  # frames of a call
_BYPASS = 20  # PACKET_QDISC_BYPASS of level SOL_PACKET
_SOL_PACKET = 263
_SECONDS = 120  # after which the router's namespace ends by itself
_LOCAL = 0x88B5  # EtherType for local experiments
_NOBODY = "02:00:00:00:00:99"  # so that the frame ends at the device behind the router
_libc = ctypes.CDLL(None, use_errno=True)


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Message(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p), ("name_length", ctypes.c_uint32), ("iov", ctypes.c_void_p),
        ("iov_count", ctypes.c_size_t), ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t), ("flags", ctypes.c_int), ("sent", ctypes.c_uint),
    )  # fmt: skip


def frame(destination: bytes, ether_type: int) -> bytes:
    """60 bytes of UDP from 198.18.0.1 to 198.19.0.1."""
    ip = struct.pack(
        "!BBHHHBBHII", 0x45, 0, 46, 0, 0, 64, 17, 0, 0xC6120001, 0xC6130001
    )  # fmt: skip
    total = sum(struct.unpack("!10H", ip))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack("!H", ~total & 0xFFFF) + ip[12:]
    udp = struct.pack("!HHHH", 1024, 443, 26, 0)
    ethernet = destination + bytes.fromhex("020000000001") + struct.pack("!H", ether_type)
    return (ethernet + ip + udp).ljust(60, b"\0")


class _Sender:
    """Sends one frame again and again."""

    def __init__(self, device: str, data: bytes) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(_SOL_PACKET, _BYPASS, 1)
        self._socket.bind((device, 0))
        self._data = ctypes.create_string_buffer(data, len(data))
        self._iovec = _Iovec(ctypes.addressof(self._data), len(data))
        self._messages = (_Message * _BATCH)()
        for message in self._messages:
            message.iov, message.iov_count = ctypes.addressof(self._iovec), 1

    def ns_per_frame(self, seconds: float) -> tuple[float, int]:
        """Mean over a while, and how many frames it sent."""
        sent, descriptor = 0, self._socket.fileno()
        begin = time.perf_counter_ns()
        end = begin + round(seconds * 1e9)
        while (now := time.perf_counter_ns()) < end:
            for _ in range(8):
                done = _libc.sendmmsg(descriptor, self._messages, _BATCH, 0)
                if done < 0:
                    code = ctypes.get_errno()
                    raise OSError(code, os.strerror(code))
                sent += done
        return (now - begin) / sent, sent


def _ip(*words: str, within: int | None = None) -> None:
    inside = ["nsenter", "--target", str(within), "--net"] if within else []
    subprocess.run([*inside, "ip", *words], check=True)


def _router(pid: int) -> bytes:
    """Makes the devices, routes and neighbours; the address of the router's first device."""
    for near, far in (("s0", "r0"), ("d0", "r1")):
        _ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", str(pid))
        _ip("link", "set", near, "up")
        _ip("link", "set", far, "up", within=pid)
    _ip("addr", "add", "198.18.0.254/24", "dev", "r0", within=pid)
    _ip("addr", "add", "198.19.0.254/24", "dev", "r1", within=pid)
    _ip("neigh", "add", "198.19.0.1", "lladdr", _NOBODY, "dev", "r1", within=pid)
    for key, value in (
        ("ip_forward", "1"),
        ("conf/all/rp_filter", "0"),
        ("conf/r0/rp_filter", "0"),
    ):
        subprocess.run(
            ["nsenter", "--target", str(pid), "--net", "tee", f"/proc/sys/net/ipv4/{key}"],
            input=value, text=True, stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
    told = subprocess.run(
        ["nsenter", "--target", str(pid), "--net", "ip", "-j", "link", "show", "r0"],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    return bytes.fromhex(json.loads(told)[0]["address"].replace(":", ""))


def _arrived() -> int:
    """Frames that came to the device behind the router."""
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "d0":
            return int(counts.split()[1])
    raise RuntimeError("there is no d0")


def main(cpu: int, rounds: int, seconds: float) -> None:
    """Tells what it measures."""
    os.sched_setaffinity(0, {cpu})
    with subprocess.Popen(["unshare", "--net", "sleep", str(_SECONDS)]) as router:
        try:
            _wait_for_namespace(router.pid)
            address = _router(router.pid)
            routed = _Sender("s0", frame(address, 0x0800))
            ended = _Sender("s0", frame(address, _LOCAL))
            routed.ns_per_frame(seconds)  # it warms up
            found = []
            for _ in range(rounds):
                before = _arrived()
                ns, sent = routed.ns_per_frame(seconds)
                came = _arrived() - before
                found.append(
                    {"routed_ns": ns, "ended_ns": ended.ns_per_frame(seconds)[0],
                     "sent": sent, "came": came}
                )  # fmt: skip
        finally:
            router.kill()
    sys.stdout.write(json.dumps(found))


def _wait_for_namespace(pid: int) -> None:
    """Until the process is in another one than we are."""
    here = Path("/proc/self/ns/net").readlink()
    for _ in range(200):
        if Path(f"/proc/{pid}/ns/net").readlink() != here:
            return
        time.sleep(0.01)
    raise RuntimeError("unshare makes no namespace")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
