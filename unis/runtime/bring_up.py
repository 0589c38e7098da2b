"""Chains that are brought up, looked at and taken down one after the other."""

from collections.abc import Callable
from typing import TypeVar

from unis.chain.load import LoadedChain
from unis.engine.client import EngineError
from unis.plan.machine import Machine
from unis.runtime.errors import InterruptedRunError
from unis.runtime.interrupts import interrupts
from unis.runtime.options import Options
from unis.runtime.planning import plan_chain
from unis.runtime.run import Run
from unis.runtime.running import running

_T = TypeVar("_T")
_TRIES = 3  # of which one must succeed


def brought_up(
    make: Callable[[], LoadedChain],
    machine: Machine,
    options: Options,
    report: Callable[[str], None],
    look: Callable[[Run], _T],
) -> _T:
    """What `look` sees of the chain that `make` makes; the chain is down when this returns."""
    # net_memif does not come back to a server that had not started its port yet.
    for left in reversed(range(_TRIES)):
        chain = make()
        try:
            return _once(chain, machine, options, look)
        except EngineError as error:
            if not left:
                raise
            report(f"{chain.file.name}: once more, for {error}")
    raise AssertionError


def _once(chain: LoadedChain, machine: Machine, options: Options, look: Callable[[Run], _T]) -> _T:
    with interrupts() as switch:
        with running(plan_chain(chain, machine), options, _quiet, switch) as run:
            seen = look(run)
        if switch.heard():  # while the run was undone: no other is brought up
            raise InterruptedRunError(switch.first)
    return seen


def _quiet(_line: str) -> None:
    """Of runs that come and go by the dozen; each keeps its log."""
