"""End-to-end tests drive `unis` as a user does: real processes, real packets, this machine.

They need root, hugepages and a build. In continuous integration (CI=true) a machine that lacks one
fails the tests; elsewhere they are skipped with the reason.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, machine_in
from tests.forked import favour_session
from tests.needs import need
from unis import built

_EACH_CASE = ("test_examples",)  # no case stands for another


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test with more than two cases, `make test` has the first and the last; the others are
    `long`.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem not in _EACH_CASE:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in cases.values():
        for item in found[1:-1]:
            item.add_marker(pytest.mark.long)


def _lacking() -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    free = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
    if int(free.read_text()) < 256:
        return "needs 256 free hugepages of 2 MB: make setup"
    if len(os.sched_getaffinity(0)) < 2:
        return "needs two CPUs"
    try:
        built.unisd()
    except built.NotBuiltError as error:
        return str(error)
    return None


@pytest.fixture(scope="session", autouse=True)
def favoured() -> None:
    """In CI all that the tests do comes before the engine on the CPU that they share, as commands
    do everywhere (`tests/forked.py`); elsewhere the session is the caller's.
    """
    if os.environ.get("CI"):
        favour_session(os.getpid())


@pytest.fixture(scope="session")
def able() -> None:
    """This machine has what is needed; asked before a fixture keeps off one of its CPUs."""
    lacking = _lacking()
    need(lacking is None, lacking or "")


@pytest.fixture
def machine(able: None, tmp_path: Path) -> Iterator[Machine]:  # noqa: ARG001
    """This machine, which a test must leave as it found it."""
    with machine_in(tmp_path) as machine:
        yield machine
