"""`unis serve` as a process of its own, and who asks it."""

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
