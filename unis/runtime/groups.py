"""Which DPDK group a process is of, seen from outside."""

import contextlib
import re
from pathlib import Path

from unis.runtime.errors import LaunchError
from unis.runtime.functions import DPDK_RUNTIME

_MAPPED = re.compile(r"/dpdk/([^/\s]+)/fbarray_memzone$", re.MULTILINE)


def group_of(pid: int) -> str:
    """Its file prefix; LaunchError where it shares its memory with nobody."""
    try:
        found = _MAPPED.search(Path(f"/proc/{pid}/maps").read_text())
    except OSError as error:
        raise LaunchError(f"cannot look at process {pid}: {error.strerror}") from None
    if found is None:
        raise LaunchError(
            f"process {pid} is of no DPDK group that others can join (with --in-memory or "
            "--no-shconf there is none), so it has no rings to schedule by; say --group if it is"
        )
    return found[1]


def remove_traces(group: str, pid: int) -> None:
    """Files that a killed secondary process has left in the group of others."""
    for file in (DPDK_RUNTIME / group).glob(f"*_{pid}_*"):
        with contextlib.suppress(OSError):
            file.unlink()
