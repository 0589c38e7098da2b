"""A plan for this machine as it is now, with the runs that are on it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from unis.chain.load import LoadedChain, load
from unis.chain.problem import ChainFileError
from unis.isolate.look import look as look_at_caches
from unis.plan.dma import IoCache
from unis.plan.machine import Machine, OtherRun
from unis.plan.model import Places, Plan
from unis.plan.planner import make_plan
from unis.plan.rings import Known, last_level_cache
from unis.runtime import hugepages
from unis.runtime.costs import known_costs, known_switch_ns
from unis.runtime.directory import all_runs, keep_off_functions, run_directory
from unis.runtime.errors import NotAllowedError
from unis.runtime.folders import folders_directory
from unis.runtime.ports import port_driver, port_plugin


def plan_file(path: Path, name: str | None = None, machine: Machine | None = None) -> Plan:
    """The plan for a chain file; a `name` takes the place of the file's."""
    machine = machine or look()
    return plan_chain(load(path, name), machine)


def plan_next(path: Path, there: Plan, machine: Machine, variables: Mapping[str, str]) -> Plan:
    """The plan for a file that shall take the place of what is `there` and runs."""
    return plan_chain(load(path, there.name, variables), machine, there)


def plan_chain(
    chain: LoadedChain, machine: Machine | None = None, there: Plan | None = None
) -> Plan:
    """The plan for a chain; a `machine` looked at before we kept ourselves off any CPU of it."""
    machine = machine or look()
    beside, notes = _beside(chain.file.name)
    known = None
    try:
        plan = make_plan(chain, machine, beside, places, there)
        # What a cost is kept under is in the plan, whatever its rings.
        known = _known(plan)
        plan = make_plan(chain, machine, beside, places, there, known)
        return replace(plan, notes=(*plan.notes, *notes))
    except ChainFileError as error:
        error.bad_input = not (beside and _fits(chain, machine, known))
        raise


def _known(plan: Plan) -> Known:
    costs = {name: cost.ns for name, cost in known_costs(plan).items()}
    io = _io_cache(plan.platform_cpus[0]) if plan.engine.pci else None
    return Known(costs, known_switch_ns(plan.controller), last_level_cache(), io)


def _io_cache(cpu: int) -> IoCache | None:
    """What DMA has of the last-level cache of a CPU: the engine's, near which NICs should be."""
    found = look_at_caches()
    domain = found.domain_of(cpu)
    return None if domain is None else IoCache(found.io.bytes_of(domain), found.io.told)


def _beside(name: str) -> tuple[list[OtherRun], list[str]]:
    """The runs beside one called `name`, in whose place it would be: `claim` refuses the name.

    And what the user should know where he may not look at them.
    """
    try:
        return [run for run in others() if run.name != name], []
    except NotAllowedError as error:
        return [], [f"CPUs that other runs have are not known here: {error}"]


def look() -> Machine:
    """This machine; from now on we keep off the CPUs of functions, who leave us no time."""
    machine = Machine.this()
    keep_off_functions()
    return machine


def _fits(chain: LoadedChain, machine: Machine, known: Known | None) -> bool:
    """Whether nothing is wrong but that other runs are there, which end."""
    try:
        make_plan(chain, machine, [], places, known=known)
    except ChainFileError:
        return False
    return True


def others() -> list[OtherRun]:
    """The runs that are there already, around whose CPUs one plans."""
    return [
        OtherRun(state.name, frozenset(state.cpus), frozenset(state.platform_cpus))
        for _, state in all_runs()
        if state.live()
    ]


def free_cpu() -> int:
    """For a function: one that no run has; that of the platform if there is none."""
    cpus = Machine.this().cpus
    taken = {cpu for other in others() for cpu in other.cpus | other.platform_cpus}
    return min(cpus - {min(cpus)} - taken, default=min(cpus))


def places(name: str) -> Places:
    """Where the run called `name` keeps what its processes share."""
    directory = run_directory(name)
    return Places(
        directory=directory.links,
        engine_socket=directory.socket,
        port_driver=port_driver(name),
        port_plugin=port_plugin(name),
        folders=folders_directory(),
        hugepages=hugepages.directory(),
    )
