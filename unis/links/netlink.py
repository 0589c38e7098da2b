"""The kernel, asked about its network devices."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyroute2 import IPRoute


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
