"""What a run takes of the machine, checked against what other runs have, under one lock."""

import os
import uuid
from collections.abc import Callable
from typing import Any

from unis import built, links
from unis.links import namespaces
from unis.plan.cpus import clashing
from unis.plan.model import Plan
from unis.runtime import contained, hugepages, interfaces, nics
from unis.runtime.clean_up import clean_up, forget
from unis.runtime.directory import RunDirectory, all_runs, damages, machine_lock
from unis.runtime.errors import LaunchError, as_root
from unis.runtime.files import written
from unis.runtime.folders import port_parts
from unis.runtime.interrupts import Interrupts
from unis.runtime.planning import on_machine
from unis.runtime.process import ProcessId
from unis.runtime.run import Options, require_polling
from unis.runtime.state import Phase, RunState

Report = Callable[[str], None]


def claim(
    plan: Plan,
    directory: RunDirectory,
    options: Options,
    report: Report,
    switch: Interrupts,
    taken: Callable[[RunState], None] = lambda _: None,
) -> RunState:
    """Notes that `plan` runs, or raises LaunchError; of two at once the second is refused.

    `taken` hears of it before it is on disk: a signal may keep this from returning.
    """
    if os.geteuid() != 0:
        raise LaunchError(
            f"UNiS needs root, for hugepages and real-time scheduling: run `{as_root()}`"
        )
    require_machine(plan, report)
    with machine_lock():
        with switch.deferred():
            _clear_stale_runs(report, switch.forced)
        _require_no_damage()
        others = _runs_beside()
        _require_no_clash(plan, others)
        if not plan.foreign:
            _require_hugepages(plan.hugepages_mb, others)
            nics.require(plan, others)
        state = RunState(
            run_id=uuid.uuid4().hex,
            name=plan.name,
            platform_cpus=list(plan.platform_cpus),
            launcher=ProcessId.me(),
            policy=options.policy,
            controller=options.controller,
            attached=plan.foreign,
            joined=plan.engine.joins,
            nic_buffers=plan.dma.buffers if plan.dma else 0,
            interfaces=plan.traffic.interfaces,
            **noted(plan),
        )
        if failed := directory.read():  # nobody may have read its logs yet: they are kept
            for problem in forget(directory, failed.run_id):
                report(problem)
        taken(state)
        with written(directory.path):
            directory.make()
            directory.write(state)
        return state


def noted(plan: Plan) -> dict[str, Any]:
    """What a run's state has of its plan, and of another one once that is applied."""
    return {
        "chain_file": "" if plan.foreign else str(plan.chain_file.resolve()),
        "groups": groups_of(plan),
        "cpus": sorted(plan.cpus),
        "switch_cpus": list(plan.switch_cpus),
        "hugepages_mb": plan.hugepages_mb,
        "nics": [nic.address for nic in plan.nics],
        "goals_ns": plan.goals_ns,
        "wires": plan.wires,
        "variables": dict(plan.variables),
        "digest": plan.digest,
    }


def claim_more(plan: Plan, state: RunState, record: Callable[..., None]) -> None:
    """Notes what the run of `state` takes beside what it has once it is `plan`, or LaunchError."""
    require_machine(plan)
    with machine_lock():
        _require_no_damage(but=state.name)
        others = _runs_beside(state)
        _require_no_clash(plan, others)
        nics.require(plan, others, state.nics)
        more = plan.hugepages_mb - state.hugepages_mb
        if more > 0:
            _require_hugepages(more, others)
        record(
            groups=list(dict.fromkeys([*state.groups, *groups_of(plan)])),
            cpus=sorted({*state.cpus, *plan.cpus}),
            switch_cpus=sorted({*state.switch_cpus, *plan.switch_cpus}),
            hugepages_mb=max(plan.hugepages_mb, state.hugepages_mb),
            nics=list(dict.fromkeys([*state.nics, *(nic.address for nic in plan.nics)])),
        )


def require_room(plan: Plan, old: RunState) -> None:
    """LaunchError, or NotBuiltError, if `plan` could not be brought up in the place of `old`."""
    built.unisd()
    port_parts(plan.name)
    require_polling(plan, old.policy, f"type `unis policy other {plan.name}` first")
    require_machine(plan)
    _require_no_damage()
    freed_mb = 0 if old.undone() else old.hugepages_mb
    others = _runs_beside(old)
    _require_hugepages(plan.hugepages_mb, others, freed_mb)
    nics.require(plan, others, old.nics)


def require_machine(plan: Plan, remark: Report = lambda _: None) -> None:
    """LaunchError if this machine lacks what the plan needs; `remark` hears what else there is to
    know. Asked before anything is started, or ended for it.
    """
    if plan.foreign:
        return
    if any(function.container for function in plan.functions):
        contained.crun()
    if any(function.namespace for function in plan.functions) and (why := namespaces.lacks()):
        raise LaunchError(f"functions with `namespace: own` cannot start: {why}", bad_input=False)
    for kind in dict.fromkeys(link.kind for link in plan.links):
        if why := links.KINDS[kind].hindrance():
            raise LaunchError(f"links of kind {kind} cannot be made: {why}", bad_input=False)
    for sentence in interfaces.look_at(plan.traffic.interfaces):
        remark(sentence)


def _runs_beside(run: RunState | None = None) -> list[RunState]:
    mine = run.run_id if run else None
    return [state for _, state in all_runs() if not state.undone() and state.run_id != mine]


def groups_of(plan: Plan) -> list[str]:
    """File prefixes of its DPDK groups, the engine's first."""
    prefixes = [plan.engine.file_prefix, *(part.file_prefix for part in plan.functions)]
    return list(dict.fromkeys(prefixes))


def _clear_stale_runs(report: Report, hurry: Callable[[], bool]) -> None:
    for directory, state in all_runs():
        if state.live() or state.undone():
            continue
        report(
            f"cleaning up after run `{state.name}`, "
            + ("whose clean-up is incomplete" if state.problems else "whose launcher was killed")
        )
        for problem in clean_up(directory, state.run_id, hurry=hurry):
            report(problem)


def _require_no_damage(but: str = "") -> None:
    """A run whose notes cannot be read may live: nobody knows which CPUs and pages it has."""
    for name, damage in damages().items():
        if name != but:
            raise LaunchError(f"nothing can be started: {damage}", bad_input=False)


def _require_no_clash(plan: Plan, others: list[RunState]) -> None:
    for other in others:
        if other.name == plan.name:
            why = (
                f"`{other.name}` is already running"
                if other.live()
                else f"the clean-up of the last `{other.name}` is incomplete, and its state is "
                "still needed"
            )
            raise LaunchError(
                f"{why}: run `unis down {other.name}` first, or give this one another name: "
                "`name:` in its file, or `--name` of `unis up`",
                bad_input=False,
            )
        for interface in {*plan.traffic.interfaces} & {*other.interfaces}:
            raise LaunchError(
                f"interface {interface} is source or sink of run `{other.name}`: name another, or "
                f"end that run: `unis down {other.name}`"
            )
        if shared := clashing(plan.cpus, plan.packet_cpus, on_machine(other)):
            raise LaunchError(
                f"CPU {', '.join(map(str, sorted(shared)))} is in use by run `{other.name}`: "
                f"choose other CPUs, or end that run: `unis down {other.name}`",
                bad_input=False,
            )


def _require_hugepages(needed_mb: int, others: list[RunState], more_mb: int = 0) -> None:
    """`more_mb` will be free by then."""
    if hugepages.directory() is None:
        size = hugepages.default_page_kb()
        raise LaunchError(
            f"no hugepages of {size} kB, this kernel's default, are mounted: "
            f"run `{hugepages.MOUNT}`",
            bad_input=False,
        )
    # Those that start have not taken theirs yet, or not all of it.
    promised = sum(other.hugepages_mb for other in others if other.phase == Phase.STARTING)
    free = hugepages.free_mb() + more_mb
    if free - promised < needed_mb:
        but = f", {promised} MB of them promised to runs that are starting," if promised else ""
        short_pages = -(-(needed_mb - free + promised) * 1024 // hugepages.default_page_kb())
        raise LaunchError(
            f"{free} MB of hugepages are free{but} and {needed_mb} MB are needed: add "
            f"{short_pages} to vm.nr_hugepages with `sysctl -w`, or end the programs that hold "
            "them",
            bad_input=False,
        )
