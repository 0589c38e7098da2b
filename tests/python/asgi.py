"""Asks the application of `unis serve` in this process, as a peer or over TLS."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import FastAPI

from unis.serve.access import Access, Peer
from unis.serve.app import application
from unis.serve.scraper import Scraper

ROOT = Peer(0, frozenset({0}))
NOBODY = Peer(65534, frozenset({65534}))


class AsgiAnswer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


def served(access: Access | None = None, cpus: tuple[int, ...] = (0,)) -> FastAPI:
    return application(Scraper(), access or Access(), cpus)


def ask(
    app: FastAPI,
    method: str,
    path: str,
    body: bytes | str | Mapping[str, Any] = b"",
    *,
    peer: Peer | None = ROOT,
    scheme: str = "http",
    **headers: str,
) -> AsgiAnswer:
    """`headers`: by their names with _ for -. Without a peer it is over TCP."""
    if isinstance(body, Mapping):
        body = json.dumps(body)
        headers.setdefault("content_type", "application/json")
    sent = body.encode() if isinstance(body, str) else body
    headers.setdefault("host", "localhost")
    path, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": scheme, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "root_path": "", "client": None if peer else ("127.0.0.1", 1), "server": None,
        "headers": [(key.replace("_", "-").encode(), value.encode("latin-1"))
                    for key, value in headers.items()],
        "state": {"peer": peer},
    }  # fmt: skip
    told: list[Any] = []

    async def receive() -> Any:
        if not told:
            told.append(None)
            return {"type": "http.request", "body": sent, "more_body": False}
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    got: list[Any] = []

    async def send(message: Any) -> None:
        got.append(message)

    asyncio.run(app(scope, receive, send))
    begin = next(message for message in got if message["type"] == "http.response.start")
    found = b"".join(message.get("body", b"") for message in got)
    answered = {key.decode(): value.decode() for key, value in begin["headers"]}
    return AsgiAnswer(begin["status"], answered, found)


def runs_below(tmp_path: Path, monkeypatch: Any) -> None:
    """Notes of runs are there, and nowhere else."""
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "run"))
