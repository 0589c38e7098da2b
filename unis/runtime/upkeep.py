"""What `unis up` does with a plan: brings it up, looks after it, and, where the file says so,
brings it up again when unisd has died.

unisd owns the packet memory, so all of the run goes with it, and comes again with it.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from unis.errors import UnisError
from unis.plan.model import Plan
from unis.runtime.account import account_line
from unis.runtime.backoff import Backoff
from unis.runtime.claim import Report
from unis.runtime.directory import RunDirectory, run_directory
from unis.runtime.errors import LaunchError
from unis.runtime.interrupts import Interrupts
from unis.runtime.keeper import Keeper
from unis.runtime.lock import locked
from unis.runtime.options import Options
from unis.runtime.process import ProcessId
from unis.runtime.running import running
from unis.runtime.state import RunState


@dataclass
class Upkeep:
    """How a run is brought up, and what is done while it is up."""

    options: Options
    report: Report
    switch: Interrupts
    serve: Callable[[Keeper], None]  # returns when the run shall end
    ready: Callable[[Keeper], None] = lambda _: None  # returns when it is as it was asked for
    timeout: float | None = None  # seconds till then, the first time

    def of(self, plan: Plan) -> None:
        """Till `serve` returns, or the run cannot go on: RunFailedError and others."""
        backoff = Backoff()
        timeout = self.timeout
        before = ""
        failed: set[str] = set()  # ids of runs, since it ran
        while True:
            try:
                self._once(plan, timeout, before)
            except _EngineDiedError as death:
                plan, timeout = death.run.plan, None
                self.options = death.run.options
                before = f"{death}, so all of the run was brought up again"
                failed = set()
                self._wait(death, plan, backoff.after(death.ran), failed)
            except _StillDownError as failure:
                self._wait(failure, plan, backoff.after(0.0), failed)
            else:
                return

    def _wait(self, why: "_DownError", plan: Plan, seconds: float, failed: set[str]) -> None:
        """Raises the error behind `why` if nobody wants the run back any more."""
        self.report(f"{why}; all of the run is brought up again in {seconds:g} s")
        self.switch.resume()
        directory = run_directory(plan.name)
        with contextlib.suppress(OSError, LaunchError), locked(directory.lock):  # `unis ps` tells
            if noted := _ours(directory):
                failed.add(noted.run_id)  # the same where the next could not even claim its place
                directory.write(noted.with_changes(failures=len(failed)))
        time.sleep(seconds)
        if _ours(directory) is None:  # `unis down` was faster
            raise why.error from None

    def _once(self, plan: Plan, timeout: float | None, before: str) -> None:
        died: Keeper | None = None
        served: float | None = None
        try:
            with contextlib.ExitStack() as stack:
                with self.switch.within(timeout, f"`{plan.name}` did not run"):
                    run = stack.enter_context(running(plan, self.options, self.report, self.switch))
                    keeper = stack.enter_context(Keeper(run))
                    if before:  # the log is that of another run by now
                        run.note(before)
                    self.ready(keeper)
                begin = time.monotonic()
                try:
                    self.serve(keeper)
                except UnisError:  # afterwards it has ended in any case
                    died = keeper if run.engine_died() else None
                    raise
                finally:
                    served = time.monotonic() - begin
        except UnisError as error:
            # What is wrong with the file does not mend itself.
            if served is None and before and not error.bad_input:
                raise _StillDownError(f"it did not come up again: {error}", error) from None
            if served is not None and died and died.run.plan.restart == "on-failure":
                raise _EngineDiedError(died, served, error) from None
            raise


def _ours(directory: RunDirectory) -> RunState | None:
    noted = directory.read()
    return noted if noted and noted.launcher == ProcessId.me() else None


class _DownError(Exception):
    def __init__(self, sentence: str, error: UnisError) -> None:
        super().__init__(sentence)
        self.error = error


class _EngineDiedError(_DownError):
    def __init__(self, keeper: Keeper, ran: float, error: UnisError) -> None:
        last = keeper.last
        lost = f" (the last account of before: {account_line(last)})" if last else ""
        super().__init__(f"unisd died{lost}", error)
        self.run = keeper.run
        self.ran = ran  # seconds, since it was as it was asked for


class _StillDownError(_DownError):
    """A death after no time at all."""
