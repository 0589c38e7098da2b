"""What is answered on which path. Nothing here changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI, Header, Response
from fastapi.responses import PlainTextResponse

import unis
from unis.errors import UnisError
from unis.runtime.directory import all_runs
from unis.serve.exposition import exposition
from unis.serve.listening import loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from unis.serve.scraper import Scraper


def application(scraper: Scraper) -> FastAPI:
    """What uvicorn serves."""
    # The pages of FastAPI load scripts from elsewhere.
    app = FastAPI(title="UNiS", version=unis.version(), docs_url=None, redoc_url=None)
    app.add_middleware(OwnNamesOnly)

    # By threads, for both wait: for engines, and for files.
    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics(accept: str = Header("")) -> Response:
        """Metrics of all runs: OpenMetrics where the client accepts it, else Prometheus' text."""
        try:
            text, content_type = exposition(scraper.scrape(), accept)
        except UnisError as error:
            return _unable(error)
        return Response(text, headers={"content-type": content_type})

    @app.get("/healthz", response_class=PlainTextResponse)
    def healthz() -> Response:
        """`ok`, or 503 with the reason: the notes of the runs cannot be read."""
        try:
            all_runs()
        except UnisError as error:
            return _unable(error)
        return PlainTextResponse("ok\n")

    return app


def _unable(error: UnisError) -> Response:
    return PlainTextResponse(f"{error}\n", status_code=503)


class OwnNamesOnly:
    """Over TCP the Host must be this machine's own: a page of a browser here may have its name lead
    to 127.0.0.1 (DNS rebinding), and would read on.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] == "http" and scope["client"] and not _is_own(_host(scope)):
            response = PlainTextResponse("this is only for this machine\n", status_code=421)
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _host(scope: Scope) -> str:
    named: dict[bytes, bytes] = dict(scope["headers"])
    return named.get(b"host", b"").decode("latin-1")


def _is_own(host: str) -> bool:
    for port in ("", ":80"):
        try:
            loopback(f"{host}{port}")
        except ValueError:
            continue
        return True
    return host.rpartition(":")[0] == "localhost" or host == "localhost"
