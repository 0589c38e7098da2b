"""Which of the running chains a command means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from unis.cli.terminal import fail
from unis.runtime.directory import (
    RunDirectory,
    all_runs,
    keep_off_functions,
    run_directory,
    settled_runs,
)
from unis.runtime.state import Phase, RunState

if TYPE_CHECKING:
    from unis.engine.client import EngineClient


def runs(*, settled: bool = False) -> list[tuple[RunDirectory, RunState]]:
    """Every run; from now on we keep off the CPUs of their functions.

    `settled`: once nobody is about to note one more, which may take a while.
    """
    found = settled_runs() if settled else all_runs()
    keep_off_functions()
    return found


def one_name(argument: str | None, option: str | None) -> str | None:
    """The run that is named by [NAME] or by --name."""
    if argument and option and argument != option:
        raise typer.BadParameter(f"two runs are named, {argument} and {option}; name one")
    return argument or option


def choose(name: str | None) -> tuple[RunDirectory, RunState]:
    """The run called `name`, or of that chain file, or the only one; exits if there is none."""
    found = _meant(name, runs()) or _meant(name, there := runs(settled=True))
    if not found:
        if name is None:
            raise fail("no run exists; start one with `unis up FILE`")
        if "/" not in name and (damage := run_directory(name).damage()):
            raise fail(damage, code=1)
        known = ", ".join(state.name for _, state in there) or "none"
        raise fail(f"no run `{name}` exists (existing: {known})")
    if len(found) > 1:
        names = ", ".join(state.name for _, state in found)
        raise fail(f"several runs exist; name one of {names}")
    return found[0]


def _meant(
    name: str | None, found: list[tuple[RunDirectory, RunState]]
) -> list[tuple[RunDirectory, RunState]]:
    if name is None:
        return [run for run in found if run[1].phase != Phase.FAILED]
    return [run for run in found if _is_meant(run[1], name)]


def _is_meant(state: RunState, name: str) -> bool:
    if name.endswith((".yaml", ".yml")):
        return Path(state.chain_file) == Path(name).resolve()
    return state.name == name


def choose_running(name: str | None) -> tuple[RunDirectory, RunState]:
    """Like `choose`, but only a run that is up."""
    directory, state = choose(name)
    if state.phase == Phase.FAILED:
        raise fail(f"{state.name}: {_failed(state)}: {state.reason}", code=1)
    if not state.live():
        killed = f"the launcher of `{state.name}` was killed: run `unis down {state.name}`"
        raise fail(killed, code=1)
    return directory, state


def _failed(state: RunState) -> str:
    if state.comes_again():
        return "failed, and is brought up again"
    return "failed" if state.attached else f"failed; start it again by `unis restart {state.name}`"


def connect(name: str | None) -> tuple[RunDirectory, RunState, EngineClient]:
    """A client of the engine of a run that is up."""
    from unis.engine.client import EngineClient

    directory, state = choose_running(name)
    if state.phase == Phase.STOPPING:
        raise fail(f"`{state.name}` is stopping", code=1)
    return directory, state, EngineClient(directory.socket)
