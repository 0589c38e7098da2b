"""What the parts of bringing a run up see of it; they know nothing of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from unis.engine.client import EngineClient
    from unis.plan.model import FunctionPlan, Plan
    from unis.runtime.cgroup import Leaf
    from unis.runtime.child import Child, Command
    from unis.runtime.costs import Cost
    from unis.runtime.directory import RunDirectory
    from unis.runtime.options import Options
    from unis.runtime.state import RunState


class Launch(Protocol):
    """What a step needs of the run that comes up."""

    plan: Plan
    options: Options
    directory: RunDirectory
    client: EngineClient
    costs: dict[str, Cost]  # known so far, by function
    leaf: Leaf | None
    guard: subprocess.Popen[bytes] | None

    @property
    def state(self) -> RunState:
        """What is noted on disk."""

    def record(self, **changes: Any) -> None:
        """Notes what is going to be done."""

    def record_event(self, **changes: Any) -> None:
        """Notes what has happened; it may be written later."""

    @property
    def functions(self) -> Mapping[str, Child]:
        """The processes that it looks after, by function."""

    def forget(self, function: str) -> None:
        """A function whose process has ended is not looked after any more."""

    def tell(self, line: str) -> None:
        """To the user and to the log."""

    def tell_guard(self, line: str) -> None:
        """`unisd PID` or `down`."""

    def start(self, what: str, command: Command, log: Path) -> Child:
        """Starts a process of the run; its death ends the run."""

    def start_function(self, function: FunctionPlan, argv: Sequence[str]) -> Child:
        """Starts the process of a function."""

    def deferred(self) -> AbstractContextManager[None]:
        """While this lasts no signal raises anything: it does so at the end."""

    def check_function(self, name: str) -> None:
        """Raises RunFailedError if it has ended."""

    def attach(self, function: str) -> None:
        """Waits till it polls, and lets the engine take hold of it."""

    def remember_switch(self) -> None:
        """Keeps what a switch took here, by which the next plan chooses rings."""
