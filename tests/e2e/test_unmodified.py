"""Programs of other people, without a changed line, are members of chains."""

import itertools
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, macswap
from tests.e2e.test_goals import has_latencies
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered
from tests.e2e.third_party import SLOWLY, a_skeleton, a_testpmd, an_l3fwd, third_party
from unis import built
from unis.bench.third_party import CHAINS
from unis.runtime.directory import run_directory


def test_a_chain_of_testpmd_comes_up_delivers_and_goes_down(machine: Machine) -> None:
    """Its file states no cost: the scheduler finds it."""
    third_party("dpdk-testpmd")
    example = built.clone() / "examples" / "unmodified.yaml"
    said = machine.unis("up", str(example), "--name", machine.name, "--detach")
    assert "running under policy unis" in said
    first = machine.ps()
    assert_delivers_more_than(machine, delivered(first) + 100_000)
    for function in machine.ps()["stats"]["functions"]:
        assert function["cost_ns"] > 0
        assert function["switched_in"] > 0
    assert_whole(machine.exact_account())
    shown = machine.unis("ps")
    assert machine.name in shown
    (run,) = [it for it in json.loads(machine.unis("ps", "--json")) if it["name"] == machine.name]
    assert {"first", "second", "third"} <= set(first["functions"])
    assert run["functions"]
    machine.down()
    machine.assert_clean()
    measured = machine.unis("estimate", str(example), "--no-cache", "--sizes", "64")
    assert "first has a link to another function" in measured
    assert all(f"{name}: " in measured for name in first["functions"])


def test_two_programs_of_different_people_s_hands_are_one_chain(machine: Machine) -> None:
    """A thread that only serves a console is none that is scheduled."""
    machine.up(machine.chain_file({"pmd": a_testpmd(), "basic": a_skeleton()}, traffic=SLOWLY))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    assert_whole(machine.exact_account())


def in_the_background(machine: Machine, program: Path) -> str:
    """A script that starts the program so, and ends."""
    script = machine.directory / f"{program.name}-in-the-background"
    script.write_text(f'#!/bin/sh\nexec 3<&0\n{program} "$@" <&3 3<&- &\n')
    script.chmod(0o755)
    return str(script)


def test_programs_that_want_a_terminal_or_go_into_the_background(machine: Machine) -> None:
    first, second = a_testpmd(terminal=True, stdin="start\n"), a_testpmd(restart="on-failure")
    first["command"] = [word for word in first["command"] if word != "--auto-start"] + ["-i"]
    second["command"][0] = in_the_background(machine, third_party("dpdk-testpmd"))
    third = macswap(program=in_the_background(machine, built.functions_directory() / "macswap"))
    functions = {"first": first, "second": second, "third": third}
    machine.up(machine.chain_file(functions, traffic=SLOWLY))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    assert_whole(machine.exact_account())
    assert str(Path(f"/proc/{machine.pid_of('first')}/fd/0").readlink()).startswith("/dev/pts/")
    before = machine.pid_of("second")
    for name, program in (("second", "dpdk-testpmd"), ("third", "macswap")):
        assert Path(f"/proc/{machine.pid_of(name)}/comm").read_text().strip() == program
    os.kill(before, signal.SIGKILL)
    machine.wait_for(lambda: machine.pid_of("second") != before, "it comes back")
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)


def test_a_program_that_ends_at_once_shows_its_last_words(machine: Machine) -> None:
    broken = ["sh", "-c", "echo not with these ports; exit 3", "{eal}"]
    functions = {"pmd": a_testpmd(), "broken": {"command": broken, "cpu": 1, "cost_ns": 60}}
    said = machine.unis("up", str(machine.chain_file(functions)), "--detach", code=1)
    assert "function broken" in said
    assert "exited with code 3" in said
    assert "not with these ports" in said


def test_what_a_program_has_in_hand_is_not_taken_for_dropped(machine: Machine) -> None:
    """This one keeps packets back for up to 200 ms, and then sends them: longer than it takes the
    links to be empty.
    """
    pmd = a_testpmd("noisy", "--noisy-tx-sw-buffer-size=512", "--noisy-tx-sw-buffer-flushtime=200")
    machine.up(machine.chain_file({"pmd": pmd}, traffic={"rate": "0.02Mpps"}))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 5_000)
    account = machine.exact_account()
    assert_whole(account)
    assert account["dropped_by_function"] == account["in_flight"] == 0


ROUTED = {"chain": {"path": ["pmd", "router"], "match": [{"dst": "198.18.1.0/24"}]}}


def test_a_router_that_insists_on_checksum_offloads(machine: Machine) -> None:
    router = an_l3fwd(offloads=["rx-checksum"])
    functions = {"pmd": a_testpmd(), "router": router}
    machine.up(machine.chain_file(functions, chains=ROUTED, traffic=SLOWLY))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    account = machine.exact_account()
    assert_whole(account)
    assert account["dropped_by_function"] == 0


def test_a_router_with_a_send_queue_for_each_lcore(machine: Machine) -> None:
    """It receives by one queue a port. What is for port 1 leaves by the second queue there."""
    router = an_l3fwd(offloads=["rx-checksum"], lcores=2, queues={"rx": 1, "tx": 2})
    router["command"][-1] = "--config=(0,0,{lcore1}),(1,0,{lcore0})"
    pmd = a_testpmd("macswap", "--rxq=2", "--txq=1", queues={"rx": 2, "tx": 1})
    functions = {"pmd": pmd, "router": router}
    machine.up(machine.chain_file(functions, chains=ROUTED, traffic=SLOWLY))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    assert_whole(machine.exact_account())


def test_two_pipelines_of_a_program_that_insists_on_long_frames(machine: Machine) -> None:
    """A firewall and a router in two threads of `ip_pipeline`, with a queue between them."""
    (pipelines,) = (one for one in CHAINS["ip_pipeline"] if one.rings)
    for file in pipelines.files:
        shutil.copy(built.clone() / "unis" / "bench" / "data" / file, machine.directory)
    third_party(pipelines.program)
    functions = {"pmd": a_testpmd(), "pipelines": {**pipelines.function(), "cpu": 1}}
    machine.up(machine.chain_file(functions, traffic=SLOWLY))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    assert_whole(machine.exact_account())


def test_one_that_does_not_get_them_is_told_of_the_key(machine: Machine) -> None:
    file = machine.chain_file({"pmd": a_testpmd(), "router": an_l3fwd()}, chains=ROUTED)
    said = machine.unis("up", str(file), "--detach", code=1)
    assert "function router" in said
    assert "offloads: [rx-checksum]" in said


def on_rings(*names: str) -> list[Json]:
    """The links that lead to a chain's functions, as rings."""
    return [
        {"from": before, "to": name, "kind": "ring"}
        for before, name in itertools.pairwise(("ingress", *names))
    ]


def test_several_testpmd_are_secondary_processes_of_one_group(machine: Machine) -> None:
    """It configures and starts no port as a secondary, and looks for a packet pool by its name."""
    functions = {name: a_testpmd(restart="on-failure") for name in ("a", "b", "c")}
    machine.up(machine.chain_file(functions, links=on_rings(*functions)))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    account = machine.exact_account()
    assert_whole(account)
    assert account["dropped_by_function"] == account["in_flight"] == 0
    first = machine.ps()["functions"]["b"]
    machine.kill(first)
    machine.wait_for(lambda: machine.ps()["functions"].get("b", first) != first, "b is not back")
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    machine.down()
    machine.assert_clean()


MODES = {
    "5tswap": [],
    "csum": [],
    "noisy": ["--noisy-lkup-memory=8", "--noisy-lkup-num-reads=4", "--noisy-lkup-num-writes=2",
              "--noisy-lkup-num-reads-writes=2"],
}  # fmt: skip


@pytest.mark.parametrize("kind", ["memif", "ring"])
def test_ways_in_which_testpmd_forwards(machine: Machine, kind: str) -> None:
    """One that swaps addresses and ports, one that makes checksums, one that looks into memory."""
    functions = {
        f"pmd-{mode}": a_testpmd(mode, *words, cost_ns=100) for mode, words in MODES.items()
    }
    links = on_rings(*functions) if kind == "ring" else []
    machine.up(machine.chain_file(functions, links=links))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    assert_whole(machine.exact_account())
    for mode in MODES:
        log = run_directory(machine.name).function_log(f"pmd-{mode}").read_text()
        assert f"{mode} packet forwarding" in log


# Each lcore takes one port, or two; keepalive's main lcore takes none and is not to be the first.
ON_RINGS = {
    "l2fwd-jobstats": ["{eal}", "--", "-p", "3", "-q", "2", "-T", "0"],
    "l2fwd-keepalive": ["{eal}", "--main-lcore={lcore1}", "--", "-p", "3", "-q", "2", "-T", "0"],
}


@pytest.mark.parametrize("name", ON_RINGS)
def test_examples_of_dpdk_are_secondary_processes(machine: Machine, name: str) -> None:
    command = [str(third_party(name)), *ON_RINGS[name]]
    lcores = 2 if any("{lcore1}" in word for word in command) else 1
    basic: Json = {"command": command, "lcores": lcores, "cpu": 1, "cost_ns": 60}
    functions = {"basic": basic, "pmd": a_testpmd()}
    machine.up(machine.chain_file(functions, links=on_rings("basic"), traffic=SLOWLY))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    machine.wait_for(lambda: has_latencies(machine), "their payload says when packets came")
    assert_whole(machine.exact_account())


def test_a_field_of_mbufs_is_not_for_a_secondary_process(machine: Machine) -> None:
    basic = {"command": [str(third_party("rxtx_callbacks"))], "cpu": 1, "cost_ns": 60}
    file = machine.chain_file({"basic": basic}, links=on_rings("basic"))
    assert "Cannot register mbuf field" in machine.unis("up", str(file), "--detach", code=1)
    machine.up(machine.chain_file({"basic": basic}, traffic=SLOWLY))  # on memif it may
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)


def test_rings_and_memifs_ours_and_others_are_one_chain(machine: Machine) -> None:
    """This one configures its ports itself, from a pool of its own in the engine's group."""
    functions = {"basic": a_skeleton(), "ours": macswap(), "pmd": a_testpmd()}
    machine.up(machine.chain_file(functions, links=on_rings("basic"), traffic=SLOWLY))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    machine.wait_for(lambda: has_latencies(machine), "their payload says when packets came")
    assert_whole(machine.exact_account())
