"""Interfaces of the host that a user names as source or sink: whether they can be, looked at before
anything is started. UNiS changes nothing of them.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from unis.links import devices
from unis.links.netlink import netlink
from unis.runtime.errors import LaunchError

if TYPE_CHECKING:
    from pyroute2 import IPRoute

_UP = 0x1
_ETHERNET = 1  # ARPHRD_ETHER
# By which an interface makes one packet of several: the kernel's names, and those of ethtool -K.
_JOINING = {"rx-gro": "gro", "rx-lro": "lro", "rx-gro-hw": "rx-gro-hw"}


def look_at(names: Iterable[str]) -> Iterator[str]:
    """What the user should know of interfaces; LaunchError if one cannot be source or sink."""
    for name in names:
        try:
            yield from _look_at(name)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise LaunchError(
                f"cannot look at interface {name}: {why}; does `ip link show {name}` find it?",
                bad_input=False,
            ) from None


def usable() -> list[str]:
    """Those that can be source or sink. OSError if the kernel does not tell."""
    with netlink() as kernel:
        addressed = {one["index"] for one in kernel.get_addr()}
        links = [(link.get_attr("IFLA_IFNAME"), link) for link in kernel.get_links()]
        return [
            name + " (has an address)" * (link["index"] in addressed)
            for name, link in links
            if not _unfit(kernel, name, link)
        ]


def _look_at(name: str) -> Iterator[str]:
    with netlink() as kernel:
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
    if joining := _joining(name):
        off = " ".join(f"{offload} off" for offload in joining)
        yield (
            f"interface {name} joins received packets ({', '.join(joining)}), and those that get "
            f"too long are dropped: `ethtool -K {name} {off}` ends that"
        )


def _unfit(kernel: "IPRoute", name: str, link: Any) -> str:
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


def _joining(name: str) -> list[str]:
    """The offloads by which it makes one packet of several, as ethtool calls them."""
    from pyroute2.ethtool.ioctl import EthtoolError, IoctlEthtool

    with suppress(OSError, EthtoolError), closing(IoctlEthtool(name)) as asked:
        features = asked.get_features()
        known = [at for at in _JOINING if at in features]
        return [_JOINING[at] for at in known if features.is_active(at)]
    return []
