"""What plug-in and engine write down of packets: read from memory that this process shares."""

import ctypes
import fcntl
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unis.errors import UnisError
from unis.parts import passages
from unis.parts.passages import (
    KEPT,
    Direction,
    Passage,
    PassageLog,
    Sampling,
    noting,
    passage_logs,
)

HEADER = Path(__file__).parents[2] / "ports/unis_ports/passages_shm.h"
ALL: Any = passages._ALL
SAMPLING = Sampling(mark=5, origin=1000, period=10, until=9000)


@pytest.fixture
def memory() -> Iterator[Any]:
    """As a program has it; this process is the program."""
    file = os.memfd_create("unis_passages", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, ALL.itemsize)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    array = np.memmap(f"/proc/self/fd/{file}", ALL, mode="r+", shape=1)
    array["version"] = 3
    yield array[0]
    os.close(file)


def write(memory: Any, thread: int, number: int) -> None:
    log = memory["logs"][thread]
    written = int(log["written"])
    log["passages"][written % KEPT] = (number, number + 1, number + 2, 2, 5, 32, 0)
    log["written"] = written + 1


def test_the_layout_is_that_of_the_header() -> None:
    text = HEADER.read_text()

    def constant(name: str) -> int:
        (found,) = re.findall(rf"define UNIS_PASSAGES_{name} (\d+)", text)
        return int(found)

    assert constant("VERSION") == passages._VERSION
    assert constant("THREADS") == ALL["logs"].shape[0]
    assert constant("KEPT") == KEPT
    structures = re.findall(r"struct \w+ \{(.*?)\n\};", text, re.DOTALL)
    sizes = {"uint64_t": 8, "uint32_t": 4, "int32_t": 4, "uint16_t": 2}

    def fields(body: str) -> list[tuple[str, int]]:
        rows = re.findall(r"^\s*(u?int\d+_t) (\w+)(?:\[(\w+)\])?;", body, re.MULTILINE)
        return [(name, sizes[kind] * int(count or 1)) for kind, name, count in rows]

    def plain(dtype: Any) -> list[tuple[str, int]]:
        return [
            (name, dtype[name].itemsize) for name in dtype.names if name not in ("logs", "passages")
        ]

    dtypes = [passages._PASSAGE, passages._LOG, passages._ALL]
    assert [fields(body) for body in structures] == [plain(dtype) for dtype in dtypes]


def test_what_is_written_while_something_is_measured_is_read(memory: Any) -> None:
    memory["logs"][3]["tid"] = os.getpid()
    write(memory, 3, 900)  # earlier
    with passage_logs({"f": os.getpid()}) as logs:
        assert logs["f"].threads == [os.getpid()]
        with noting(logs, SAMPLING, 2) as noted:
            head = [int(memory[name]) for name in ("looks", "mark", "origin", "period", "until")]
            assert head == [2, 5, 1000, 10, 9000]
            write(memory, 3, 1005)
            write(memory, 3, 1015)
        assert memory["looks"] == 0
        assert noted.passages == {
            "f": [Passage(n, n + 1, n + 2, Direction.SENT, os.getpid(), 5) for n in (1005, 1015)]
        }


def test_of_more_than_are_kept_the_newest_are_read(memory: Any) -> None:
    memory["logs"][0]["tid"] = os.getpid()
    with passage_logs({"f": os.getpid()}) as logs, noting(logs, SAMPLING, 1) as noted:
        for number in range(KEPT + 7):
            write(memory, 0, number)
    assert [each.stamp for each in noted.passages["f"]] == [*range(8, KEPT + 7)]


def test_nothing_is_sampled_behind_an_error(memory: Any) -> None:
    with pytest.raises(KeyError), passage_logs({"f": os.getpid()}) as logs:  # noqa: SIM117
        with noting(logs, SAMPLING, 1):
            raise KeyError
    assert memory["looks"] == 0


@pytest.mark.usefixtures("memory")
def test_of_two_profilers_the_second_is_refused_until_the_first_has_ended() -> None:
    with (
        passage_logs({"source": os.getpid(), "sink": os.getpid()}),
        pytest.raises(UnisError, match=r"another `unis profile chain` follows"),
    ):
        PassageLog(os.getpid())
    PassageLog(os.getpid()).close()


def test_a_program_without_the_plug_in_is_told() -> None:
    with pytest.raises(UnisError, match=r"does not tell when it has packets.*plugin: false"):
        PassageLog(os.getpid())


def test_a_log_of_another_version_is_told(memory: Any) -> None:
    memory["version"] = 9
    with pytest.raises(UnisError, match="plug-in of this version"):
        PassageLog(os.getpid())


def test_a_process_that_is_gone_is_told() -> None:
    pid = os.fork()
    if not pid:
        ctypes.CDLL(None)._exit(0)
    os.waitpid(pid, 0)
    with pytest.raises(UnisError, match=f"cannot read when process {pid} has packets"):
        PassageLog(pid)


def test_a_file_that_may_shrink_is_not_read() -> None:
    file = os.memfd_create("unis_passages")
    os.ftruncate(file, ALL.itemsize)
    np.memmap(f"/proc/self/fd/{file}", ALL, mode="r+", shape=1)["version"] = 3
    try:
        with pytest.raises(UnisError, match="does not tell when it has packets"):
            PassageLog(os.getpid())
    finally:
        os.close(file)


@pytest.mark.parametrize("written", [0, 4, 5 + KEPT, 2**63, 2**64 - 1])
def test_whatever_a_program_writes_is_read(memory: Any, written: int) -> None:
    memory["logs"][1]["tid"] = -(2**31)
    memory["logs"][0]["tid"] = os.getpid()
    memory["logs"][0]["written"] = 5
    with passage_logs({"f": os.getpid()}) as logs, noting(logs, SAMPLING, 1) as noted:
        memory["logs"][0]["passages"]["kind"] = 7
        write(memory, 0, 2**64 - 3)
        memory["logs"][0]["written"] = written
    assert len(noted.passages["f"]) <= 1


def test_what_the_writer_overwrites_meanwhile_is_left_out(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory["logs"][0]["tid"] = os.getpid()
    with passage_logs({"f": os.getpid()}) as logs, noting(logs, SAMPLING, 1) as noted:
        for number in range(KEPT):
            write(memory, 0, number)

        class SeenTwice(dict[str, Any]):
            """A log whose writer goes on after the first look."""

            def __getitem__(self, name: str) -> Any:
                value = memory["logs"][0][name].copy()
                if name == "passages":
                    for number in range(KEPT, KEPT + 5):
                        write(memory, 0, number)
                return value

        monkeypatch.setattr(logs["f"], "_all", {"looks": 0, "logs": [SeenTwice()]})
        monkeypatch.setattr(logs["f"], "_read", [0])
    monkeypatch.undo()
    assert [each.stamp for each in noted.passages["f"]] == [*range(6, KEPT)]


def test_of_a_program_that_dies_meanwhile_nothing_is_believed(memory: Any) -> None:
    pid = os.fork()
    if not pid:
        signal.pause()
        ctypes.CDLL(None)._exit(0)
    memory["logs"][0]["tid"] = pid
    with passage_logs({"f": pid}) as logs, noting(logs, SAMPLING, 1) as noted:
        try:
            assert logs["f"].threads == [pid]
            before = logs["f"].is_over
            write(memory, 0, 1005)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        assert logs["f"].threads == []
        assert (before, logs["f"].is_over) == (False, True)
    assert noted.passages["f"] == []
