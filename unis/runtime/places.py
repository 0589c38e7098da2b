"""Where the planner shall put what the processes of a run share."""

from unis.plan.model import Places
from unis.runtime import hugepages
from unis.runtime.directory import run_directory


def places(name: str) -> Places:
    """The places of the run called `name`."""
    directory = run_directory(name)
    return Places(
        directory=directory.links,
        engine_socket=directory.socket,
        port_driver=directory.port_driver,
        hugepages=hugepages.directory(),
    )
