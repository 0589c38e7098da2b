"""Unit tests of the Python half. A test that needs a build, root or an installed program is marked
`system`; the others find no build, so that a missing mark fails at once on every machine.
"""

import ctypes
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.needs import NO_BUILD, need
from tests.python.place import Place


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Hides the build from an unmarked test and its fixtures, those of the module included.

    pytest calls this for the tests of other folders too.
    """
    unit = Path(__file__).parent in item.path.parents
    with pytest.MonkeyPatch.context() as patch:
        if unit and item.get_closest_marker("system") is None:
            patch.setenv("UNIS_BUILD", NO_BUILD)
        return (yield)


_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


@pytest.fixture(autouse=True)
def own_runs(tmp_path: Path) -> Iterator[None]:
    """Runs and caches of its own: those of this machine, also of a killed run, are let be.

    A chain that a test brings up makes pytest the parent of orphans and leaves it one CPU. The
    tests after it see neither.
    """
    before = os.sched_getaffinity(0)
    with pytest.MonkeyPatch.context() as patch:  # what a test undoes is not ours
        patch.setenv("UNIS_RUN_DIR", str(tmp_path / "run"))
        patch.setenv("UNIS_MACHINE_DIR", str(tmp_path / "run" / "machine"))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield
    os.sched_setaffinity(0, before)  # commands keep off the functions' CPUs
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, *map(ctypes.c_ulong, (0, 0, 0, 0)))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    fit = os.geteuid() == 0 and len(os.sched_getaffinity(0)) > 1
    need(fit and Path("/dev/hugepages").exists(), "needs root, two CPUs and hugepages")
    place = Place(tmp_path)
    try:
        yield place
        place.unis("down", "--all")
        place.assert_nothing_left()
    finally:
        place.clear()
