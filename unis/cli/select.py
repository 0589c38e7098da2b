"""Which of the running chains a command means."""

from unis.chain.machine import Machine
from unis.cli.terminal import fail
from unis.engine.client import EngineClient
from unis.launch.process import keep_off
from unis.launch.state import Phase, RunDirectory, RunState, all_runs


def choose(name: str | None) -> tuple[RunDirectory, RunState]:
    """The run called `name`, or the only one; exits with a sentence if there is none such."""
    runs = all_runs()
    if name is not None:
        for directory, state in runs:
            if state.name == name:
                return directory, state
        known = ", ".join(state.name for _, state in runs) or "none"
        raise fail(f"no chain `{name}` is running (running: {known})")
    running = [run for run in runs if run[1].phase != Phase.FAILED]
    if len(running) == 1:
        return running[0]
    if not running:
        raise fail("no chain is running: start one with `unis up FILE`")
    names = ", ".join(state.name for _, state in running)
    raise fail(f"several chains are running, say which: {names}")


def connect(name: str | None) -> tuple[RunDirectory, RunState, EngineClient]:
    """A client of the engine of a run that is up."""
    directory, state = choose(name)
    if state.phase == Phase.FAILED:
        raise fail(f"`{state.name}` failed: {state.reason}", code=1)
    if not state.live():
        raise fail(f"the launcher of `{state.name}` was killed: run `unis down {state.name}`")
    keep_off(state.cpus, Machine.this().cpus)
    return directory, state, EngineClient(directory.socket)
