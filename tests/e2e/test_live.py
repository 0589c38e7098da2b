"""A run loses functions, gets them back and changes, while the chains that stay lose no packet."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, machine_in, macswap
from tests.e2e.test_run import CAPTURE, assert_whole
from tests.e2e.third_party import a_testpmd, third_party
from unis.runtime.directory import run_directory

# Slow enough that the rings before a chain never fill, whoever else uses the machine.
TRAFFIC: Json = {"rate": "20kpps"}


def two_chains(machine: Machine, cost: str = "online", **more: Json) -> Path:
    """A web chain of a and b and a dns chain of c; `more` is of functions."""
    functions = {name: {**macswap(), **more.get(name, {})} for name in "abc"}
    chains: Json = {
        "web": {"match": [{"dst_port": 80}], "path": ["a", "b"], "ring": 8192},
        "dns": {"match": [{"dst_port": 53}], "path": ["c"], "ring": 8192},
    }
    scheduler = {"cost": cost}
    return machine.chain_file(functions, chains=chains, traffic=TRAFFIC, scheduler=scheduler)


def chain(machine: Machine, name: str) -> Json:
    chains: Json = {each["name"]: each for each in machine.ps()["stats"]["chains"]}
    found: Json = chains[name]
    return found


def assert_delivers(machine: Machine, *names: str) -> None:
    """From now on."""
    before = {name: chain(machine, name)["delivered"] for name in names}
    machine.wait_for(
        lambda: all(chain(machine, name)["delivered"] > before[name] + 100 for name in names),
        f"{names} deliver",
    )


def kill(machine: Machine, function: str) -> None:
    os.kill(machine.ps()["functions"][function], signal.SIGKILL)


def lost(machine: Machine, name: str) -> int:
    """Packets of a chain that did not come in; none may be lost inside."""
    account = machine.exact_account()
    assert_whole(account)
    assert account["dropped_egress_full"] + account["dropped_by_function"] == 0
    found = chain(machine, name)
    return int(found["dropped_ingress_full"]) + int(found["dropped_down"])


@pytest.fixture(scope="class")
def running(
    able: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Machine]:
    """Two chains, which every test leaves as it found them; b comes back when it dies."""
    with machine_in(tmp_path_factory.mktemp("live")) as machine:
        machine.up(two_chains(machine, b={"restart": "on-failure"}))
        yield machine


class TestWhileAnotherChainLosesNothing:
    def test_a_dead_function_stops_its_chain(self, running: Machine) -> None:
        assert_delivers(running, "web", "dns")
        kill(running, "a")
        running.wait_for(lambda: bool(chain(running, "web")["down"] == "a"), "web is down")
        assert_delivers(running, "dns")
        said = running.unis("ps", running.name)
        assert "chain web is down: a is not there" in said
        assert "was killed by signal 9" in said
        assert "down: a is not there" in running.unis("top", running.name, "--count", "1")
        assert lost(running, "dns") == 0
        assert lost(running, "web") > 0
        running.unis("apply", str(running.directory / "chain.yaml"))
        assert_delivers(running, "web", "dns")
        assert lost(running, "dns") == 0

    def test_a_function_comes_back(self, running: Machine) -> None:
        for deaths in (1, 2):
            assert_delivers(running, "web")
            kill(running, "b")
            running.wait_for(lambda: bool(chain(running, "web")["down"]), "it is seen")
            running.wait_for(lambda: not chain(running, "web")["down"], "it is back")
            state = run_directory(running.name).read()
            again = state.function("b") if state else None
            assert again
            assert again.restarts == deaths
        assert_delivers(running, "web", "dns")
        assert lost(running, "dns") == 0

    def test_a_chain_comes_and_goes(self, running: Machine) -> None:
        before, lost_before = running.ps()["functions"], lost(running, "web")
        file = running.directory / "chain.yaml"
        small = file.read_text()
        content: Json = json.loads(small)
        content["functions"]["d"] = macswap("heavy")
        ntp: Json = {"ntp": {"match": [{"dst_port": 123}], "path": ["d"]}}
        file.write_text(json.dumps({**content, "chains": {**ntp, **content["chains"]}}))
        running.unis("apply", str(file))
        assert_delivers(running, "ntp", "web", "dns")
        file.write_text(small)
        running.unis("apply", str(file))
        assert running.ps()["functions"] == before
        assert [each["name"] for each in running.ps()["stats"]["chains"]] == ["web", "dns"]
        assert lost(running, "web") == lost_before
        assert lost(running, "dns") == 0

    def test_an_apply_that_fails_leaves_the_run_as_it_was(self, running: Machine) -> None:
        lost_before = lost(running, "web")
        broken: Json = {"args": ["--cost", "nonsense"]}
        file = two_chains(running, b={"restart": "on-failure"}, c=broken)
        said = running.unis("apply", str(file), code=1)
        assert "nonsense" in said
        assert "the change was rolled back" in said
        assert_delivers(running, "web", "dns")
        assert lost(running, "web") == lost_before


def test_what_is_started_anew_and_what_is_only_set(machine: Machine) -> None:
    machine.up(two_chains(machine, "static"))
    before = machine.ps()["functions"]
    heavy = {"args": ["--cost", "heavy"], "cost_ns": 300}
    file = two_chains(machine, "static", c=heavy, a={"cost_ns": 70})
    machine.unis("apply", str(file))
    now = machine.ps()
    assert {name for name in now["functions"] if now["functions"][name] != before[name]} == {"c"}
    costs = {one["name"]: one["cost_ns"] for one in now["stats"]["functions"]}
    assert (costs["a"], costs["c"]) == (70, 300)
    assert_delivers(machine, "web", "dns")
    assert lost(machine, "web") == 0


def test_a_run_comes_again_when_its_engine_has_died(machine: Machine) -> None:
    functions = {name: macswap() for name in "ab"}
    file = machine.chain_file(functions, platform={"restart": "on-failure"})
    machine.up(file)
    first = machine.pid_of("unisd")
    machine.wait_for(lambda: machine.ps()["stats"]["account"]["delivered"] > 0, "it delivers")
    machine.kill(first)
    directory = run_directory(machine.name)

    def again() -> bool:
        state = directory.read()
        return (
            state is not None
            and state.phase == "running"
            and state.unisd is not None
            and (state.unisd.pid != first)
        )

    machine.wait_for(again, "it is brought up again")
    machine.wait_for(lambda: machine.ps()["stats"]["account"]["delivered"] > 0, "it delivers")
    assert "unisd died" in machine.unis("logs", machine.name, "unis")
    assert_whole(machine.exact_account())


def test_programs_of_others_come_back_over_memif(machine: Machine) -> None:
    """The second connects to the first, and to no other that takes its place: both come anew."""
    third_party("dpdk-testpmd")
    functions: Json = {"swap": macswap()}
    functions |= {name: a_testpmd(restart="on-failure") for name in ("first", "second")}
    chains: Json = {
        "edge": {"match": [{"dst_port": 80}], "path": ["first", "second"]},
        "dns": {"match": [{"dst_port": 53}], "path": ["swap"], "ring": 8192},
    }
    machine.up(machine.chain_file(functions, chains=chains, traffic=TRAFFIC))
    assert_delivers(machine, "edge", "dns")
    before = machine.ps()["functions"]
    kill(machine, "first")
    machine.wait_for(lambda: bool(chain(machine, "edge")["down"]), "it is seen")
    machine.wait_for(lambda: not chain(machine, "edge")["down"], "it is back")
    assert_delivers(machine, "edge", "dns")
    now = machine.ps()["functions"]
    assert {name for name in now if now[name] != before[name]} == {"first", "second"}
    assert chain(machine, "dns")["dropped_down"] == 0
    assert_whole(machine.exact_account())


def test_a_killed_function_for_which_nothing_comes_dies_too(machine: Machine) -> None:
    """Nobody gives it a turn, and those that have one spin before it for ever."""
    chains: Json = {
        "idle": {"match": [{"dst_port": 9}], "path": ["a"]},
        "busy": {"path": ["b"]},
    }
    traffic: Json = {"source": {"kind": "pcap", "file": str(CAPTURE)}}
    functions = {"a": macswap(), "b": macswap()}
    machine.up(machine.chain_file(functions, chains=chains, traffic=traffic))
    assert_delivers(machine, "busy")
    assert chain(machine, "idle")["offered"] == 0
    kill(machine, "a")
    machine.wait_for(lambda: bool(chain(machine, "idle")["down"] == "a"), "it does not die")
    assert_delivers(machine, "busy")


@pytest.mark.benchmark  # on a machine without other load
def test_settings_change_while_packets_come(machine: Machine) -> None:
    """The kernel schedules meanwhile, and a ring is full after 2 ms at this rate.

    Once at least nothing is lost: the source itself may be without its CPU for as long.
    """

    def with_turns_of(packets: int) -> Path:
        functions: dict[str, Json] = {name: macswap() for name in "abc"}
        scheduler: Json = {"quota": packets}
        return machine.chain_file(functions, traffic={"rate": "2Mpps"}, scheduler=scheduler)

    machine.up(with_turns_of(512))
    assert_delivers(machine, "chain")
    for change in range(20):
        before = machine.ps()["stats"]["account"]
        machine.unis("apply", str(with_turns_of(1024 if change % 2 == 0 else 512)))
        assert_delivers(machine, "chain")
        now = machine.ps()["stats"]["account"]
        if all(now[part] == before[part] for part in now if part.startswith("dropped")):
            break
    else:
        pytest.fail("each change lost packets")
    assert_whole(machine.exact_account())
