"""What a run says of itself: its notes, and its engine where that is up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from unis.runtime.state import Phase, RunState

if TYPE_CHECKING:
    from unis.engine.client import EngineClient
    from unis.runtime.directory import RunDirectory
    from unis.v1 import engine_pb2 as pb

ANSWER_SECONDS = 1.0  # for an engine to answer: one that hangs must not hide the others


@dataclass(frozen=True)
class AskedRun:
    """A run, and what its engine says of it."""

    state: RunState
    stats: pb.Stats | None = None
    silence: str = ""  # why the engine says nothing

    @cached_property
    def live(self) -> bool:
        """Whether somebody looks after the run. /proc is asked for it once, and not again."""
        return self.state.live()

    def phase(self) -> str:
        """As people read it: a run whose launcher was killed is stale."""
        alive = self.live or self.state.phase == Phase.FAILED
        return self.state.phase if alive else "stale"


def has_engine(state: RunState) -> bool:
    """Whether there is somebody to ask."""
    return state.phase == Phase.RUNNING and state.live()


def ask(
    directory: RunDirectory,
    state: RunState,
    client: EngineClient,
    *,
    latency: bool,
) -> AskedRun:
    """Asks the engine of a run that `has_engine`; with `latency` also for its histograms."""
    from unis.engine.client import EngineError

    try:
        return AskedRun(state, client.stats(latency=latency, seconds=ANSWER_SECONDS))
    except EngineError as error:
        now = directory.read()  # it may have begun to end meanwhile
        if now is None or now.run_id != state.run_id or now.phase != Phase.RUNNING:
            return AskedRun(now or state.with_changes(phase=Phase.STOPPING))
        return AskedRun(state, silence=str(error))
