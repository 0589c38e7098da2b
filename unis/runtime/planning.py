"""A plan for this machine as it is now, with the runs that are on it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from unis.chain.load import LoadedChain, load
from unis.isolate.hardware import CacheHardware, detect
from unis.plan.dma import IoCache, pci_addresses
from unis.plan.machine import Machine, OtherRun
from unis.plan.model import Places, Plan
from unis.plan.planner import make_plan
from unis.plan.rings import Known, KnownQuery, last_level_cache
from unis.runtime import hugepages, nics
from unis.runtime.costs import costs_of, known_switch_ns, shares_of
from unis.runtime.directory import all_runs, keep_off_functions, run_directory
from unis.runtime.errors import NotAllowedError
from unis.runtime.folders import folders_directory, mmsg_driver, port_driver, port_plugin
from unis.runtime.state import RunState

_ANY_CPU = frozenset(range(1024))


def plan_file(path: Path, name: str | None = None, machine: Machine | None = None) -> Plan:
    """The plan for a chain file; a `name` takes the place of the file's."""
    return plan_chain(load(path, name), machine)


def plan_chain(
    chain: LoadedChain, machine: Machine | None = None, there: Plan | None = None
) -> Plan:
    """The plan for a chain, which shall take the place of what is `there` and runs, if anything.

    `machine`: looked at before we kept ourselves off any CPU of it.
    """
    machine = machine or look()
    with suppress(NotAllowedError):
        chain = nics.resolved(chain, [state for _, state in all_runs()])
    beside, notes = _beside(chain.file.name)
    plan = make_plan(chain, machine, beside, places, there, partial(_known, beside))
    return replace(plan, notes=(*plan.notes, *notes))


def plan_anywhere(chain: LoadedChain) -> Plan:
    """On a machine that has any CPU: to look up what is known of the chain's functions.

    Nothing is run by it. ChainFileError where its programs are not here, or it has faults.
    """
    return make_plan(chain, Machine(_ANY_CPU), [], places)


def _known(beside: Sequence[OtherRun], query: KnownQuery) -> Known:
    found = costs_of(query.programs, shares_of(query.traffic))
    costs = {name: cost.ns for name, cost in found.items()}
    cpu = query.platform_cpu if pci_addresses(query.traffic) else None
    io = None if cpu is None else io_cache(detect(), cpu, beside)
    return Known(costs, known_switch_ns(query.controller), last_level_cache(), io)


def io_cache(found: CacheHardware, cpu: int, beside: Sequence[OtherRun]) -> IoCache | None:
    """What DMA has of the last-level cache of a CPU, the engine's, near which NICs should be, and
    what the runs `beside` whose engines have the same cache can fill of it.
    """
    domain = found.domain_of(cpu)
    if domain is None:
        return None
    near = [run for run in beside if run.platform_cpus]
    taken = sum(
        run.nic_buffers for run in near if found.domain_of(min(run.platform_cpus)) == domain
    )
    return IoCache(found.io.bytes_of(domain), found.io.told, taken)


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


def others() -> list[OtherRun]:
    """The runs that are there already, around whose CPUs one plans."""
    return [on_machine(state) for _, state in all_runs() if state.live()]


def on_machine(run: RunState) -> OtherRun:
    """What plans of other runs look at."""
    return OtherRun(
        run.name,
        frozenset(run.cpus),
        frozenset(run.platform_cpus),
        run.nic_buffers,
        frozenset(run.switch_cpus),
    )


def free_cpu() -> int:
    """For a function: one that no run has; that of the platform if there is none."""
    cpus = Machine.this().cpus
    taken = {cpu for other in others() for cpu in other.cpus | other.packet_cpus}
    return min(cpus - {min(cpus)} - taken, default=min(cpus))


def places(name: str) -> Places:
    """Where the run called `name` keeps what its processes share."""
    directory = run_directory(name)
    return Places(
        directory=directory.links,
        engine_socket=directory.socket,
        port_driver=port_driver(name),
        mmsg_driver=mmsg_driver(name),
        port_plugin=port_plugin(name),
        folders=folders_directory(),
        hugepages=hugepages.directory(),
    )
