"""Which hugetlbfs holds packet memory, from what the kernel tells."""

from pathlib import Path

import pytest

from unis.runtime import hugepages


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Files as /proc and /sys have them: default pages of 2 MB."""
    (tmp_path / "meminfo").write_text("HugePages_Total: 8\nHugepagesize:       2048 kB\n")
    pool = tmp_path / "pools" / "hugepages-2048kB"
    pool.mkdir(parents=True)
    (pool / "free_hugepages").write_text("300\n")
    (pool / "resv_hugepages").write_text("44\n")
    monkeypatch.setattr(hugepages, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(hugepages, "_MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(hugepages, "_SYSFS", tmp_path / "pools")
    return tmp_path


@pytest.mark.parametrize(
    ("mounts", "chosen"),
    [
        ("none /huge hugetlbfs rw,pagesize=2M 0 0\n", "/huge"),
        ("none /huge hugetlbfs rw,relatime 0 0\n", "/huge"),  # no size: the default
        ("none /big hugetlbfs rw,pagesize=1G 0 0\nnone /two hugetlbfs rw,pagesize=2048k 0 0\n",
         "/two"),
        ("none /big hugetlbfs rw,pagesize=1G 0 0\n", None),
        ("tmpfs /dev/shm tmpfs rw,pagesize=2M 0 0\n", None),
    ],
)  # fmt: skip
def test_the_mount_of_the_default_size_is_chosen(
    kernel: Path, mounts: str, chosen: str | None
) -> None:
    (kernel / "mounts").write_text(mounts)
    assert hugepages.directory() == (Path(chosen) if chosen else None)


def test_reserved_pages_are_not_free(kernel: Path) -> None:
    assert hugepages.free_mb() == (300 - 44) * 2
    (kernel / "meminfo").write_text("Hugepagesize: 1048576 kB\n")  # of which there is no pool
    assert hugepages.free_mb() == 0
