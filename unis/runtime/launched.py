"""The functions that UNiS has started: deaths, restarts, and changes by another file.

A function that dies takes its chains down, and the rest goes on. With `restart: on-failure` it is
started again, after a while that doubles from death to death. Together with it go the functions
that connect to a memif of its: a client does not come back to another server.
"""

import math
import time
from collections.abc import Collection, Iterator

from google.protobuf.message import Message

from unis.engine.client import EngineError
from unis.errors import UnisError
from unis.runtime.change import apply_file
from unis.runtime.child import Child
from unis.runtime.errors import LaunchError, RunFailedError
from unis.runtime.functions import Backoff, end_functions, listed, start_functions
from unis.runtime.requests import SupervisorRequest
from unis.runtime.run import Run
from unis.v1 import supervisor_pb2 as pb

_LEAST_SECONDS = 0.02  # of sleep, while one waits for another
_AGAIN_SECONDS = 0.1  # between two attempts to have a busy engine let go of a dead function


class LaunchedFunctions:
    """What shall run of them, and what runs."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._ended: set[str] = set()  # functions that are down for good
        self._ending: list[str] = []  # functions of which the engine has not let go yet
        self._due: dict[str, float] = {}  # functions to be started again, and when (monotonic)
        self._backoff: dict[str, Backoff] = {}
        self._since = dict.fromkeys(run.functions, time.monotonic())

    @property
    def done(self) -> bool:
        """Never: who waits for the supervisor ends the run."""
        return False

    def due(self) -> float:
        """Seconds till something is to be done."""
        if self._ending:
            return _AGAIN_SECONDS
        due = [*self._due.values(), *([self.run.ovs.due] if self.run.ovs else [])]
        return max(_LEAST_SECONDS, min(due, default=math.inf) - time.monotonic())

    def watched(self) -> Iterator[int]:
        """Not those of which the engine has not let go yet: they have ended, as we know."""
        return (process.pid for process in self.run.processes(without=self._ending))

    def reconcile(self) -> None:
        """Sees who has died, and starts again whose time has come."""
        run = self.run
        run.check_platform()
        if run.ovs:
            run.ovs.reconcile()
        for name, child in list(run.functions.items()):
            # Not one that was ended with another, which died.
            if name in run.functions and child.ended() and name not in self._ending:
                self._died(name, child)
        self._end()
        if not self._ending and (due := self._now_due()):
            self._start_again(due)

    # ------------------------------------------------------------------ deaths

    @property
    def missing(self) -> frozenset[str]:
        """Functions that do not run now."""
        return frozenset({*self._ended, *self._due})

    def _died(self, name: str, child: Child) -> None:
        run = self.run
        run.tell(child.last_words())
        run.record_function(name, ended=child.ended())
        function = run.plan.function(name)
        failed = function.restart == "on-failure" and child.process.returncode != 0
        # Some end by themselves when the other end of a memif goes: they come again with it.
        again = failed or bool(run.plan.servers(function) & self._due.keys())
        unit = run.plan.with_clients({name}) - self._ended if again else {name}
        clients = unit - self.missing - {name}
        self._ending += [name, *clients - {*self._ending}]  # which `reconcile` ends
        for client in clients:
            run.record_function(client, ended=f"was ended, for it connects to {name}")
        if again:
            backoff = self._backoff.setdefault(name, Backoff())
            wait = backoff.after(time.monotonic() - self._since.get(name, -math.inf))
            run.tell(f"{listed(unit)} restarts in {wait:g} s")
            self._due.update(dict.fromkeys(unit, time.monotonic() + wait))
            return
        down = self._down_for_good(name, child.last_words()) or [name]
        run.tell(
            f"{listed(down)} {'is' if len(down) == 1 else 'are'} down: restart of {name} is "
            f"{function.restart}; `unis apply {run.plan.chain_file}` brings it back"
        )

    def _down_for_good(self, name: str, words: str) -> list[str]:
        """Notes it; the chains that are down. RunFailedError with `words` if no other is left."""
        self._ended.add(name)
        down = [chain.name for chain in self.run.plan.chains if chain.is_down_without(self._ended)]
        if len(down) == len(self.run.plan.chains):
            raise RunFailedError(words)
        return down

    def _end(self) -> None:
        """Till the engine has let go, which may be busy, none of them is started again."""
        for name in list(self._ending):
            try:
                for problem in end_functions(self.run, [name], patience=0.0):
                    self.run.tell(problem)
            except EngineError as error:
                self.run.check_platform()
                if error.busy:
                    continue
                self.run.tell(f"{name}: {error}")
                self.run.forget(name)
            self._ending.remove(name)

    # ------------------------------------------------------------------ restarts

    def _now_due(self) -> list[str]:
        """Those that have waited long enough; a server starts together with all its clients."""
        now = time.monotonic()
        due = [name for name, time_due in self._due.items() if time_due <= now]
        later = [name for name in self.run.plan.with_clients(due) if self._due.get(name, 0.0) > now]
        return [] if later else due

    def _start_again(self, names: Collection[str]) -> None:
        """A failure is one more death."""
        run = self.run
        functions = [function for function in run.plan.functions if function.name in names]
        for function in functions:
            if gone := run.plan.servers(function) & self._ended:
                words = f"{function.name} stays down with {listed(gone)}, to which it connects"
                run.tell(words)
                self._down_for_good(function.name, words)
        functions = [function for function in functions if function.name not in self._ended]
        names = [function.name for function in functions]
        self._due = {name: due for name, due in self._due.items() if name not in self._ended}
        for name in names:
            del self._due[name]
            if process := run.state.function(name):
                run.record_function(name, restarts=process.restarts + 1)
            self._since[name] = time.monotonic()
        try:
            start_functions(run, functions, beside=True)
        except Exception as error:
            run.check_platform()
            if not isinstance(error, UnisError):
                run.fault(f"starting {listed(names)} again")
            run.tell(f"{listed(names)} could not be restarted: {error}")
            self._fail_again(names)
        else:
            for name in names:
                run.tell(f"{name} runs again")

    def _fail_again(self, names: Collection[str]) -> None:
        self._ending += [name for name in names if name in self.run.functions]
        wait = max(self._backoff.setdefault(name, Backoff()).after(0.0) for name in names)
        for name in names:
            self.run.record_function(name, ended="could not be restarted")
        self.run.tell(f"the next try is in {wait:g} s")
        self._due.update(dict.fromkeys(names, time.monotonic() + wait))
        self._end()  # last: whatever it raises, they come again

    # ------------------------------------------------------------------ changes

    def serve(self, request: SupervisorRequest) -> Message:
        """Only Apply: nothing can be attached here."""
        if request.method != "Apply":
            raise LaunchError(
                f"`{self.run.plan.name}` started its functions itself; attach others to another "
                "run with --name"
            )
        try:
            result = apply_file(self.run, self.missing, request.message, request.say)
            return pb.ApplyFileReply(result=result)
        finally:
            self._look_anew()

    def _look_anew(self) -> None:
        """After a change: who runs now is missed no more, and who has gone is."""
        functions = self.run.functions
        self._ending = [
            name for name in self._ending if name in functions and functions[name].ended()
        ]
        there = {*functions} - {*self._ending}
        absent = {function.name for function in self.run.plan.functions} - there
        self._due = {name: due for name, due in self._due.items() if name in absent}
        self._ended = absent - {*self._due}
        for name in there:
            self._since.setdefault(name, time.monotonic())
