"""Starts of containers that fail leave no process; images that nobody uses go."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python.planned import planned
from tests.python.test_containers import contained as chain
from tests.python.test_containers import layout
from unis.container.model import ContainerPlan
from unis.plan.model import FunctionPlan
from unis.runtime import cgroup, contained
from unis.runtime.directory import RunDirectory
from unis.runtime.errors import LaunchError, RunFailedError
from unis.runtime.orphans import FUNCTION_MARK
from unis.runtime.process import end, marked
from unis.runtime.state import RUN_MARK

# As crun is called, it makes a process, and then does what a test says.
_CRUN = """#!/bin/sh
case "$*" in
*" delete --force "*) echo "$@" > {folder}/deleted; exit;;
esac
for word; do case $word in --pid-file=*) file=${{word#*=}};; esac; done
setsid sleep 60 >/dev/null 2>&1 &
{end}
"""


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> FunctionPlan:
    monkeypatch.setattr(cgroup, "mount", lambda: None)
    return planned(chain()).function("nat")


@pytest.fixture
def mark() -> Iterator[str]:
    text = f"{os.getpid()}-{time.monotonic_ns()}"
    yield text
    end(marked(FUNCTION_MARK, text), "left", gentle_seconds=0)


def start(function: FunctionPlan, folder: Path, mark: str) -> None:
    assert function.container
    directory = RunDirectory(folder / "run")
    directory.path.mkdir(exist_ok=True)
    marks = {RUN_MARK: mark, FUNCTION_MARK: mark}
    contained.start(function, function.container, ["x"], directory, marks, None)


@pytest.mark.parametrize(
    ("ending", "sentence"),
    [
        ("wait", "crun did not start function nat within"),
        ("exit 1", "crun cannot start function nat"),
        ("exit 0", "crun does not tell the process of function nat"),
        ("echo $! > $file", "did not become a child of UNiS"),
    ],
)
def test_a_start_that_fails_leaves_no_process(
    function: FunctionPlan,
    mark: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
    sentence: str,
) -> None:
    program = tmp_path / "crun"
    program.write_text(_CRUN.format(folder=tmp_path, end=ending))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(contained, "_CRUN_SECONDS", 0.5 if ending == "wait" else 30.0)
    monkeypatch.setattr(contained, "_PARTING_SECONDS", 0.5)
    with pytest.raises(RunFailedError, match=sentence):
        start(function, tmp_path, mark)
    assert not marked(FUNCTION_MARK, mark)
    words = f"--root={tmp_path}/run/crun delete --force nat"
    assert (tmp_path / "deleted").read_text().strip() == words


@pytest.mark.parametrize("image", [False, True])
def test_no_link_that_came_after_the_plan_is_followed(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch, image: bool
) -> None:
    place = tmp_path / "data" / "image" if image else tmp_path / "data"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "sh").touch(mode=0o755)
    plan = planned(
        chain(image=str(place)) if image else chain(mounts=[f"{place}:/etc/x"])
    ).function("nat")
    (tmp_path / "data").rename(tmp_path / "away")
    (tmp_path / "data").symlink_to("away" if image else "/")
    monkeypatch.setattr(contained, "crun", lambda: "/nonexistent/crun")
    with pytest.raises(LaunchError, match=f"nat: a symbolic link leads from {place} to"):
        start(plan, tmp_path, mark)


def test_images_that_nobody_used_for_long_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plans = [
        ContainerPlan(layout(tmp_path / name, [(f"b/{name}", "x")])) for name in ("a", "b", "c")
    ]
    old, used, mounted = (contained._unpacked(plan) for plan in plans)
    before = time.time() - 40 * 86400
    for image in (old, used, mounted):
        os.utime(image, (before, before))
    assert contained._unpacked(plans[1]) == used
    monkeypatch.setattr(
        contained, "_mounts_of", lambda pid: f"9 9 0:1 {mounted}/b /b ro" * (pid == os.getpid())
    )
    new = contained._unpacked(ContainerPlan(layout(tmp_path / "d", [("b/d", "x")])))
    assert {*contained.images_directory().iterdir()} == {used, mounted, new}
    assert contained._unpacked(plans[0]) == old, "it is unpacked again"
