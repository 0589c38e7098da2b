"""One contract for every kind of link, and for every kind of program."""

import itertools
from pathlib import Path

import pytest

from unis import links, workload
from unis.engine import names
from unis.engine.limits import broken, limit
from unis.links.kind import LinkKind, LinkPlan, LinkSpec, PortEnds, driver_missing
from unis.links.memif import Memif
from unis.nics.layout import NicPort, VfChoice
from unis.runtime.doctor import software
from unis.workload import ProgramKind, Start


def a_link(kind: LinkKind, slots: int) -> LinkPlan:
    pairs = list(NicPort("0000:01:00.0", "enp1s0f0", 8).rooms(2)) if kind.on_nics else []
    nic = VfChoice(pairs, {"0000:01:00.0": 8}) if pairs else None
    spec = LinkSpec("x", "c.1", slots, engine=True, folder=Path("/run/unis/x"), nic=nic)
    numbers = itertools.islice(kind.numbers(spec), 3, 4)
    link = LinkPlan("c.1", kind.name, slots, kind.details(spec, next(iter(numbers))))
    assert kind.matches(link, spec)
    return link


def test_there_is_a_module_for_every_kind_of_the_contract() -> None:
    assert list(links.KINDS) == names.links()


@pytest.mark.parametrize("kind", links.KINDS.values(), ids=lambda kind: kind.name)
def test_kind_of_link(kind: LinkKind) -> None:
    bound = limit("LinkConfig.slots")
    assert (bound.min or 0) <= kind.most_slots <= (bound.max or 0)
    for slots in (64, kind.default_slots or 2048, kind.most_slots):
        assert slots - 16 <= kind.capacity(slots) <= slots
        link = a_link(kind, slots)
        assert broken(link.message()) == []
        assert kind.memory_bytes(link) >= 0
        for end in (0, 1):
            device = kind.device(PortEnds("fw.0", 5, link, link, end))
            driver, *arguments = device.split(",")
            assert driver == (f"0000:01:11.{6 - 2 * end}" if kind.on_nics else f"{kind.driver}5")
            assert all(len(argument.split("=")) == 2 for argument in arguments)
            assert len({argument.split("=")[0] for argument in arguments}) == len(arguments)


def test_a_port_on_no_memif_is_a_mistake() -> None:
    ring = a_link(links.KINDS["ring"], 64)
    with pytest.raises(ValueError, match="is no memif"):
        links.KINDS["memif"].device(PortEnds("fw.0", 0, ring, ring))


@pytest.mark.parametrize("kind", workload.KINDS.values(), ids=lambda kind: kind.group)
def test_kind_of_program(kind: ProgramKind) -> None:
    devices = ["net_one0,a=b", "net_two0"]
    prefix = kind.file_prefix("run", "fw")
    start = Start(prefix, "7@3", [Path("/run/driver.so")], Path("/run/plugin.so"), devices)
    eal = kind.eal(start)
    assert eal[eal.index("--lcores") + 1] == "7@3"
    assert [word for word in eal if word.startswith("--vdev=")] == [
        f"--vdev={device}" for device in devices
    ]
    assert f"--file-prefix={prefix}" in eal
    assert "--no-telemetry" in eal
    loaded = [eal[at + 1] for at, word in enumerate(eal) if word == "-d"]
    assert "/run/driver.so" in loaded
    assert "/run/plugin.so" in loaded
    assert "--no-pci" in eal
    assert [link.name for link in links.KINDS.values() if kind.opens(link)].count(kind.link) == 1
    engine_of_another_run = "unis-run-fw"
    assert prefix != engine_of_another_run
    assert (prefix == "unis-run") == (kind.group == "engine")
    assert "--" not in eal


@pytest.mark.parametrize("kind", workload.KINDS.values(), ids=lambda kind: kind.group)
def test_a_port_on_a_pci_device_is_the_only_one_that_is_probed(kind: ProgramKind) -> None:
    devices = ["0000:01:10.0", "0000:01:10.2,a=1", "net_one0,a=b"]
    eal = kind.eal(Start("unis-run", "7@3", [], None, devices))
    assert [eal[at + 1] for at, word in enumerate(eal) if word == "-a"] == devices[:2]
    assert [word for word in eal if word.startswith("--vdev=")] == ["--vdev=net_one0,a=b"]
    assert "--no-pci" not in eal
    assert workload.order_problem(devices) == ""
    for other in ([*devices[2:], *devices[:2]], [devices[1], devices[0]]):
        assert "DPDK numbers ports on PCI devices first" in workload.order_problem(other)


def test_the_doctor_tells_what_a_kind_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert driver_missing("net_of_nobody").startswith("DPDK has no driver net_of_nobody here")
    lacking = Memif()
    monkeypatch.setattr(lacking, "lacks", lambda: "no cable")
    monkeypatch.setitem(links.KINDS, "lacking", lacking)
    assert [finding.found for finding in software.link_kinds()][-1:] == ["no cable"]
