"""`unis apply` in the launcher: what the difference says is done, or undone again.

Chains that go are let run empty; functions that go, or are started anew, end; the engine is told
the new whole; new functions are started. If one of that fails, the way is gone back.
"""

import time
import traceback
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict

from unis.chain.load import load
from unis.errors import UnisError
from unis.plan.difference import Difference, difference, without
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.runtime import folders, ovs
from unis.runtime.claim import claim_more, noted
from unis.runtime.costs import known_costs
from unis.runtime.errors import LaunchError, internal_error
from unis.runtime.functions import end_functions, listed, start_functions
from unis.runtime.planning import plan_chain
from unis.runtime.process import keep_off
from unis.runtime.requests import Say
from unis.runtime.run import Run, require_polling
from unis.runtime.state import RunState
from unis.runtime.steps import (
    Made,
    bind_nics,
    made_by,
    make_links,
    place_links,
    remove_links,
    restore_nics,
)
from unis.v1 import supervisor_pb2 as pb


def apply_file(
    run: Run, missing: Collection[str], request: pb.ApplyFileRequest, report: Say
) -> pb.ApplyFileResult:
    """Changes the run as the request says; `missing` functions are dead. UnisError if it cannot.

    Whatever happens the run goes on, unless its engine dies.
    """
    machine = Machine(frozenset(request.cpus))
    known = run.plan.variables
    loaded = load(Path(request.file), run.plan.name, {**known, **request.variables})
    new = plan_chain(loaded, machine, run.plan)
    require_polling(new, run.options.policy, f"type `unis policy other {new.name}` first")
    steps = difference(run.plan, new, missing)
    result = pb.ApplyFileResult(
        difference=ParseDict(steps.as_dict(), pb.Difference()),
        notes=[note for note in new.notes if note not in run.plan.notes],
    )
    changed = [key for key, value in loaded.variables.items() if known.get(key, value) != value]
    if changed:
        result.notes.append(f"the run had other values of these variables: {', '.join(changed)}")
    if request.dry_run:
        return result
    if not steps:
        run.plan = new  # the file that was read counts from then on
        run.record(**_applied(new, run.state))
        return result
    if steps.refused:
        raise LaunchError("; ".join(steps.refused))
    begin = time.monotonic()
    _ChangeInProgress(run, new, steps, frozenset(missing), report).carry_out()
    result.applied, result.seconds = True, time.monotonic() - begin
    return result


def _applied(plan: Plan, state: RunState) -> dict[str, Any]:
    """What the run's state has of a plan that counts from now on."""
    another = plan.digest != state.digest
    return {**noted(plan), "generation": state.generation + another}


@dataclass
class _ChangeInProgress:
    run: Run
    new: Plan
    steps: Difference
    missing: frozenset[str]
    report: Say
    begun: bool = False  # whether anything is another yet

    def __post_init__(self) -> None:
        self.old = self.run.plan
        self.costs = dict(self.run.costs)  # of before

    def carry_out(self) -> None:
        run = self.run
        costs = self._known_costs()
        claim_more(self.new, run.state, run.record)
        try:
            keep_off(self.new.cpus)
            run.costs = costs
            self._forward()
        except Exception as failure:
            error = self._explained(failure)
            run.check_platform()  # without it there is nothing to go back to
            if not self.begun:
                run.costs = self.costs
                self._settle(self.old)
                raise LaunchError(
                    f"{error}; nothing was changed", bad_input=error.bad_input
                ) from None
            self._back(error)
        self._settle(self.new)
        self._tell(f"`{self.new.chain_file}` is applied")

    def _explained(self, failure: Exception) -> UnisError:
        """The sentence of `failure`; a fault of ours leaves its traceback in the log."""
        if isinstance(failure, UnisError):
            return failure
        self.run.note(traceback.format_exc())
        return LaunchError(internal_error(failure), bad_input=False)

    def _tell(self, line: str) -> None:
        self.run.tell(line)
        self.report(line)

    def _known_costs(self) -> dict[str, Any]:
        """What is still true of what was measured, and what was measured before."""
        anew = self.steps.started
        stay = {name: cost for name, cost in self.run.costs.items() if name not in anew}
        found = known_costs(self.new) if self.run.options.costs == "kept" else {}
        costs = {**found, **stay}
        if self.new.scheduler.cost == "static":
            for function in self.new.functions:
                if function.cost_ns is None and function.name not in costs:
                    self._tell(
                        f"the cost of {function.name} was never measured, and `cost: static` keeps "
                        f"the assumed one; state cost_ns, or run `unis down {self.new.name}` and "
                        f"`unis up {self.new.chain_file}`, which measures it first"
                    )
        return costs

    # ------------------------------------------------------------------ forward

    def _forward(self) -> None:
        run, steps = self.run, self.steps
        if steps.removed_chains:
            self._tell(f"letting {listed(steps.removed_chains)} run empty")
            self._apply(without(self.old, steps.removed_chains))
        if steps.ended:
            self.begun = True
            self._tell(f"ending {listed(steps.ended)}")
            for problem in end_functions(run, steps.ended):
                self._tell(problem)
        self._tell("telling unisd what shall run now")
        beginning = [function for function in self.new.functions if function.name in steps.started]
        for function in beginning:
            if function.folder and not function.folder.exists():
                folders.make(function)
        make_links(run, self.new)
        bind_nics(run, self.new)
        ovs.follow(run, self.new)
        self._apply(self.new)
        for function in beginning:
            folders.give_away(function)
        run.plan = self.new
        self._start(steps.started)
        if steps.policy:
            run.client.set_policy(*run.policy_for(self.new))

    def _apply(self, plan: Plan) -> None:
        self.run.client.apply(self.run.deployment(plan))
        self.begun = True

    def _start(self, wanted: Collection[str]) -> None:
        if wanted:
            self.report(f"starting {listed(wanted)}")
        functions = [function for function in self.run.plan.functions if function.name in wanted]
        start_functions(self.run, functions, beside=True)
        for name in wanted:  # it may have died since
            self.run.functions[name].check(starting=False)

    # ------------------------------------------------------------------ back

    def _back(self, error: UnisError) -> None:
        """Raises `error`, and says in what state the run is."""
        run, steps = self.run, self.steps
        run.tell(f"{error}; rolling back")
        self.report("that failed; rolling back")
        begun = steps.started if run.plan is self.new else ()
        try:
            end_functions(run, [name for name in reversed(begun) if name in run.functions])
            gone = {name for name in steps.ended if name not in run.functions} - self.missing
            run.costs = self.costs
            self._apply(self.old)
            run.plan = self.old
            place_links(self.old)
            self._start(gone)
            if steps.policy:
                run.client.set_policy(*run.policy_for(self.old))
        except Exception as failure:
            again = self._explained(failure)
            run.check_platform()
            self._settle(run.plan)
            absent = [
                function.name
                for function in run.plan.functions
                if function.name not in run.functions
            ]
            which = "new" if run.plan is self.new else "old"
            raise LaunchError(
                f"{error}; and the way back failed too: {again}. The chains are those of the "
                f"{which} file, and down where {listed(absent) or 'nothing'} is missing",
                bad_input=False,
            ) from None
        self._settle(self.old)
        raise LaunchError(
            f"the change was rolled back, and the chains run as before: {error}",
            bad_input=error.bad_input,
        )

    def _settle(self, plan: Plan) -> None:
        """Notes no more than is there now."""
        state = self.run.state
        made = made_by(plan)
        ovs.leave(self.run, plan)
        nics = {nic.address for nic in plan.nics}
        bindings = [one for one in state.bindings if one.address in nics]
        for one in [one for one in state.bindings if one not in bindings]:
            for problem in restore_nics([one]):
                bindings.append(one)
                self._tell(problem)
        left: set[Made] = set()  # to be tried again when the run ends
        gone = [one for one in state.made if one not in made]
        for problem in remove_links(gone):
            left.update(gone)
            self._tell(problem)
        known = {function.name for function in plan.functions}
        self.run.record_event(
            **_applied(plan, state),
            bindings=bindings,
            made=[one for one in state.made if one in made or one in left],
            functions=[function for function in state.functions if function.name in known],
        )
