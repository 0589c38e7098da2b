"""Every process of a run has the user and the capabilities that it was promised, and no others."""

import pwd
import socket
import stat
from pathlib import Path

from tests.e2e.machine import Machine, macswap
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered
from tests.e2e.third_party import SLOWLY, a_testpmd, third_party
from unis import built
from unis.runtime.directory import run_directory
from unis.runtime.doctor.kernel import needed
from unis.runtime.folders import folders_directory, port_plugin

NET_RAW, DAC_OVERRIDE, IPC_LOCK = 1 << 13, 1 << 1, 1 << 14


def status(thread: Path) -> dict[str, str]:
    """What the kernel says of a thread."""
    lines = (thread / "status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def assert_has(pid: int, user: str, capabilities: int) -> None:
    """In every thread: these capabilities, no way to more, and that user."""
    account = pwd.getpwnam(user)
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found = status(thread)
        assert {int(number) for number in found["Uid"].split()} == {account.pw_uid}
        assert {int(number) for number in found["Gid"].split()} == {account.pw_gid}
        for which in ("CapEff", "CapPrm", "CapBnd"):
            assert int(found[which], 16) == capabilities, (thread, which)
        assert found["NoNewPrivs"] == "1"


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.lstat().st_mode))


def test_each_process_has_what_it_was_promised(machine: Machine) -> None:
    third_party("dpdk-testpmd")
    pmd = {**a_testpmd(), "user": "nobody", "capabilities": ["net_raw"], "cost_ns": 100}
    machine.up(machine.chain_file({"pmd": pmd, "own": macswap()}, traffic=SLOWLY))
    run = machine.ps()
    assert_delivers_more_than(machine, delivered(run) + 10_000)
    assert_has(run["functions"]["pmd"], "nobody", NET_RAW)
    assert_has(run["functions"]["own"], "root", DAC_OVERRIDE | IPC_LOCK)
    for process in run["functions"].values():  # what its user may read, it has loaded
        assert str(port_plugin(machine.name)) in Path(f"/proc/{process}/maps").read_text()
    unisd = sum(1 << one.number for one in needed() if not one.ports)
    assert_has(run["unisd"]["pid"], "root", unisd)
    folder, directory = folders_directory() / f"{machine.name}.pmd", run_directory(machine.name)
    assert folder.owner() == "nobody"
    assert [mode(directory.path), mode(folder), mode(directory.links)] == ["0o700"] * 3
    sockets = [directory.socket, *folder.glob("*.sock")]
    assert [mode(path) for path in sockets] == ["0o600"] * 3
    assert_whole(machine.exact_account())
    machine.down()
    machine.assert_clean()
    assert not folder.exists()


def test_clients_that_come_and_leave_do_not_end_the_run(machine: Machine) -> None:
    """DPDK's memif server panics at the fourth or so."""
    third_party("dpdk-testpmd")
    pmd = {**a_testpmd(), "user": "nobody", "cost_ns": 100}
    machine.up(machine.chain_file({"pmd": pmd}, traffic=SLOWLY))
    place = folders_directory() / f"{machine.name}.pmd"
    for path in place.glob("*.sock"):
        for _ in range(8):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.settimeout(5)
                client.connect(str(path))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)


def test_a_packet_port_gets_what_it_needs(machine: Machine) -> None:
    """With a port as the sink unisd has more."""
    capture = machine.directory / "out.pcap"
    traffic = {
        "source": {"kind": "pcap", "file": str(built.clone() / "tests/data/quic.pcap")},
        "rate": "10kpps",
        "sink": {"kind": "port", "device": f"net_pcap0,tx_pcap={capture}"},
    }
    machine.up(machine.chain_file({"own": macswap()}, traffic=traffic))
    assert_has(machine.ps()["unisd"]["pid"], "root", sum(1 << one.number for one in needed()))
