"""Who is attached already is not attached to another run."""

from pathlib import Path

import pytest

from unis.runtime import attached
from unis.runtime.attached import require_nobodys
from unis.runtime.directory import run_directory
from unis.runtime.errors import LaunchError
from unis.runtime.process import ProcessId
from unis.runtime.state import FunctionProcess, Phase, RunState
from unis.v1 import supervisor_pb2 as pb


def noted(phase: Phase) -> ProcessId:
    """A run called `one`, of which this process is a function."""
    me = ProcessId.me()
    directory = run_directory("one")
    directory.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.write(
        RunState(
            run_id="id", name="one", chain_file="", groups=[], cpus=[1], platform_cpus=[0],
            hugepages_mb=0, launcher=me, phase=phase, functions=[FunctionProcess("a", 1, me)],
        )
    )  # fmt: skip
    return me


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path))


def test_a_process_of_another_run_is_refused_with_the_way_out() -> None:
    me = noted(Phase.RUNNING)
    with pytest.raises(LaunchError, match=r"is function a of run `one`.*unis detach a --name one"):
        require_nobodys(me, "two")


def test_ones_own_and_one_of_a_run_that_is_over_are_free() -> None:
    me = noted(Phase.RUNNING)
    require_nobodys(me, "one")
    require_nobodys(ProcessId(me.pid, me.start_time + 1), "two")  # another by the same number
    noted(Phase.FAILED)
    require_nobodys(me, "two")


@pytest.mark.parametrize("group", ["../etc", "a b", "-x", ""])
def test_a_group_of_an_odd_name_is_bad_input(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "_group_of_process", lambda _: group)
    path = pb.AttachedPath(ingress="ring:a", egress="ring:b")
    request = pb.AttachProcessRequest(name="a", pid=1, cpu=1, paths=[path], group=group)
    with pytest.raises(LaunchError, match="cannot be a DPDK group") as caught:
        attached.group_to_join(request)
    assert caught.value.exit_code == 2
