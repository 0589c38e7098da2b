"""Where the built half of UNiS lies: the engine, the simulator, the port and the functions."""

import os
from pathlib import Path

from unis.errors import UnisError


class NotBuiltError(UnisError):
    """A program of the build is missing; the text says how to get it."""


def clone() -> Path:
    """The root of the clone that this package runs from."""
    return Path(__file__).resolve().parents[1]


def build_directory() -> Path:
    """The build directory: UNIS_BUILD, or `build/` of the clone."""
    return Path(os.environ.get("UNIS_BUILD") or clone() / "build").resolve()


def functions_directory() -> Path:
    """Where the reference functions are built."""
    return build_directory() / "functions"


def _built(*parts: str) -> Path:
    path = build_directory().joinpath(*parts)
    if not path.is_file():
        raise NotBuiltError(f"{path} is missing: run `make build` in {clone()}")
    return path


def unisd() -> Path:
    """The engine."""
    return _built("engine", "unisd")


def simulator() -> Path:
    """The scheduler on virtual time."""
    return _built("engine", "simulator", "unis-sim")


def port_driver() -> Path:
    """The DPDK driver that gives an unmodified program its rings."""
    return _built("ports", "librte_net_unis.so")
