"""What the documentation says one should type works as it stands."""

import contextlib
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.machine import UNIS, Machine, macswap
from tests.e2e.pages import follow
from tests.e2e.third_party import third_party
from unis import built
from unis.engine.client import EngineError

_DOCS = built.clone() / "docs"


@pytest.fixture
def mine(machine: Machine) -> Iterator[Machine]:
    """The page calls its run so."""
    machine.name = "mine"
    yield machine
    machine.down()


def test_get_started_and_live_changes(machine: Machine) -> None:
    machine.name = "first"  # the page calls its run so
    said = follow(_DOCS / "get-started.md", machine.directory)
    assert "started anew  the links of its ports" in said, "apply tells what would change"
    assert "packets (exact)" in said, "account counts"
    machine.assert_clean()
    said = follow(_DOCS / "live-changes.md", machine.directory)  # which takes the file of this page
    assert "function  front  added" in said
    assert "down meanwhile: edge" in said
    assert "front" in said.partition("first: running")[2], "apply changes the run"
    machine.assert_clean()


def fetched_into(machine: Machine) -> None:
    """As in the clone."""
    fetched = machine.directory / "build" / "third-party"
    fetched.parent.mkdir(exist_ok=True)
    fetched.symlink_to(third_party("dpdk-testpmd").parent.parent)
    (machine.directory / "tools").symlink_to(built.clone() / "tools")


def test_an_existing_program(mine: Machine) -> None:
    fetched_into(mine)
    try:
        said = follow(_DOCS / "existing-program.md", mine.directory)
    finally:
        for words in ("link delete in0", "link delete out0", "netns delete outside"):
            subprocess.run(["ip", *words.split()], check=False, capture_output=True)
    assert "packets (exact): 1,000 offered" in said
    assert "found in0 and out0: attaching both ways" in said
    mine.assert_clean()


def test_bring_your_own(mine: Machine) -> None:
    fetched_into(mine)
    said = follow(_DOCS / "bring-your-own.md", mine.directory)
    assert "dpdk-testpmd" in said, "config shows the command line"
    assert "in flight" in said, "account counts"
    mine.assert_clean()


def test_kernel_devices(mine: Machine) -> None:
    said = follow(_DOCS / "kernel-devices.md", mine.directory)
    assert " delivered + " in said
    assert "unis-mine.nat" in said
    mine.assert_clean()


def test_containers(mine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(mine.directory / "cache"))
    mine.directory.chmod(0o755)
    said = follow(_DOCS / "containers.md", mine.directory)
    assert said.count(" delivered + ") >= 2
    assert "functions-image: macswap" in said
    mine.assert_clean()


def words_of(key: str, name: str) -> list[str]:
    """The command line of a line of the unit, for the instance called `name`."""
    unit = (_DOCS / "unis@.service").read_text()
    line = next(line for line in unit.splitlines() if line.startswith(f"{key}="))
    words = line.removeprefix(f"{key}=").removeprefix("-").replace("%i", name).split()
    assert words[0] == "/usr/local/bin/unis"
    return [UNIS, *words[1:]]


def delivers(machine: Machine) -> bool:
    """Also while there is no engine yet, or it has counted nothing."""
    with contextlib.suppress(AssertionError, EngineError):
        return bool(machine.ps()["stats"].get("account", {}).get("delivered", 0))
    return False


def test_the_unit_of_systemd(machine: Machine) -> None:
    """Its commands, as systemd calls them."""
    file = machine.chain_file({"a": macswap(), "b": macswap()})
    start = [word if word != f"/etc/unis/{machine.name}.yaml" else str(file)
             for word in words_of("ExecStart", machine.name)]  # fmt: skip
    with subprocess.Popen(start, stdin=subprocess.DEVNULL) as service:
        try:
            machine.wait_for(lambda: delivers(machine), "it delivers")
        finally:
            service.send_signal(signal.SIGTERM)
        service.wait(60)
    subprocess.run(words_of("ExecStopPost", machine.name), check=False, timeout=60)
    machine.assert_clean()
