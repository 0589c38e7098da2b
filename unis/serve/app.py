"""What is answered on which path."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException

import unis
from unis.errors import UnisError
from unis.runtime.directory import all_runs
from unis.serve.access import Access, Guarded
from unis.serve.changing import chain_file_schema, changing_routes
from unis.serve.desired import DesiredFiles
from unis.serve.events import Broker
from unis.serve.exposition import exposition
from unis.serve.operations import Operations
from unis.serve.problems import FAILURES, ApiError, StatusReason, reason_of_http, status_response
from unis.serve.reading import Looks, reading_routes

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from unis.serve.scraper import Scraper

_ABOUT = """Runs of UNiS as objects in the shape of Kubernetes: `metadata`, `spec`, `status`.

Changes are made by `unis` commands. A change that takes long answers 202 with an Operation, which
tells its progress and can be cancelled. Errors are objects of kind Status."""


def application(scraper: Scraper, access: Access, cpus: Iterable[int]) -> FastAPI:
    """What uvicorn serves. `cpus`: that the commands may use.

    LaunchError: the folder for chain files is not ours.
    """
    # The pages of FastAPI load scripts from elsewhere.
    app = FastAPI(
        title="UNiS",
        version=unis.version(),
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        responses=FAILURES,
    )
    files = DesiredFiles()
    if not access.read_only:
        files.make()
    broker = Broker(lambda: [run.asked for run in looks.asked()])
    operations = Operations(cpus, broker.operation)
    looks = Looks(scraper, files, operations)
    app.include_router(reading_routes(looks, operations, broker))
    app.include_router(changing_routes(looks, files, operations))
    app.add_middleware(_ScrapedFirst, scraper=scraper)
    app.add_middleware(Guarded, access=access)  # the last one added comes first
    _serve_page(app)
    _explain_errors(app)
    _describe(app)

    # By threads, for both wait: for engines, and for files.
    unable: dict[int | str, Any] = {503: {"content": {"text/plain": {}}, "model": None}}

    @app.get("/metrics", response_class=PlainTextResponse, responses=unable)
    def metrics(accept: str = Header("")) -> Response:
        """Metrics of all runs: OpenMetrics where the client accepts it, else Prometheus' text."""
        return _metrics(scraper, accept)

    @app.get("/healthz", response_class=PlainTextResponse, responses=unable)
    def healthz() -> Response:
        """`ok`, or 503 with the reason: the notes of the runs cannot be read."""
        try:
            all_runs()
        except UnisError as error:
            return _unable(error)
        return PlainTextResponse("ok\n")

    return app


def _metrics(scraper: Scraper, accept: str) -> Response:
    try:
        text, content_type = exposition(scraper.scrape(), accept)
    except UnisError as error:
        return _unable(error)
    return Response(text, headers={"content-type": content_type})


class _ScrapedFirst:
    """Answers scrapes itself. FastAPI takes half a millisecond of cold caches to come to the same
    function, and a scrape each second takes the CPU from an engine.
    """

    def __init__(self, app: ASGIApp, scraper: Scraper) -> None:
        self._app = app
        self._scraper = scraper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        app = self._app
        if scope["type"] == "http" and (scope["method"], scope["path"]) == ("GET", "/metrics"):
            given = [value for name, value in scope["headers"] if name == b"accept"]
            accept = b",".join(given).decode("latin-1")
            loop = asyncio.get_running_loop()
            app = await loop.run_in_executor(None, _metrics, self._scraper, accept)
        await app(scope, receive, send)


_PAGE = Path(__file__).parent / "page"
_PAGE_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def _serve_page(app: FastAPI) -> None:
    """The files are read once: there are few, and no path of a client reaches the disk."""
    files = {
        path.name: (path.read_text(), _PAGE_TYPES[path.suffix])
        for path in _PAGE.iterdir()
        if path.suffix in _PAGE_TYPES
    }

    def answer(name: str) -> Response:
        text, kind = files[name]
        return Response(text, media_type=kind, headers=_PAGE_HEADERS)

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return answer("index.html")

    @app.get("/page/{name}", include_in_schema=False)
    def file(name: str) -> Response:
        if name not in files:
            raise ApiError(StatusReason.NOT_FOUND, f"there is no /page/{name}")
        return answer(name)


def _explain_errors(app: FastAPI) -> None:
    """Every error is a Status."""

    @app.exception_handler(ApiError)
    def refused(_request: Request, error: ApiError) -> Response:
        return status_response(error.reason, str(error), error.causes)

    @app.exception_handler(UnisError)
    def unable(_request: Request, error: UnisError) -> Response:
        return status_response(StatusReason.UNAVAILABLE, str(error))

    @app.exception_handler(Exception)
    def failed(_request: Request, error: Exception) -> Response:
        told = f"a fault of UNiS: {type(error).__name__}: {error}"
        return status_response(StatusReason.INTERNAL_ERROR, told)

    @app.exception_handler(HTTPException)
    def of_http(_request: Request, error: HTTPException) -> Response:
        return status_response(reason_of_http(error.status_code), str(error.detail))

    @app.exception_handler(RequestValidationError)
    def invalid(_request: Request, error: RequestValidationError) -> Response:
        causes = [f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors()]
        return status_response(StatusReason.INVALID, "; ".join(causes), causes)


def _describe(app: FastAPI) -> None:
    """The schema of the chain file is that of `unis schema`."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title, version=app.version, description=app.description,
                routes=app.routes,
            )  # fmt: skip
            schema["components"]["schemas"].update(chain_file_schema())
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _unable(error: UnisError) -> Response:
    return PlainTextResponse(f"{error}\n", status_code=503)
