"""What can be looked at: GET below /v1."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from unis.engine.client import EngineClient
from unis.runtime import logs as kept
from unis.runtime.asked import has_engine
from unis.runtime.directory import run_directory
from unis.runtime.state import is_name
from unis.serve.events import EventObject
from unis.serve.objects import (
    MAKERS,
    CountedRun,
    ObjectList,
    RestObject,
    RunList,
    RunObject,
    Transitions,
    run_object,
)
from unis.serve.operations import OperationList, OperationObject, now_text
from unis.serve.problems import API_VERSION, ApiError, StatusReason
from unis.serve.scraper import Scrape

if TYPE_CHECKING:
    from unis.serve.desired import DesiredFiles
    from unis.serve.events import Broker
    from unis.serve.operations import Operations
    from unis.serve.scraper import Scraper

_MOST_LINES = 10_000
_TRACE_PAUSE = 1.0  # seconds between two traces
_TAIL_BYTES = 4 << 20


class Looks:
    """All that is known of the runs now, as objects."""

    def __init__(self, scraper: Scraper, files: DesiredFiles, operations: Operations) -> None:
        self._scraper = scraper
        self._files = files
        self._operations = operations
        self._transitions = Transitions()
        self._lock = threading.Lock()
        self._scrape = Scrape()
        self._runs: list[CountedRun] = []  # of that scrape

    def asked(self, *, fresh: bool = False) -> list[CountedRun]:
        """Every run; `fresh`: asked from now on, not a moment ago."""
        since = time.monotonic() if fresh else 0.0
        scrape = self._scraper.scrape(since)
        with self._lock:
            if scrape is not self._scrape:
                self._scrape = scrape
                self._runs = [CountedRun(scraped.asked) for scraped in scrape.runs]
            return self._runs

    def stamped(self, objects: Iterable[RestObject]) -> list[Any]:
        """With the times at which their conditions changed."""
        found = [*objects]
        with self._lock:
            self._transitions.stamp(found, now_text())
        return found

    def runs(self) -> list[RunObject]:
        """All of them."""
        found = self.asked()
        with self._lock:
            self._transitions.forget(one.asked.state.run_id for one in found)
        return self.stamped(map(self._run, found))

    def run(self, name: str, *, fresh: bool = False) -> RunObject:
        """ApiError: there is none."""
        found = self._run(_named(name, self.asked(fresh=fresh)))
        self.stamped([found])
        return found

    def _run(self, run: CountedRun) -> RunObject:
        state = run.asked.state
        spec, digest = self._files.content(state)
        return run_object(run, spec, digest, self._operations.failure(state.name))

    def parts(
        self, make: Callable[[CountedRun], Iterator[RestObject]], run: str | None
    ) -> list[Any]:
        """Parts of all runs, or of one. ApiError: there is no such run."""
        runs = self.asked()
        found = runs if run is None else [_named(run, runs)]
        return self.stamped(part for one in found for part in make(one))


def _named(name: str, runs: Iterable[CountedRun]) -> CountedRun:
    """ApiError: it is not among them."""
    run = next((one for one in runs if one.asked.state.name == name), None)
    if run is None:
        raise ApiError(StatusReason.NOT_FOUND, f"there is no run `{name}`")
    return run


def reading_routes(looks: Looks, operations: Operations, broker: Broker) -> APIRouter:
    """The paths."""
    routes = APIRouter()
    tracing = threading.Lock()

    @routes.get("/v1")
    def resources() -> dict[str, Any]:
        """What there is below /v1."""
        names = ["runs", *MAKERS, "operations", "events"]
        return {
            "apiVersion": API_VERSION,
            "kind": "APIResourceList",
            "resources": [{"name": name, "path": f"/v1/{name}"} for name in names],
        }

    @routes.get("/v1/runs", response_model=RunList)
    def list_runs() -> RunList:
        """All runs, with those that failed and are not forgotten."""
        return RunList(kind="RunList", items=looks.runs())

    @routes.get("/v1/runs/{run}", response_model=RunObject)
    def read_run(run: str) -> RunObject:
        """One run."""
        return looks.run(run)

    for path, (kind, make) in MAKERS.items():
        _add_parts(routes, looks, path, kind, make)

    @routes.get("/v1/runs/{run}/logs")
    def read_logs(
        run: str,
        who: str | None = Query(None, description="A function, `unisd` or `unis`."),
        lines: int = Query(200, ge=1, le=_MOST_LINES, description="The last ones of each."),
    ) -> dict[str, Any]:
        """Logs of the launcher, the engine and the functions, also of a run that has ended."""
        return {
            "apiVersion": API_VERSION,
            "kind": "Logs",
            "metadata": {"name": run},
            "logs": _logs(run, who, lines),
        }

    @routes.get("/v1/runs/{run}/trace")
    def trace(
        run: str, seconds: float = Query(0.02, ge=0.001, le=1, description="Length.")
    ) -> dict[str, Any]:
        """Which function ran when, in Chrome's trace format, as `unis trace`."""
        return _trace(run, seconds, tracing)

    @routes.get("/v1/operations", response_model=OperationList)
    def list_operations() -> OperationList:
        """Work that requests have begun, the newest last."""
        return OperationList(items=[one.as_object() for one in operations.all()])

    @routes.get("/v1/operations/{name}", response_model=OperationObject)
    async def read_operation(
        name: str,
        wait_seconds: float = Query(0, alias="waitSeconds", ge=0, le=30),
    ) -> OperationObject:
        """One of them; with `waitSeconds` once it has ended, but no later than then."""
        operation = operations.get(name)
        await operation.ends(wait_seconds)
        return operation.as_object()

    @routes.get(
        "/v1/events",
        responses={200: {"model": EventObject, "content": {"text/event-stream": {}}}},
        response_class=StreamingResponse,
    )
    async def events(
        after: int | None = Query(None, ge=0, description="Begin behind the event of this id."),
        last_event_id: str = Header("", description="As `after`: browsers send it."),
    ) -> StreamingResponse:
        """What happens, as server-sent events. An answer ends after 55 s: ask again."""
        if broker.full:
            raise ApiError(
                StatusReason.TOO_MANY_REQUESTS, "16 clients read events already; try again later"
            )
        if last_event_id.isascii() and last_event_id.isdecimal():
            after = int(last_event_id[:18])
        return StreamingResponse(
            broker.stream(after), media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )  # fmt: skip

    return routes


def _add_parts(
    routes: APIRouter,
    looks: Looks,
    path: str,
    kind: type[ObjectList],
    make: Callable[[CountedRun], Iterator[RestObject]],
) -> None:
    """The three paths of a kind of part: of all runs, of one, and one part."""
    item: Any = kind.model_fields["items"].annotation
    (item,) = item.__args__

    def listed(run: str | None) -> ObjectList:
        return kind(kind=kind.__name__, items=looks.parts(make, run))

    @routes.get(f"/v1/{path}", response_model=kind, operation_id=f"list_{path}")
    def list_all() -> ObjectList:
        return listed(None)

    @routes.get(f"/v1/runs/{{run}}/{path}", response_model=kind, operation_id=f"list_run_{path}")
    def list_of_run(run: str) -> ObjectList:
        return listed(run)

    @routes.get(
        f"/v1/runs/{{run}}/{path}/{{name:path}}", response_model=item,
        operation_id=f"read_{path}",
    )  # fmt: skip
    def read(run: str, name: str) -> Any:
        found = [one for one in looks.parts(make, run) if one.metadata.name == name]
        if not found:
            told = f"run `{run}` has no {path.removesuffix('s')} `{name}`"
            raise ApiError(StatusReason.NOT_FOUND, told)
        return found[0]


def _trace(run: str, seconds: float, busy: threading.Lock) -> dict[str, Any]:
    """One at a time, since the engine refuses changes meanwhile; what came before is left out."""
    from unis.report.trace import trace_text

    directory = run_directory(run)
    state = directory.read() if is_name(run) else None
    if state is None or not has_engine(state):
        raise ApiError(StatusReason.NOT_FOUND, f"no run `{run}` is up")
    if not busy.acquire(blocking=False):
        raise ApiError(StatusReason.TOO_MANY_REQUESTS, "another trace is under way; try again")
    try:
        with EngineClient(directory.socket) as client:
            found: dict[str, Any] = json.loads(trace_text(client.trace(seconds)))
    finally:
        # Whoever asks again and again leaves room for changes.
        threading.Timer(_TRACE_PAUSE, busy.release).start()
    found["traceEvents"] = [one for one in found["traceEvents"] if one.get("ts", 0) >= 0]
    return found


def _logs(run: str, who: str | None, lines: int) -> dict[str, list[str]]:
    directory = kept.latest(run) if is_name(run) else None
    found = directory.logs() if directory else []
    by_name = {log.stem.removeprefix("function."): log for log in found}
    if not by_name:
        raise ApiError(StatusReason.NOT_FOUND, f"no logs are kept of a run `{run}`")
    if who is not None and who not in by_name:
        told = f"there is no log of `{who}`; there are {', '.join(by_name)}"
        raise ApiError(StatusReason.NOT_FOUND, told)
    chosen = by_name if who is None else {who: by_name[who]}
    told_lines: dict[str, list[str]] = {}
    for name, log in chosen.items():
        try:
            with log.open("rb") as stream:
                stream.seek(max(0, stream.seek(0, 2) - _TAIL_BYTES))
                told_lines[name] = stream.read().decode(errors="replace").splitlines()[-lines:]
        except OSError:
            told_lines[name] = []
    return told_lines
