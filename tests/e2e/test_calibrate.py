"""`unis calibrate` of the machine: what it prints, and that it leaves nothing."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.machine import Machine
from tests.e2e.pages import follow
from unis import built
from unis.measure.primitives import Primitives

GROUPS = ["memory", "call", "switch", "wake_up", "timer", "packet", "probe"]
DEVICES, FREE = Path("/sys/class/net"), Path("/sys/kernel/mm/hugepages/hugepages-2048kB")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def what_must_stay() -> tuple[list[str], int, set[int]]:
    """Devices, free hugepages, and our CPUs."""
    free = int((FREE / "free_hugepages").read_text())
    return sorted(device.name for device in DEVICES.iterdir()), free, os.sched_getaffinity(0)


def test_the_short_version_measures_each_group_and_leaves_nothing(machine: Machine) -> None:
    before = what_must_stay()
    said = machine.unis("--quiet", "calibrate", "--quick", "--json")
    found = json.loads(said)
    assert found["simulator"] is None
    primitives = Primitives.model_validate(found["machine"])
    assert list(dict.fromkeys(row.group for row in primitives.rows)) == GROUPS
    assert (primitives.cpu, primitives.other_cpu) == (max(os.sched_getaffinity(0)), 0)
    for row in primitives.rows:
        may_be_missing = row.group == "probe" or "yield" in row.labels.values()
        assert row.ns is not None or may_be_missing, row
        assert row.ns is None or row.group in ("memory", "probe") or row.ns.low_ns > 0, row
    # A batch of one call costs more than the same packets in few calls.
    one, many = (
        primitives.find("packet", "recvmmsg", frame_bytes=60, batch=batch) for batch in (1, 64)
    )
    assert one is not None
    assert many is not None
    assert one.ns is not None
    assert many.ns is not None
    assert one.ns.low_ns > many.ns.low_ns
    assert what_must_stay() == before
    assert not (machine.directory / "cache" / "unis" / "machine.json").exists()
    machine.assert_clean()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_it_ends_with_all_that_it_started(
    machine: Machine, number: signal.Signals, code: int
) -> None:
    before = what_must_stay()
    command = machine.start("calibrate", "--only", "machine")
    with command:
        machine.wait_for(lambda: children(command.pid) != [], "nothing is measured")
        (program,) = children(command.pid)
        command.send_signal(number)
        assert command.wait() == code
    machine.wait_for(lambda: not Path(f"/proc/{program}").exists(), "the program is left")
    machine.wait_for(lambda: what_must_stay() == before, "something is left")
    machine.assert_clean()


def test_the_page(machine: Machine) -> None:
    said = follow(built.clone() / "docs" / "calibration.md", machine.directory)
    assert "Switches: ns until the other one has the CPU" in said
    machine.assert_clean()
