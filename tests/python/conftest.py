"""No test asserts how long something takes: machines differ, and others work on them too."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.needs import need
from tests.python.place import Place

settings.register_profile("unis", deadline=None)
settings.load_profile("unis")


@pytest.fixture(autouse=True)
def own_runs(tmp_path: Path) -> Iterator[None]:
    """Runs and caches of its own: those of this machine, also of a killed run, are let be."""
    before = os.sched_getaffinity(0)
    with pytest.MonkeyPatch.context() as patch:  # what a test undoes is not ours
        patch.setenv("UNIS_RUN_DIR", str(tmp_path / "run"))
        patch.setenv("UNIS_MACHINE_DIR", str(tmp_path / "run" / "machine"))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield
    os.sched_setaffinity(0, before)  # commands keep off the functions' CPUs


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
