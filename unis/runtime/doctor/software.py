"""Is everything there that UNiS is made of?"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from unis import built
from unis.links import KINDS
from unis.runtime.doctor.finding import Finding, blocked, fine, note

_LIBRARIES = Path("/usr/lib")
_ASK_LIBRARY = """
import ctypes, sys
version = ctypes.CDLL(sys.argv[1]).rte_version
version.restype = ctypes.c_char_p
print(version().decode())
"""


def dpdk_version() -> str:
    """The version of the installed DPDK; empty where there is none."""
    tool = shutil.which("pkg-config")
    if tool is None:
        return _version_of_library()
    done = subprocess.run(
        [tool, "--modversion", "libdpdk"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or _version_of_library()


def _version_of_library() -> str:
    """Where DPDK has no development files, as beside the Debian package. Asked in a process of its
    own, for DPDK registers things as it is loaded.
    """
    for library in sorted(_LIBRARIES.glob("*/librte_eal.so.*")):
        done = subprocess.run(
            [sys.executable, "-I", "-c", _ASK_LIBRARY, library],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            return done.stdout.strip().removeprefix("DPDK ")
    return ""


def dpdk() -> Finding:
    """Is DPDK there?"""
    if version := dpdk_version():
        return fine("DPDK", version)
    return blocked("DPDK", "not found", "UNiS builds on it", "apt-get install dpdk libdpdk-dev")


def mempool_handler() -> Finding:
    """Is the packet memory's lock-free handler there?"""
    found = [*_LIBRARIES.glob("*/dpdk/pmds-*/librte_mempool_stack.so*")]
    if found:
        return fine("mempool", f"lf_stack in {found[0]}")
    return blocked(
        "mempool",
        "no librte_mempool_stack",
        "the default packet memory deadlocks when a real-time function is preempted in it; "
        "lf_stack does not",
        "apt-get install librte-mempool-stack23",
    )


def link_kinds() -> Iterator[Finding]:
    """Which kinds of links can be used here?"""
    for kind in KINDS.values():
        if not (lacking := kind.lacks()):
            yield fine(f"links: {kind.name}", "ready")
        else:
            meaning = f"links of kind {kind.name} do not come up"
            found, _, mend = lacking.partition("; ")
            yield note(f"links: {kind.name}", found, meaning, mend)


def containers() -> Finding:
    """Can functions run in containers?"""
    if found := shutil.which("crun"):
        return fine("containers", f"ready: {found}")
    meaning = "functions with `container` do not start"
    return note("containers", "no crun", meaning, "apt-get install crun")


def build() -> Finding:
    """Is UNiS built?"""
    try:
        unisd = built.unisd()
        built.port_driver()
        built.mmsg_driver()
        built.port_plugin()
        built.xdp_program()
        built.simulator()
    except built.NotBuiltError as error:
        return blocked("build", str(error), "nothing runs without it", "make build")
    return fine("build", str(unisd))
