"""The kernel, asked about its network devices."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyroute2 import IPRoute

_LINK_SCOPE = 253  # RT_SCOPE_LINK: addresses that the kernel gives every interface that is up


@contextmanager
def netlink() -> Iterator["IPRoute"]:
    """In the network namespace of this thread. OSError, also where pyroute2 has one of its own."""
    from pyroute2 import IPRoute, NetlinkError

    try:
        with IPRoute() as kernel:
            yield kernel
    except NetlinkError as error:
        number = error.code or 0
        raise OSError(number, os.strerror(number)) from None
    except UnicodeError:  # a name that is no text, which pyroute2 cannot ask for
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from None


def use_by_host(interface: str) -> str:
    """What the host uses an interface for, as the end of a sentence about it, and what ends that;
    empty: nothing, or it has gone meanwhile. OSError if the kernel does not tell.
    """
    with netlink() as kernel:
        index = next(iter(kernel.link_lookup(ifname=interface)), None)
        if index is None:
            return ""
        for family in (socket.AF_INET, socket.AF_INET6):
            for route in kernel.get_default_routes(family=family):
                if route.get_attr("RTA_OIF") == index:
                    return "has the default route of this host; name another NIC"
        for address in kernel.get_addr(index=index):
            if address["scope"] != _LINK_SCOPE:
                found = address.get_attr("IFA_ADDRESS")
                return f"has the address {found}; `ip addr flush dev {interface}` frees it"
    return ""
