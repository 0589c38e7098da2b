"""Chains on kernel devices: what they drop is told, and none of them is left."""

import itertools
import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, macswap
from tests.e2e.test_idle import share_of_cpu
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered
from tests.e2e.third_party import a_testpmd
from unis import built
from unis.runtime.directory import run_directory

EXAMPLE = built.clone() / "examples" / "veth.yaml"


@pytest.mark.parametrize("end", ["down", "launcher"])
def test_packets_pass_are_accounted_for_and_no_device_stays(machine: Machine, end: str) -> None:
    machine.unis("up", str(EXAMPLE), "--name", machine.name, "--detach")
    state = run_directory(machine.name).read()
    assert state
    assert [kind for kind, _ in state.made] == ["veth"] * 4
    devices = [Path("/sys/class/net") / name for _, name in state.made]
    assert all(device.exists() for device in devices)
    machine.wait_for(
        lambda: int(machine.ps()["stats"]["account"]["delivered"]) > 10_000, "packets arrive"
    )
    account = {key: int(value) for key, value in machine.exact_account().items() if key != "doubt"}
    assert account["unaccounted"] == 0
    # The functions drop none: what does not arrive the kernel has counted as dropped.
    assert account["offered"] == account["delivered"] + account["dropped_on_links"]
    assert_ends_clean(machine, end, lambda: not any(device.exists() for device in devices))


def assert_ends_clean(machine: Machine, end: str, gone: Callable[[], bool]) -> None:
    """By `down`, or the death of the process called so; `gone`: whether the devices are."""
    if end == "down":
        machine.down()
    else:
        machine.kill(machine.pid_of(end))
        machine.wait_for(lambda: not machine.processes(), "processes are left")
    machine.wait_for(gone, "devices are left")
    machine.assert_clean()


def on_links(kind: str, *names: str, **keys: object) -> list[Json]:
    """The links of a chain, all of one kind."""
    ends = itertools.pairwise(("ingress", *names, "egress"))
    return [{"from": one, "to": other, "kind": kind, **keys} for one, other in ends]


on_veths = partial(on_links, "veth")


def devices_of(machine: Machine) -> list[Path]:
    state = run_directory(machine.name).read()
    assert state
    return [Path("/sys/class/net") / name for kind, name in state.made if kind == "veth"]


def kill_and_await(machine: Machine, function: str) -> None:
    """Until another process plays it."""
    before = machine.pid_of(function)
    machine.kill(before)
    machine.wait_for(
        lambda: bool(machine.ps()["functions"].get(function, before) != before), "it is not back"
    )


def assert_come_back(machine: Machine, victims: str) -> None:
    """Functions that are killed one after the other; what came meanwhile is counted."""
    dropped = 0
    for victim in victims:
        kill_and_await(machine, victim)
        assert_delivers_more_than(machine, delivered(machine.ps()) + 5000)
        account = machine.exact_account()
        assert_whole(account)
        assert account["dropped_down"] > dropped, victim
        assert account["in_flight"] == 0
        dropped = account["dropped_down"]


def test_functions_that_die_come_back_on_the_same_devices(machine: Machine) -> None:
    """The engine has the other end of a's first link and of c's last one, and of none of b's."""
    functions = {name: macswap(restart="on-failure") for name in "abc"}
    traffic = {"source": {"kind": "synthetic", "size": 64}, "rate": "50kpps"}
    machine.up(machine.chain_file(functions, links=on_veths("a", "b", "c"), traffic=traffic))
    devices = devices_of(machine)
    assert len(devices) == 4
    assert_delivers_more_than(machine, 1000)
    assert_come_back(machine, "abcabc")
    assert devices_of(machine) == devices
    machine.down()
    assert not any(device.exists() for device in devices)


def test_drops_that_nobody_misses_are_unaccounted(machine: Machine) -> None:
    """They are of frames of others, or counted twice: both is told."""
    machine.up(machine.chain_file({"a": macswap()}, links=on_veths("a")))
    assert_delivers_more_than(machine, 1000)
    assert_whole(machine.exact_account())
    taken = machine.pid_of("a")
    os.kill(taken, signal.SIGSTOP)
    machine.wait_for(lambda: is_full(machine), "its ring does not fill")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as other:
        other.setsockopt(263, 20, 1)  # SOL_PACKET, PACKET_QDISC_BYPASS: the engine does not see it
        other.bind((devices_of(machine)[0].name, 0))
        for _ in range(100):
            other.send(bytes(60))
    os.kill(taken, signal.SIGCONT)
    assert_delivers_more_than(machine, delivered(machine.ps()) + 1000)
    assert machine.exact_account()["unaccounted"] == -100


def is_full(machine: Machine) -> bool:
    """The engine has sent nothing for a while."""

    def offered() -> int:
        return int(machine.ps()["stats"]["account"]["offered"])

    before = offered()
    time.sleep(0.3)
    return offered() == before


def assert_lost_by_links_alone(account: Json) -> None:
    """By the kernel, or because the first one was full."""
    lost = int(account["offered"] - account["delivered"])
    assert lost == account["dropped_on_links"] + account["dropped_ingress_full"]


@pytest.mark.parametrize("batch", [1, 32])
def test_functions_on_net_mmsg_are_accounted_for_and_come_back(
    machine: Machine, batch: int
) -> None:
    """What waits the kernel alone knows: their sockets have no rings."""
    functions = {name: macswap(restart="on-failure") for name in "abc"}
    links = on_veths("a", "b", "c", driver="mmsg", batch=batch)
    traffic = {"source": {"kind": "synthetic", "size": 64}, "rate": "20kpps"}
    machine.up(machine.chain_file(functions, links=links, traffic=traffic))
    for victim in ("a", "b", "c"):
        assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
        account = machine.exact_account()
        assert_whole(account)
        assert account["in_flight"] == 0
        if victim == "a":  # nobody has died yet, with packets in its sockets
            assert_lost_by_links_alone(account)
        kill_and_await(machine, victim)
    assert_delivers_more_than(machine, delivered(machine.ps()) + 5000)
    assert_whole(machine.exact_account())


@pytest.mark.parametrize("driver", ["af_packet", "mmsg"])
def test_their_links_tell_what_functions_received_and_sent(machine: Machine, driver: str) -> None:
    """Between two looks of the platform's CPU some may be missed."""
    functions = {name: macswap() for name in "ab"}
    traffic = {"source": {"kind": "synthetic", "size": 64}, "rate": "5kpps"}
    file = machine.chain_file(functions, links=on_veths("a", "b", driver=driver), traffic=traffic)
    machine.up(file)
    assert_delivers_more_than(machine, 10_000)
    stats = machine.ps()["stats"]
    came = int(stats["account"]["offered"])
    for function in stats["functions"]:
        (path,) = function["paths"]
        assert path["received_known"]
        assert path["sent_known"]
        for counter in ("rx_packets", "tx_packets"):
            assert came * 0.7 < int(path[counter]) < came * 1.3


def test_functions_may_wait_for_packets_where_the_kernel_schedules(machine: Machine) -> None:
    """Others that poll have all of their CPU."""
    shares = {}
    for wait in (False, True):
        file = machine.chain_file(
            {name: macswap() for name in "ab"},
            links=on_veths("a", "b", driver="mmsg", wait=wait),
            traffic={"source": {"kind": "synthetic", "size": 64}, "rate": "1kpps"},
            scheduler={"policy": "other"},
        )
        machine.up(file)
        assert_delivers_more_than(machine, 1000)
        shares[wait] = share_of_cpu(machine)
        if wait:
            said = machine.unis("policy", "unis", machine.name, code=2)
            assert "has `wait`: under policy unis functions poll" in said
            machine.set_policy("batch")
            assert_delivers_more_than(machine, delivered(machine.ps()) + 1000)
        account = machine.exact_account()
        assert_whole(account)
        assert_lost_by_links_alone(account)
        machine.down()
    assert shares[True] < shares[False] / 3


def test_net_mmsg_and_net_af_packet_are_ends_of_one_chain(machine: Machine) -> None:
    """As fast as it goes: what the kernel drops, it drops between functions and before the sink."""
    functions = {name: macswap() for name in "ab"}
    links = on_veths("a", "b")
    links[1]["driver"] = "mmsg"
    traffic = {"source": {"kind": "synthetic", "size": "imix"}}
    machine.up(machine.chain_file(functions, links=links, traffic=traffic))
    assert_delivers_more_than(machine, 100_000)
    account = machine.exact_account()
    assert_whole(account)
    assert_lost_by_links_alone(account)


def test_a_veth_of_several_queues_loses_nothing_before_a_slow_program(machine: Machine) -> None:
    """The kernel chooses a queue by the flow."""
    pmd = a_testpmd("macswap", "--rxq=2", "--txq=2", queues=2)
    traffic = {"source": {"kind": "synthetic", "size": 64, "flows": 64}}  # as much as it takes
    machine.up(machine.chain_file({"pmd": pmd}, links=on_veths("pmd"), traffic=traffic))
    assert_delivers_more_than(machine, 100_000)

    def lost_so_far() -> int:
        account = machine.exact_account()
        assert_whole(account)
        lost = int(account["offered"] - account["delivered"])
        assert account["dropped_on_links"] == lost, "at the sink alone"
        return lost

    before = lost_so_far()
    (function,) = machine.ps()["stats"]["functions"]
    assert before <= int(function["paths"][0]["dropped_egress_full"]) <= lost_so_far()


def test_a_chain_that_runs_gets_a_veth_and_loses_it_again(machine: Machine) -> None:
    """The engine was started without one, and has an end of it."""
    functions = {name: macswap() for name in "ab"}
    traffic = {"source": {"kind": "synthetic", "size": 64}, "rate": "50kpps"}
    machine.up(machine.chain_file(functions, traffic=traffic))
    assert_delivers_more_than(machine, 1000)
    engine = machine.ps()["unisd"]
    for links in (on_veths("a")[:1], []):
        machine.unis("apply", str(machine.chain_file(functions, links=links, traffic=traffic)))
        assert len(devices_of(machine)) == len(links)
        assert_delivers_more_than(machine, delivered(machine.ps()) + 5000)
        assert_whole(machine.exact_account())
    assert machine.ps()["unisd"] == engine
