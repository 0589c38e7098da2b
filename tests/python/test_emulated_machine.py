"""What `make test-sriov` boots is put together right, and its comparison of frames can fail."""

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.machine.__main__ import Session
from tests.machine.frames import Exchange, Outcome, mac, run
from tests.machine.initramfs import Entry, archive, folder, modules, program
from tests.machine.lines import Message
from tests.machine.machine import Booted

SOURCE, FIRST, LAST, BACK = (f"02:00:00:00:00:0{at}" for at in range(1, 5))


def entries(packed: bytes) -> list[Entry]:
    """What is in an archive, read as the kernel does."""
    found: list[Entry] = []
    at = 0
    while True:
        assert packed[at : at + 6] == b"070701"
        fields = [int(packed[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        name = packed[at + 110 : at + 110 + fields[11] - 1].decode()
        if name == "TRAILER!!!":
            return found
        content = (at + 110 + fields[11] + 3) // 4 * 4
        at = (content + fields[6] + 3) // 4 * 4
        found.append(Entry(name, fields[1], packed[content : content + fields[6]]))


@pytest.mark.parametrize("size", range(5))
def test_an_archive_is_read_as_it_was_written(size: int) -> None:
    written = [folder("a"), program("a/file", b"12345"[:size]), program("other", b"content")]
    assert entries(archive(written)) == written


def a_kernel(where: Path, needs: dict[str, str], built_in: str = "") -> Path:
    for name, needed in needs.items():
        (where / f"{name}.ko").write_bytes(b"ELF\0license=GPL\0depends=" + needed.encode() + b"\0")
    (where / "modules.builtin").write_text(
        "".join(f"kernel/{name}.ko\n" for name in built_in.split())
    )
    return where


def test_a_module_comes_behind_what_it_needs(tmp_path: Path) -> None:
    needs = {"igb": "dca,i2c-algo-bit", "dca": "", "i2c-algo-bit": "", "vfio-pci": "vfio,irqbypass",
             "vfio": "irqbypass", "irqbypass": "", "unwanted": ""}  # fmt: skip
    kernel = a_kernel(tmp_path, needs, built_in="af-packet")
    names = [module.name for module in modules(kernel, ["vfio_pci", "igb", "af_packet", "vfio"])]
    assert names == ["irqbypass", "vfio", "vfio_pci", "dca", "i2c_algo_bit", "igb"]


def test_a_module_that_the_kernel_lacks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="igbvf"):
        modules(a_kernel(tmp_path, {"igb": ""}), ["igbvf"])


def rewritten(frame: bytes) -> bytes:
    """As the last program of a chain sends it."""
    return mac(BACK) + mac(LAST) + frame[12:]


def through(
    chain: Callable[[int, bytes], list[bytes]], count: int = 300, seconds: float = 0.5
) -> Outcome:
    """What an exchange says of a chain that makes of the Nth frame these."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def forward() -> None:
        number = -1
        while frame := its.recv(2000):
            for each in chain(number, frame):
                its.send(each)
            number += 1

    with ours, its:
        ours.setblocking(False)
        thread = threading.Thread(target=forward)
        thread.start()
        outcome = run(Exchange(7, count, SOURCE, FIRST, LAST, BACK, seconds), ours, ours)
        ours.send(b"")
        thread.join()
    return outcome


def test_frames_that_come_as_they_must_are_exact() -> None:
    outcome = through(lambda _, frame: [rewritten(frame)])
    outcome.assert_exact(300)
    assert outcome.probes == 1


Make = Callable[[int, bytes], list[bytes]]
WRONG: dict[str, tuple[Make, str]] = {
    "twice": (lambda at, frame: [rewritten(frame)] * (1 + (at == 41)), "41 came behind frame 41"),
    "unchanged": (lambda at, frame: [frame if at == 41 else rewritten(frame)], "the addresses"),
    "shorter": (lambda at, frame: [rewritten(frame[: -1 if at == 41 else 2000])], "other content"),
    "another byte": (
        lambda at, frame: [rewritten(frame[:30] + b"??" + frame[32:] if at == 41 else frame)],
        "frame 41 of",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_frame_that_is_wrong_is_seen(what: str) -> None:
    chain, complaint = WRONG[what]
    outcome = through(chain)
    assert complaint in outcome.wrong[0]
    with pytest.raises(AssertionError):
        outcome.assert_in_order(300)


@pytest.mark.parametrize("gone", [range(41, 42), range(299, 300), range(100, 250), range(300)])
def test_frames_that_are_lost_are_counted(gone: range) -> None:
    outcome = through(lambda at, frame: [rewritten(frame)] if at not in gone else [], seconds=1.5)
    outcome.assert_in_order(300 if gone != range(300) else outcome.sent)
    assert outcome.lost == outcome.sent - outcome.received >= min(len(gone), 64)
    with pytest.raises(AssertionError):
        outcome.assert_exact(300)


def test_frames_of_others_are_not_ours() -> None:
    other = bytes(12) + b"\x08\x00" + bytes(60)
    through(lambda _, frame: [other, rewritten(frame), b"short"]).assert_exact(300)


def test_a_way_that_does_not_open_is_said() -> None:
    outcome = through(lambda *_: [])
    assert (outcome.sent, outcome.wrong) == (0, ["no frame came through within 0.5 s"])


@pytest.mark.parametrize(("outcome", "code", "good"), [
    ("passed", 0, True), ("passed", 3, False), ("failed", 1, False), (None, 0, False),
])  # fmt: skip
def test_it_is_good_only_if_all_tests_were_run_and_passed(
    outcome: str | None, code: int, good: bool
) -> None:
    test: Message = {
        "what": "test",
        "test": "x",
        "outcome": outcome,
        "seconds": 1,
        "facts": [],
        "words": "",
    }
    said = [*([test] if outcome else []), {"what": "end", "code": code}]
    machine = SimpleNamespace(read_lines=lambda *_: [json.dumps(one).encode() for one in said])
    session = Session(cast("Booted", machine))
    session.follow(1)
    assert session.good is good
