"""Folders that are removed, cgroups that are looked for."""

import os
from pathlib import Path

import pytest

from tests.leaves import leaves
from unis.runtime import cgroup
from unis.runtime.files import own_directory, remove_tree


def test_a_folder_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    (deep / "link").symlink_to(tmp_path)
    assert remove_tree(tmp_path / "a") == []
    assert remove_tree(tmp_path / "a") == [], "it is gone already"
    assert tmp_path.exists()


def test_a_folder_goes_however_deep_it_is(tmp_path: Path) -> None:
    """Deeper than Python calls itself, than a path is long and than files can be open."""
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        for _ in range(1200):
            Path("folder").mkdir()
            os.chdir("folder")
    finally:
        os.chdir(here)
    assert remove_tree(tmp_path / "folder") == []
    assert not (tmp_path / "folder").exists()


def test_what_cannot_be_removed_is_told() -> None:
    (problem, *_) = remove_tree(Path("/proc/sys/kernel/random/uuid"))
    assert problem.startswith("cannot remove '/proc/sys/kernel/random/uuid': ")


def test_leaves_are_looked_for_where_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a session of systemd that is far below the mount."""
    monkeypatch.setattr(cgroup, "mount", lambda: tmp_path)
    monkeypatch.setattr(cgroup, "leaf_name", lambda run_id: f"user.slice/unis-{run_id}")
    left = tmp_path / "user.slice" / "unis-1"
    left.mkdir(parents=True)
    assert leaves() == [left]


def test_a_folder_has_its_mode_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        own_directory(tmp_path / "open", 0o755)
    finally:
        os.umask(before)
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o755
