"""What a process can do that was started with some rights, as the kernel sees it."""

import os
import pwd
import socket
import subprocess
from pathlib import Path

import pytest

from tests.needs import need_root
from unis.chain.model import Kernel
from unis.plan.model import FunctionPlan
from unis.runtime import folders
from unis.runtime.errors import LaunchError
from unis.runtime.privileges import Rights

pytestmark = pytest.mark.system

SHOW = ["/bin/sh", "-c", "grep -E '^(Cap|NoNew|Uid)' /proc/self/status; env"]


@pytest.fixture(autouse=True)
def _root() -> None:
    need_root()


def said(rights: Rights, **env: str) -> dict[str, str]:
    """By name: the lines of the status, and the environment."""
    command = [*rights.before(env), *SHOW]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    pairs = [line.replace(":\t", "=", 1).partition("=") for line in lines]
    return {key: value for key, _, value in pairs}


def sets(found: dict[str, str], *names: str) -> set[int]:
    return {int(found[f"Cap{name}"], 16) for name in names}


def test_a_user_has_the_capabilities_named_and_hands_them_on() -> None:
    found = said(Rights("nobody", ["net_raw"]), A="1")
    assert sets(found, "Inh", "Prm", "Eff", "Bnd", "Amb") == {1 << 13}
    assert found["NoNewPrivs"] == "1"
    assert set(found["Uid"].split()) == {str(pwd.getpwnam("nobody").pw_uid)}
    assert found["A"] == "1"
    assert sets(said(Rights("nobody")), "Inh", "Prm", "Eff", "Bnd", "Amb") == {0}


def test_root_is_bounded_too() -> None:
    found = said(Rights(capabilities=["dac_override", "ipc_lock"]))
    assert sets(found, "Prm", "Eff", "Bnd") == {1 << 1 | 1 << 14}
    assert found["NoNewPrivs"] == "1"
    assert found["Uid"].split()[0] == "0"


def function(folder: Path) -> FunctionPlan:
    return FunctionPlan(
        name="a", program=folder, drivers=(), lcore_count=1, argv=(), argv_beside=(), words=(),
        cpu=1, lcores="1@1", group="own", file_prefix="x", env={}, user="nobody", capabilities=(),
        container=None,
        stdin=None, terminal=False, namespace=None, folder=folder, cwd=folder,
        cost_ns=None, yield_every=0, may_sleep=True, restart="never",
        kernel=Kernel(),
        plugin=True, telemetry=False, ports=(),
    )  # fmt: skip


def test_a_folder_is_roots_till_it_is_given_away(tmp_path: Path) -> None:
    mine = function(folders.folders_directory() / "x.a")
    assert mine.folder
    folders.make(mine)
    assert (mine.folder.stat().st_uid, mine.folder.stat().st_mode & 0o777) == (0, 0o700)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(mine.folder / "c.0.sock"))
    secret = tmp_path / "of-root"
    secret.touch()
    (mine.folder / "link").symlink_to(secret)
    of_root = mine.folder / "hard-link"  # as fs.protected_hardlinks=0 lets a user make
    of_root.touch()
    with socket.socket(socket.AF_UNIX) as another:
        another.bind(str(mine.folder / "another.sock"))
    (mine.folder / "linked.sock").hardlink_to(mine.folder / "another.sock")
    folders.give_away(mine)
    assert of_root.stat().st_uid == 0, "it is no socket"
    assert (mine.folder / "linked.sock").stat().st_uid == 0, "it has another name"
    nobody = pwd.getpwnam("nobody").pw_uid
    assert mine.folder.stat().st_uid == (mine.folder / "c.0.sock").stat().st_uid == nobody
    assert secret.stat().st_uid == 0, "what a link leads to is not given away"
    folders.make(mine)  # again, after a run that was not undone
    assert list(mine.folder.iterdir()) == []
    assert mine.folder.stat().st_uid == 0


def test_a_place_that_another_can_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path))
    folders.folders_directory().mkdir()
    os.chown(folders.folders_directory(), 1, 1)
    with pytest.raises(LaunchError, match="belongs to user 1"):
        folders.make(function(folders.folders_directory() / "x.a"))
