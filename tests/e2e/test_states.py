"""The states of a function's time exclude one another, and are those that the kernel knows."""

import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.machine import Json, Machine, macswap
from tests.e2e.test_run import assert_delivers_more_than
from tests.e2e.test_veth import on_links
from tests.e2e.third_party import SLOWLY, a_testpmd

NEARLY_NOTHING: Json = {"rate": "20pps"}
KERNEL_S = ("other", "rr", "fifo")


class Spent(NamedTuple):
    """Shares of a window."""

    states: dict[str, float]
    elapsed: float
    ran: float  # by the kernel
    delayed: float  # likewise; it counts a wait when it ends


def spent(machine: Machine, seconds: float = 1.0) -> dict[str, Spent]:
    """By function."""
    before = machine.ps()["stats"]
    told = {f["name"]: schedstat(f) for f in before["functions"]}
    time.sleep(seconds)
    tells = {f["name"]: schedstat(f) for f in before["functions"]}
    now = machine.ps()["stats"]
    passed = now["time_ns"] - before["time_ns"]
    found = {}
    for was, function in zip(before["functions"], now["functions"], strict=True):
        grown = {key: (function["time"][key] - was["time"][key]) for key in was["time"]}
        assert min(grown.values()) >= 0, "counters only grow"
        elapsed = grown.pop("elapsed_ns")
        assert sum(grown.values()) == elapsed
        name = function["name"]
        at, ran, waited = (b - a for a, b in zip(told[name], tells[name], strict=True))
        states = {key.removesuffix("_ns"): ns / passed for key, ns in grown.items()}
        found[name] = Spent(states, elapsed / passed, ran / at, waited / at)
    return found


def schedstat(function: Json) -> tuple[int, int, int]:
    """The time, and what its thread ran and waited by then, ns, as the kernel says."""
    file = Path(f"/proc/{function['pid']}/task/{function['tid']}/schedstat")
    ran, waited, _ = map(int, file.read_text().split())
    return time.monotonic_ns(), ran, waited


def assert_agree(machine: Machine) -> dict[str, Spent]:
    """The engine and the kernel, on each function; their windows are not the same."""
    found = spent(machine)
    for name, function in found.items():
        assert function.elapsed == pytest.approx(1, abs=0.01), name
        states = function.states
        has_cpu = states["busy"] + states["spinning"]
        assert has_cpu == pytest.approx(function.ran, abs=0.1), (name, function)
    return found


CHAINS: dict[str, Json] = {
    "rings": {"functions": {name: macswap() for name in "abc"}},
    "memif": {"functions": {"a": macswap(), "b": a_testpmd(), "c": macswap()}},
    "kernel": {
        "functions": {name: macswap() for name in "ab"},
        "links": on_links("veth", "a", "b", driver="mmsg"),
    },
}


@pytest.mark.parametrize("chain", CHAINS)
def test_those_that_have_work_and_those_that_have_none(machine: Machine, chain: str) -> None:
    machine.up(machine.chain_file(**CHAINS[chain], traffic=SLOWLY))
    assert_delivers_more_than(machine, 1000)
    for name, function in assert_agree(machine).items():
        assert function.states["busy"] > 0, name
        assert function.states["blocked"] > 0, "it sleeps between packets"
        waited = function.states["run_delay"] + function.states["backpressured"]
        assert waited == pytest.approx(function.delayed, abs=0.1), name
    machine.unis("policy", "unis", "--controller", "signal")
    for name, function in assert_agree(machine).items():
        waited = function.states["run_delay"] + function.states["backpressured"]
        assert waited > 0, f"{name} is stopped while others have their turns"
    for policy in KERNEL_S:
        machine.unis("policy", policy)
        spent(machine, 0.2)  # the waits before are over
        for name, function in assert_agree(machine).items():
            assert function.states["blocked"] == 0, f"{name} polls"
            assert function.states["backpressured"] == 0, "nobody samples it"


@pytest.mark.parametrize("controller", ["handover", "priority", "signal"])
def test_those_without_traffic_are_blocked(machine: Machine, controller: str) -> None:
    functions = {name: macswap() for name in "abc"}
    machine.up(machine.chain_file(functions, traffic=NEARLY_NOTHING))
    machine.unis("policy", "unis", "--controller", controller)
    machine.wait_for(
        lambda: all(one.states["blocked"] > 0.5 for one in spent(machine, 0.5).values()),
        "they do not sleep",
    )
    assert_agree(machine)
