"""Interfaces of the host that a user names as source or sink: whether they can be, looked at before
anything is started. UNiS changes nothing of them.
"""

import array
import fcntl
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from unis.links import devices
from unis.runtime.errors import LaunchError

_UP = 0x1
_ETHERNET = 1  # ARPHRD_ETHER
# Of ethtool's ioctl.
_SIOCETHTOOL, _GET_GRO, _GET_FLAGS, _LRO = 0x8946, 0x2B, 0x25, 1 << 15


def look_at(names: Iterable[str]) -> Iterator[str]:
    """What the user should know of interfaces; LaunchError if one cannot be source or sink."""
    from pyroute2 import IPRoute

    with IPRoute() as kernel:
        for name in names:
            index = next(iter(kernel.link_lookup(ifname=name)), None)
            if index is None:
                raise LaunchError(f"there is no interface {name} here: `ip link` lists those there")
            (link,) = kernel.get_links(index)
            if why := _unfit(kernel, name, link):
                raise LaunchError(f"interface {name} cannot be source or sink: {why}")
            addresses = [one.get_attr("IFA_ADDRESS") for one in kernel.get_addr(index=index)]
            if addresses:
                yield (
                    f"interface {name} has the address {addresses[0]}, so the host answers to what "
                    f"comes there too: `ip addr flush dev {name}` ends that, and so does "
                    f"`sysctl -w net.ipv6.conf.{name}.disable_ipv6=1` for fe80 addresses"
                )
            if joins := _joining(name):
                yield (
                    f"interface {name} joins received packets ({joins}), and those longer than "
                    f"1518 bytes are lost: `ethtool -K {name} {joins} off` ends that"
                )


def _unfit(kernel: Any, name: str, link: Any) -> str:
    if link["index"] == devices.index_of(name) or name == "lo":
        return "it is a device of UNiS" if name != "lo" else "it is the loopback device"
    if link["ifi_type"] != _ETHERNET:
        return "it is no Ethernet device"
    if (master := link.get_attr("IFLA_MASTER")) is not None:
        (above,) = kernel.get_links(master)
        whose = above.get_attr("IFLA_IFNAME")
        return (
            f"it is a port of {whose}, which gets what comes there; name another, or "
            f"`ip link set {name} nomaster`"
        )
    return "" if link["flags"] & _UP else f"it is down; `ip link set {name} up`"


def _joining(name: str) -> str:
    """The offloads by which it makes one packet of several, as ethtool calls them."""
    found = [("gro", _asked(name, _GET_GRO)), ("lro", _asked(name, _GET_FLAGS) & _LRO)]
    return " ".join(offload for offload, on in found if on)


def _asked(name: str, command: int) -> int:
    answer = array.array("B", struct.pack("=II", command, 0))
    request = struct.pack("16sP", name.encode(), answer.buffer_info()[0])
    with socket.socket() as asked:
        try:
            fcntl.ioctl(asked, _SIOCETHTOOL, request.ljust(40, b"\0"))
        except OSError:
            return 0
    return int.from_bytes(answer[4:].tobytes(), "little")
