"""A plan for this machine as it is now, with the runs that are on it."""

from pathlib import Path

from unis.chain.load import LoadedChain, load
from unis.plan.machine import Machine, OtherRun
from unis.plan.model import Places, Plan
from unis.plan.planner import make_plan
from unis.runtime import hugepages
from unis.runtime.directory import all_runs, run_directory


def plan_file(path: Path, name: str | None = None) -> Plan:
    """The plan for a chain file; a `name` takes the place of the file's."""
    return plan_chain(load(path, name))


def plan_chain(chain: LoadedChain) -> Plan:
    """The plan for a chain; to be made before we keep ourselves off any CPU."""
    return make_plan(chain, Machine.this(), others(), places)


def others() -> list[OtherRun]:
    """The runs that are there already, around whose CPUs one plans."""
    return [
        OtherRun(state.name, frozenset(state.cpus), frozenset(state.platform_cpus))
        for _, state in all_runs()
        if state.live()
    ]


def places(name: str) -> Places:
    """Where the run called `name` keeps what its processes share."""
    directory = run_directory(name)
    return Places(
        directory=directory.links,
        engine_socket=directory.socket,
        port_driver=directory.port_driver,
        hugepages=hugepages.directory(),
    )
