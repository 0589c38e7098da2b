"""Links that are tap devices: what is made, and how a program opens it."""

import errno
import fcntl
import platform
import struct
import subprocess
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.needs import need_root
from tests.python.planned import planned, small
from unis.errors import UnisError
from unis.links import devices, modules, tap
from unis.links.kind import LinkPlan, LinkSpec, PortEnds
from unis.links.tap import Tap
from unis.links.veth import Veth, details_of

DEVICES = Path("/sys/class/net")
ENDS = [("ingress", "fw"), ("fw", "nat"), ("nat", "monitor"), ("monitor", "egress")]


def a_tap(folder: Path, *, engine: bool = False) -> LinkPlan:
    spec = LinkSpec("r" * 64, "c" * 24, 256, engine=engine, folder=folder)
    return LinkPlan("c.1", "tap", 256, Tap().details(spec, 0))


def there(link: LinkPlan) -> list[str]:
    return [name for name in dict.fromkeys(details_of(link).devices) if (DEVICES / name).exists()]


@pytest.fixture(params=[True, False], ids=["engine", "functions"])
def made(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LinkPlan]:
    need_root()
    link = a_tap(tmp_path, engine=request.param)
    try:
        Tap().make(link)
        yield link
    finally:
        assert Tap().remove(Tap().made(link)) == []
        assert there(link) == []


def test_with_the_engine_it_is_one_device_and_else_two(tmp_path: Path) -> None:
    shared, own = a_tap(tmp_path, engine=True), a_tap(tmp_path)
    assert len({*details_of(shared).devices}) == 1
    assert len({*details_of(own).devices}) == 2
    assert max(len(name) for name in details_of(own).devices) <= 15
    settings = shared.message().veth
    assert settings.device0 == settings.device1 == details_of(shared).devices[1]
    assert settings.engine_end
    spec = LinkSpec("r" * 64, "c" * 24, 256, engine=False, folder=tmp_path)
    assert not {*Veth().details(spec, 0).devices} & {*details_of(own).devices}


def test_a_port_has_the_same_address_at_each_start(tmp_path: Path) -> None:
    link = a_tap(tmp_path)
    ports = [Tap().device_arguments(PortEnds("p", 0, link, link, end)) for end in (0, 1)]
    assert ports[0]["iface"] == details_of(link).devices[0]
    assert ports[0] == Tap().device_arguments(PortEnds("q", 1, link, link, 0))
    assert ports[0]["mac"] != ports[1]["mac"]
    assert all(str(port["mac"]).startswith("02:") for port in ports), "of one machine alone"


def test_a_chain_may_begin_and_end_on_them() -> None:
    plan = planned(small(links=[{"from": a, "to": b, "kind": "tap"} for a, b in ENDS]))
    assert [link.kind for link in plan.links] == ["tap"] * 4
    assert [function.group for function in plan.functions] == ["own"] * 3
    assert all("net_admin" in function.capabilities for function in plan.functions)


@pytest.mark.parametrize(
    ("link", "function", "mend"),
    [
        ({"slots": 100}, {}, "power of two"),
        ({"slots": 8192}, {}, "4096"),
        ({"driver": "mmsg"}, {}, "driver"),
        ({}, {"queues": 2}, "has one queue each way: leave it out, or make its links kind: veth"),
        ({}, {"namespace": "own"}, "state namespace: host, or make its links kind: veth"),
    ],
)
def test_what_it_cannot_is_refused_with_the_mend(
    link: dict[str, object], function: dict[str, object], mend: str
) -> None:
    file = small(links=[{"from": "ingress", "to": "fw", "kind": "tap", **link}])
    file["functions"]["fw"].update(function)
    with pytest.raises((UnisError, ValidationError), match=mend):
        planned(file)


@pytest.mark.system
def test_a_device_stays_is_silent_and_has_the_slots(made: LinkPlan) -> None:
    for device in details_of(made).devices:
        assert int((DEVICES / device / "tun_flags").read_text(), 16) & 0x902 == 0x902
        assert (DEVICES / device / "tx_queue_len").read_text() == "256\n"
        assert (DEVICES / device / "ifalias").read_text() == "unis link c.1\n"
        assert int((DEVICES / device / "flags").read_text(), 16) & 0x1080 == 0x80


@pytest.mark.system
def test_what_a_program_writes_to_one_the_other_reads(tmp_path: Path) -> None:
    """Whatever the frame: to the address of a device, which a bridge would keep, or to a group."""
    need_root()
    link = a_tap(tmp_path)
    Tap().make(link)
    try:
        near, far = details_of(link).devices
        own = bytes.fromhex((DEVICES / near / "address").read_text().strip().replace(":", ""))
        with _open(near) as first, _open(far) as second:
            _await_carrier(near, far)
            for to in (own, b"\xff" * 6, bytes.fromhex("0180c2000001"), b"\x02" * 6):
                frame = to + b"\x02\0\0\0\0\1" + b"\x08\0" + bytes(46)
                second.write(frame)
                assert first.read(2000) == frame
                first.write(frame)
                assert second.read(2000) == frame
    finally:
        Tap().remove(Tap().made(link))


def _await_carrier(*devices: str) -> None:
    """The kernel lets packets through some time after a program has opened a device."""
    end = time.monotonic() + 30
    while any((DEVICES / device / "operstate").read_text() != "up\n" for device in devices):
        assert time.monotonic() < end, "a device has no carrier"
        time.sleep(0.01)


def _open(device: str) -> FileIO:
    """As net_tap does, but without the information in front of a packet."""
    file = Path("/dev/net/tun").open("r+b", buffering=0)  # noqa: SIM115
    fcntl.ioctl(file, 0x400454CA, struct.pack("16sH22x", device.encode(), 0x1102))
    return file


@pytest.mark.system
@pytest.mark.parametrize("after", range(2))
def test_what_is_half_made_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Both by who makes it, and by the name alone, as after SIGKILL."""
    need_root()
    link = a_tap(tmp_path)
    calls = 0

    def refuse(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(devices, "silence", refuse)
    with pytest.raises(UnisError, match=r"link c.1: cannot make .*: Permission denied$"):
        Tap().make(link)
    assert there(link) == []
    calls = 0
    with monkeypatch.context() as killed:
        killed.setattr(devices, "remove", lambda _devices: [])
        with pytest.raises(UnisError):
            Tap().make(link)
    assert there(link)
    assert Tap().remove(Tap().made(link)) == []
    assert there(link) == []


@pytest.mark.system
def test_somebody_elses_device_is_let_be(tmp_path: Path) -> None:
    need_root()
    link = a_tap(tmp_path, engine=True)
    name = details_of(link).devices[1]
    subprocess.run(["ip", "tuntap", "add", name, "mode", "tap", "multi_queue"], check=True)
    try:
        with pytest.raises(UnisError, match=f"`ip link show {name}` tells whose it is"):
            Tap().make(link)
        assert Tap().remove(Tap().made(link)) == []
        assert there(link) == [name]
    finally:
        subprocess.run(["ip", "link", "delete", name], check=True)


def test_a_machine_without_taps_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Tap().hindrance() == ""
    listed = tmp_path / platform.release() / "modules.builtin"
    listed.parent.mkdir()
    listed.write_text("kernel/net/sched/cls_u32.ko\nkernel/net/sched/sch_ingress.ko\n")
    with monkeypatch.context() as other:
        other.setattr(modules, "_LOADED", tmp_path)
        other.setattr(modules, "_LISTED", tmp_path)
        assert Tap().hindrance() == (
            "this kernel has no module act_mirred; use one with CONFIG_NET_ACT_MIRRED"
        )
    monkeypatch.setattr(tap, "_TUN", tmp_path / "none")
    assert Tap().hindrance() == (
        f"there is no {tmp_path / 'none'}; `modprobe tun`, or a kernel with CONFIG_TUN"
    )
