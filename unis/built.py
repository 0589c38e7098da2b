"""Where the built half of UNiS lies: the engine, the simulator, the port and the functions.

UNIS_BUILD names its folder. Else it is `build/` of the clone that this package runs from, or
`libexec/unis` of the prefix into which `make install` puts this package and the same tree.
"""

import os
import sys
from pathlib import Path

from unis.errors import UnisError


class NotBuiltError(UnisError):
    """A program of the build is missing; the text says how to get it."""


def clone() -> Path:
    """The root of the clone that this package runs from; installed, the folder that it is in."""
    return Path(__file__).resolve().parents[1]


def is_clone() -> bool:
    """Whether this package runs from a clone; else it was installed."""
    return (clone() / "meson.build").is_file()


def build_directory() -> Path:
    """Where the built half is, or should be."""
    if named := os.environ.get("UNIS_BUILD"):
        return Path(named).resolve()
    if is_clone():
        return clone() / "build"
    prefix = Path(sys.prefix).parent.parent  # `make install` puts Python into `lib/unis` below it
    trees = [each / "libexec" / "unis" for each in (prefix, Path("/usr/local"), Path("/usr"))]
    return next((tree for tree in trees if tree.is_dir()), trees[1])


def examples_directory() -> Path:
    """Where the example chains are."""
    if is_clone():
        return clone() / "examples"
    build = build_directory()
    of_clone = build.parent / "examples"  # where UNIS_BUILD names the build of a clone
    return of_clone if of_clone.is_dir() else build.parents[1] / "share" / "unis" / "examples"


def functions_directory() -> Path:
    """Where the reference functions are built."""
    return build_directory() / "functions"


def cure() -> str:
    """What to do where a part of the built half is missing."""
    if is_clone():
        return f"run `make build` in {clone()}"
    if os.environ.get("UNIS_BUILD"):
        return "set UNIS_BUILD to a build of UNiS, such as build/ of a clone"
    return "install the Debian package, run `make install` in a clone, or set UNIS_BUILD"


def find(*parts: str) -> Path:
    """A built file, by its path in the build. NotBuiltError if it is missing."""
    path = build_directory().joinpath(*parts)
    if not path.is_file():
        raise NotBuiltError(f"{path} is missing: {cure()}")
    return path


def unisd() -> Path:
    """The engine."""
    return find("engine", "unisd")


def simulator() -> Path:
    """The scheduler on virtual time."""
    return find("models", "simulator", "unis-sim")


def lines() -> Path:
    """What measures how far apart two CPUs are."""
    return find("models", "machine", "unis-lines")


def calibrator() -> Path:
    """What measures memory, switches, calls and probes of a CPU."""
    return find("models", "calibrate", "unis-calibrate")


def reference_function(name: str) -> Path:
    """One of ours."""
    return find("functions", name)


def port_driver() -> Path:
    """The DPDK driver that gives an unmodified program its rings."""
    return find("ports", "librte_net_unis.so")


def mmsg_driver() -> Path:
    """The DPDK driver of a port on a kernel device whose burst is one system call."""
    return find("ports", "librte_net_mmsg.so")


def xdp_program() -> Path:
    """What net_af_xdp loads into the kernel, to be brought what its device receives."""
    return find("ports", "unis_xdp.bpf.o")


def thread_tracer() -> Path:
    """What tells when the threads of a chain run."""
    return find("ports", "unis-thread-trace")


def thread_trace_program() -> Path:
    """What it loads into the kernel."""
    return find("ports", "unis_thread_trace.bpf.o")


def port_plugin() -> Path:
    """What EAL loads into every program to stand between it and its ports."""
    return find("ports", "librte_unis_ports.so")
