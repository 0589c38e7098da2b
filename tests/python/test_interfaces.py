"""Interfaces of the host as source and sink."""

import errno
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from unittest.mock import MagicMock, Mock

import pytest
from pyroute2 import IPRoute, NetlinkError
from pyroute2.ethtool.ioctl import IoctlEthtool

from tests.e2e.attached import namespace
from tests.python.planned import planned, small
from unis.links import devices, namespaces
from unis.runtime import interfaces
from unis.runtime.doctor import kernel
from unis.runtime.doctor.finding import Level
from unis.runtime.errors import LaunchError
from unis.runtime.interfaces import look_at

Look = Callable[..., list[str]]
OURS = "unis00000000a"


def on(*ends: str) -> dict[str, object]:
    source, sink = ({"kind": "interface", "interface": name} for name in ends)
    return small(traffic={"source": source, "sink": sink})


def test_they_are_ports_of_net_mmsg_which_the_engine_loads() -> None:
    plan = planned(on("eth1", "eth2"))
    traffic = plan.deploy({}, "").traffic
    assert traffic.port.device.startswith("net_mmsg_eth1,iface=eth1,")
    assert traffic.sink_device.startswith("net_mmsg_eth2,iface=eth2,")
    argv = plan.engine.argv
    assert "--ports" in argv
    assert argv[argv.index("--driver") + 1].endswith("mmsg.so")
    assert plan.traffic.interfaces == ["eth1", "eth2"]
    assert "--driver" not in planned(small()).engine.argv


def test_one_interface_is_one_port_both_ways() -> None:
    plan = planned(on("eth1", "eth1"))
    traffic = plan.deploy({}, "").traffic
    assert traffic.port.device == traffic.sink_device
    assert plan.traffic.interfaces == ["eth1"]


@pytest.fixture
def looked() -> Iterator[Look]:
    """What is said of an interface after some `ip` commands in a namespace of its own."""
    with namespace(("eth1", "far")) as name:

        def look(*commands: str, interface: str = "eth1") -> list[str]:
            for command in commands:
                subprocess.run(["ip", "-n", name, *command.split()], check=True)
            return namespaces.inside(name, lambda: list(look_at([interface])))

        yield look


@pytest.mark.system
def test_an_interface_without_address_is_taken_as_it_is(looked: Look) -> None:
    assert looked() == []


@pytest.mark.system
def test_an_address_is_told_with_what_ends_it(looked: Look) -> None:
    (remark,) = looked("addr add 192.0.2.1/24 dev eth1")
    assert "eth1 has the address 192.0.2.1, so the host answers" in remark
    assert "`ip addr flush dev eth1`" in remark


def switch_on(*features: str) -> list[str]:
    """Those of eth1 of this namespace."""
    with closing(IoctlEthtool("eth1")) as kernel:
        there = kernel.get_features()
        for feature in features:
            there[feature] = True
        kernel.set_features(there)
    return list(look_at(["eth1"]))


@pytest.mark.system
def test_offloads_that_join_packets_are_told_with_what_ends_it() -> None:
    with namespace(("eth1", "far")) as name:
        (remark,) = namespaces.inside(name, lambda: switch_on("rx-gro"))
    assert "eth1 joins received packets (gro), and those that get too long" in remark
    assert "`ethtool -K eth1 gro off`" in remark


def test_each_offload_has_the_name_that_ethtool_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    there = MagicMock(is_active=lambda feature: feature != "rx-gro")
    there.__contains__.return_value = True
    monkeypatch.setattr(IoctlEthtool, "get_features", lambda _: there)
    assert interfaces._joining("lo") == ["lro", "rx-gro-hw"]


def test_what_the_kernel_refuses_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyroute2 has errors of its own."""
    refused = Mock(side_effect=NetlinkError(errno.EPERM))
    for call in ("link_lookup", "get_addr"):
        monkeypatch.setattr(IPRoute, call, refused, raising=False)
    with pytest.raises(LaunchError, match="cannot look at interface eth1: Operation not permitted"):
        list(look_at(["eth1"]))
    assert kernel.host_interfaces().found == "Operation not permitted"


@pytest.mark.system
def test_the_doctor_names_those_that_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with namespace(("eth1", "far"), ("eth2", "there")) as name:
        for words in ("addr add 192.0.2.1/24 dev eth1", "link set eth2 down"):
            subprocess.run(["ip", "-n", name, *words.split()], check=True)
        found = namespaces.inside(name, kernel.host_interfaces)
        assert (found.level, found.found) == (Level.OK, "ready: eth1 (has an address), far, there")
        monkeypatch.setattr(interfaces, "usable", list)
        assert kernel.host_interfaces().mend == "ip link set NAME up"


@pytest.mark.system
@pytest.mark.parametrize(
    ("commands", "interface", "why"),
    [
        ([], "eth9", "there is no interface eth9 here: `ip link`"),
        (["link set eth1 down"], "eth1", "it is down; `ip link set eth1 up`"),
        (["link add name br0 type bridge", "link set eth1 master br0"], "eth1",
         "it is a port of br0, which gets what comes there; .*`ip link set eth1 nomaster`"),
        ([], "lo", "it is the loopback device"),
        ([f"link add name {OURS} index {devices.index_of(OURS)} type veth"], OURS,
         "it is a device of UNiS"),
    ],
)  # fmt: skip
def test_what_cannot_be_source_or_sink(
    looked: Look, commands: list[str], interface: str, why: str
) -> None:
    with pytest.raises(LaunchError, match=why):
        looked(*commands, interface=interface)
