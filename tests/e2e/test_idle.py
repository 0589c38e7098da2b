"""Without traffic the CPU of the functions is idle, and the first packets wake them."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, macswap
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered
from tests.e2e.third_party import a_testpmd, third_party
from unis import built

# Longer than `idle_us` between two packets, as far as every pause of the machine allows.
NEARLY_NOTHING = {"rate": "20pps"}


def cpu_seconds(machine: Machine, names: str) -> float:
    """What the functions of these names, or all together, have had of their CPU."""
    functions = machine.ps()["stats"]["functions"]
    had = sum(int(f["cpu_time_ns"]) for f in functions if f["name"] in (names or f["name"]))
    return had / 1e9


def share_of_cpu(machine: Machine, names: str = "", seconds: float = 0.7) -> float:
    """That the functions of these names take, or all, of one CPU."""
    begin, before = time.monotonic(), cpu_seconds(machine, names)
    time.sleep(seconds)
    return (cpu_seconds(machine, names) - before) / (time.monotonic() - begin)


def platform_share(machine: Machine, seconds: float = 0.7) -> float:
    """Of one CPU that the engine's polling threads take: source, sink, bridges, scheduler."""

    def had() -> float:
        tasks = Path(f"/proc/{machine.ps()['unisd']['pid']}/task").iterdir()
        workers = [task for task in tasks if "rte-worker" in (task / "comm").read_text()]
        assert workers
        return sum(int((task / "schedstat").read_text().split()[0]) for task in workers) / 1e9

    begin, before = time.monotonic(), had()
    time.sleep(seconds)
    return (had() - before) / (time.monotonic() - begin)


def shares_of_time(machine: Machine, seconds: float = 0.5) -> dict[str, dict[str, float]]:
    """Of each function's states in the time that passes, by the engine's clock."""
    first = machine.ps()["stats"]
    time.sleep(seconds)
    now = machine.ps()["stats"]
    passed = int(now["time_ns"]) - int(first["time_ns"])
    return {
        after["name"]: {
            what: (int(after["time"].get(what, 0)) - int(before["time"].get(what, 0))) / passed
            for what in after["time"]
            if what != "elapsed_ns"
        }
        for before, after in zip(first["functions"], now["functions"], strict=True)
    }


def rests(machine: Machine) -> int:
    """How often the CPU of the functions went to rest, also between packets."""
    cores = machine.ps()["stats"]["cores"]
    return sum(int(core["rests"]) + int(core["wakes"]) for core in cores)


def test_functions_sleep_while_there_is_no_traffic(machine: Machine) -> None:
    functions = {"a": macswap(), "b": a_testpmd(), "c": macswap()}
    machine.up(machine.chain_file(functions, traffic=NEARLY_NOTHING))
    asleep = share_of_cpu(machine)
    assert platform_share(machine) < 1 / 3  # 5 ms after each packet it polls; otherwise it naps
    for controller in ("handover", "priority", "signal"):
        # Under other policies they poll on, and sleep again when the engine decides again.
        machine.unis("policy", "other")
        awake = share_of_cpu(machine)
        machine.unis("policy", "unis", "--controller", controller)
        before, rests_before = delivered(machine.ps()), rests(machine)
        assert max(asleep, share_of_cpu(machine)) < awake / 8, controller
        assert rests(machine) > rests_before, controller
        assert_delivers_more_than(machine, before)
    assert_whole(machine.exact_account())


def test_functions_without_traffic_sleep_while_others_work(machine: Machine) -> None:
    functions: dict[str, Json] = {name: macswap() for name in "abcdef"}
    chains = {
        "none": {"match": [{"dst_port": 9}], "path": ["d", "e", "f"]},
        "all": {"path": ["a", "b", "c"]},
    }
    capture = str(built.clone() / "tests/data/teams.pcap")
    traffic: Json = {"source": {"kind": "pcap", "file": capture}}
    machine.up(machine.chain_file(functions, chains=chains, traffic=traffic))
    before = delivered(machine.ps())
    asleep = share_of_cpu(machine, "def")
    assert asleep < share_of_cpu(machine, "abc") / 4
    assert_delivers_more_than(machine, before + 1_000_000)
    machine.unis("policy", "other")
    awake = share_of_cpu(machine, "def")
    machine.unis("policy", "unis")
    assert max(asleep, share_of_cpu(machine, "def")) < awake / 4
    assert_whole(machine.exact_account())


def test_functions_sleep_between_packets(machine: Machine) -> None:
    functions = {"a": macswap(), "b": a_testpmd(), "c": macswap()}
    machine.up(machine.chain_file(functions, traffic={"rate": "20kpps"}))
    before = delivered(machine.ps())
    asleep = share_of_cpu(machine)
    for name, spent in shares_of_time(machine).items():
        assert sum(spent.values()) == pytest.approx(1, abs=0.01), name
        assert spent["blocked_ns"] > 0, name
        assert spent["busy_ns"] > 0, name
    (core,) = machine.ps()["stats"]["cores"]
    assert int(core["wakes"]) > 100
    assert int(core["wake_delay_ns"]) > 0
    assert_delivers_more_than(machine, before + 10_000)
    machine.unis("policy", "other")
    assert asleep < share_of_cpu(machine) / 3
    machine.unis("policy", "unis")
    account = machine.exact_account()
    assert_whole(account)
    assert account["dropped_by_function"] == 0


@contextmanager
def veth_pair() -> Iterator[tuple[str, str]]:
    """Two devices of the kernel that nobody else sends on."""
    ends = f"ub{os.getpid()}a", f"ub{os.getpid()}b"
    run = partial(subprocess.run, check=True, timeout=20)
    run(["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]])
    try:
        for end in ends:
            Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
            run(["ip", "link", "set", end, "arp", "off", "multicast", "off", "up"])
        yield ends
    finally:
        run(["ip", "link", "delete", ends[0]])


def test_a_burst_after_a_silence_is_not_lost(machine: Machine) -> None:
    """2000 packets, which the source finds all at once."""
    to_all = bytes.fromhex("ffffffffffff 020000000001 0800 4500002e000000004011")
    with veth_pair() as (ours, source), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        device = f"net_af_packet0,iface={source},framecnt=8192,blocksz=4194304,framesz=2048"
        path = list("abc")
        machine.up(
            machine.chain_file(
                {name: macswap() for name in path},
                chains={"chain": {"path": path, "ring": 4096}},
                traffic={"source": {"kind": "port", "device": device}},
            )
        )
        unisd = machine.ps()["unisd"]["pid"]
        sender.bind((ours, 0))
        machine.wait_for(lambda: rests(machine) > 0, "functions do not sleep")
        for sent in (2000, 4000, 6000):
            time.sleep(1)
            os.kill(unisd, signal.SIGSTOP)
            try:
                for _ in range(2000):
                    sender.send(to_all.ljust(60, b"\0"))
            finally:
                os.kill(unisd, signal.SIGCONT)
            all_came = partial(has_been_offered, machine, sent)
            machine.wait_for(all_came, "packets are missing")
        account = machine.exact_account()
        assert_whole(account)
        assert account["offered"] == account["delivered"] == 6000
        machine.down()


def has_been_offered(machine: Machine, packets: int) -> bool:
    """So many, or more."""
    return int(machine.ps()["stats"]["account"]["offered"]) >= packets


def test_the_platform_s_cpu_is_shared_where_the_file_says_so(machine: Machine) -> None:
    functions: dict[str, Json] = {"a": macswap(), "b": {**macswap(), "may_sleep": False}}
    shares: dict[bool, float] = {}
    for share in (False, True):
        traffic: Json = {"rate": "20kpps"}
        file = machine.chain_file(functions, traffic=traffic, platform={"share": share})
        if shares:
            machine.unis("apply", str(file))
        else:
            machine.up(file)
        time.sleep(0.2)
        shares[share] = platform_share(machine)
        assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    assert shares[True] < 0.9 * shares[False]
    assert_whole(machine.exact_account())


def test_functions_poll_on_where_the_file_says_so(machine: Machine) -> None:
    functions: dict[str, Json] = {"a": macswap(), "b": {**macswap(), "may_sleep": False}}
    machine.up(machine.chain_file(functions, traffic=NEARLY_NOTHING))
    assert share_of_cpu(machine) > 0
    assert rests(machine) == 0
    assert "CPU 1 is never idle: b may not sleep" in machine.unis("ps")
    may_sleep: dict[str, Json] = {"a": macswap(), "b": macswap()}
    machine.unis("apply", str(machine.chain_file(may_sleep, traffic=NEARLY_NOTHING)))
    share_of_cpu(machine)
    before = rests(machine)
    assert before > 0
    polls: Json = {"idle_us": 0, "max_delay_us": 0}
    machine.unis(
        "apply", str(machine.chain_file(may_sleep, traffic=NEARLY_NOTHING, scheduler=polls))
    )
    share_of_cpu(machine, seconds=0.2)
    before = rests(machine)
    assert share_of_cpu(machine) > 0
    assert rests(machine) == before


def test_traffic_at_full_rate_hardly_rests(machine: Machine) -> None:
    """Only while the source has no CPU: of its 15,000 bursts hardly one is waited for."""
    machine.up(machine.chain_file({"a": macswap(), "b": macswap(), "c": macswap()}))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 1_000_000)
    before = rests(machine)
    assert_delivers_more_than(machine, delivered(machine.ps()) + 1_000_000)
    assert rests(machine) - before < 1000


def test_a_program_that_sends_by_a_timer_is_found_out(machine: Machine) -> None:
    """DPDK's l2fwd keeps a part of a burst for 100 µs, which it could not do asleep."""
    command = [str(third_party("l2fwd")), "{eal}", "--", "-p", "3", "-q", "2", "-T", "0"]
    l2fwd: Json = {"command": command, "cpu": 1, "cost_ns": 60}
    machine.up(machine.chain_file({"l2fwd": l2fwd}, traffic={"rate": "50pps"}))
    told = "CPU 1: functions poll, because l2fwd sends packets by a timer"
    machine.wait_for(lambda: told in machine.unis("ps"), "not found out")
    assert_whole(machine.exact_account())
