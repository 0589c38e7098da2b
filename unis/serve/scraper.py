"""All runs of this machine, asked again and again: an engine that hangs hides no other."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from unis.engine.client import EngineClient
from unis.runtime.asked import AskedRun, ask, has_engine
from unis.runtime.directory import KnownRuns, RunDirectory
from unis.runtime.state import RunState

_FRESH_SECONDS = 0.1  # whoever asks more often gets what was told last: no engine is asked for it
_AT_ONCE = 8  # engines that are asked at the same time


@dataclass(frozen=True)
class ScrapedRun:
    """A run, and how long its engine took to answer; None: it did not."""

    asked: AskedRun
    seconds: float | None = None


@dataclass(frozen=True)
class Scrape:
    """All runs at one time."""

    runs: tuple[ScrapedRun, ...] = ()
    damaged: tuple[str, ...] = ()  # runs whose notes cannot be read


@dataclass
class Scraper:
    """Keeps a connection to each engine. Several threads may call it."""

    _known: KnownRuns = field(default_factory=KnownRuns)
    _clients: dict[str, EngineClient] = field(default_factory=dict)  # by the run's id
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_AT_ONCE))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _last: Scrape = field(default_factory=Scrape)
    _begun: float = 0.0  # when the last one began
    _until: float = 0.0  # so long the last one is fresh, monotonic seconds

    def scrape(self, since: float = 0.0) -> Scrape:
        """Each engine has ANSWER_SECONDS. NotAllowedError: the runs are not ours to look at.

        `since` (monotonic): what was asked before that is not told.
        """
        with self._lock:
            begun = time.monotonic()
            if begun < self._until and since <= self._begun:
                return self._last
            self._begun = begun
            found, damaged = self._known.now()
            for gone in {*self._clients} - {state.run_id for _, state in found}:
                self._clients.pop(gone).close()
            each = self._pool.map if len(found) > 1 else map
            runs = tuple(each(lambda run: self._ask(*run), found))
            self._last = Scrape(runs, tuple(damaged))
            self._until = time.monotonic() + _FRESH_SECONDS
            return self._last

    def close(self) -> None:
        """Lets go of the engines."""
        self._pool.shutdown()
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _ask(self, directory: RunDirectory, state: RunState) -> ScrapedRun:
        if not has_engine(state):
            return ScrapedRun(AskedRun(state))
        if (client := self._clients.get(state.run_id)) is None:
            client = self._clients[state.run_id] = EngineClient(directory.socket)
        begin = time.monotonic()
        asked = ask(directory, state, client, latency=True)
        return ScrapedRun(asked, time.monotonic() - begin if asked.stats else None)
