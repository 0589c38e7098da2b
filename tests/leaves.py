"""The cgroups of runs that the tests start."""

from pathlib import Path

from unis.runtime import cgroup


def leaves() -> list[Path]:
    """Those that are there, below our own cgroup: that is where `unis` makes them."""
    root, name = cgroup.mount(), cgroup.leaf_name("any")
    return sorted((root / name).parent.glob("unis-*")) if root and name else []
