"""Whatever is sent to the API is answered as its description says, and never by an error of ours.

No command is started: what a valid request would do is in tests/e2e/test_api.py.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.python.asgi import ROOT, served
from unis.serve.access import Access
from unis.serve.operations import Operation

_START = Operation.start


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setattr("unis.serve.access._BURST", 1e9)
    monkeypatch.setattr("unis.serve.events._STREAM_SECONDS", 0.01)
    monkeypatch.setattr(Operation, "start", _only_the_version)
    app = served(Access())

    async def as_root(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope["state"] = {"peer": ROOT}
            scope["client"] = None
            scope["headers"] = [
                (key, b"localhost" if key == b"host" else value) for key, value in scope["headers"]
            ]
        await app(scope, receive, send)

    return schemathesis.openapi.from_asgi("/openapi.json", as_root)


def _only_the_version(operation: Operation, _words: Sequence[str], cpus: Iterable[int]) -> None:
    _START(operation, ["version", "--json"], cpus)


_CHECKS: list[Callable[..., Any]] = [
    schemathesis.checks.not_a_server_error, status_code_conformance, content_type_conformance,
    response_schema_conformance,
]  # fmt: skip


_SETTINGS = settings(
    max_examples=8, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much,
                           HealthCheck.data_too_large],
)  # fmt: skip


@pytest.mark.parametrize("mode", [*schemathesis.GenerationMode])
def test_whatever_is_sent_is_answered_as_described(
    described: Any, mode: schemathesis.GenerationMode
) -> None:
    """`mode`: requests as they should be, and others."""
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) > 25
    for operation in operations:

        @_SETTINGS
        @given(case=operation.as_strategy(generation_mode=mode))
        def answered(case: Any) -> None:
            case.call_and_validate(checks=_CHECKS)

        with suppress(Unsatisfiable):  # nothing can be wrong with a request without arguments
            answered()
