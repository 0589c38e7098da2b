"""`unis serve` as a process of its own, and who asks it."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evaluation.scrapes import UnixConnection

SECONDS = 60  # a bound, not an expectation


def over_unix(path: Path) -> UnixConnection:
    return UnixConnection(path, SECONDS)


def answered(
    connection: http.client.HTTPConnection,
    method: str = "GET",
    path: str = "/healthz",
    **headers: str,
) -> tuple[int, str]:
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


@contextmanager
def serving(
    tmp_path: Path, *words: str, below: Sequence[str] = (), **environment: str
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A server that answers, and the path of its socket."""
    path = tmp_path / "serve.sock"
    words = ("-c", "from unis.cli import main; main()", "serve", "--socket", str(path), *words)
    with subprocess.Popen(
        [*below, sys.executable, "-P", *words], text=True, stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    ) as process:  # fmt: skip
        assert process.stderr
        try:
            line = process.stderr.readline()
            assert line.startswith(f"serving on unix:{path}"), line
            yield process, path
        finally:
            process.kill()


class ApiClient:
    """Asks for objects over the socket."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """The status code, and the object. `body`: plain data, or the text of a chain file."""
        connection = over_unix(self.path)
        sent = None
        if body is not None:
            sent = body if isinstance(body, str) else json.dumps(body)
            kind = "application/yaml" if isinstance(body, str) else "application/json"
            headers = {"Content-Type": kind, **headers}
        connection.request(method, path, sent, headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found

    def get(self, path: str) -> dict[str, Any]:
        """What is there, which must be."""
        status, found = self("GET", path)
        assert status == 200, found
        return found
