"""Any DPDK program by its command line: EAL's arguments, lcores, links, and what it costs."""

import json
import os
import select
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.python.planned import EIGHT_CPUS, memifs_of, places, planned, program_of, small, told
from tests.python.strategies import Data, chain_files, scaled
from tests.python.test_plan import plan_or_none
from unis import built
from unis.chain.load import load
from unis.plan.model import FunctionPlan, Plan
from unis.plan.planner import make_plan
from unis.runtime.child import Command, start
from unis.runtime.costs import cost_key


def only(command: list[str], **more: object) -> FunctionPlan:
    """The plan of a chain of one function."""
    functions = {"fw": {"command": command, **more}}
    return planned(small(functions=functions, chains={"c": {"path": ["fw"]}})).function("fw")


def eal_of(function: FunctionPlan) -> list[str]:
    """EAL's arguments of a command that leaves their place to us."""
    words = list(function.argv)
    return words[: words.index("--")]


@pytest.mark.parametrize(
    ("words", "behind"),
    [
        ([], ["--"]),
        (["--own"], ["--", "--own"]),
        (["--log-level=5", "--", "--own"], ["--log-level=5", "--", "--own"]),
        (["--", "--own", "--", "more"], ["--", "--own", "--", "more"]),
    ],
)
def test_eal_s_arguments_go_before_the_program_s(words: list[str], behind: list[str]) -> None:
    eal = eal_of(only(["sh"]))
    assert "--proc-type=primary" in eal
    assert list(only(["sh", *words]).argv) == [*eal, *behind]


def test_eal_s_arguments_go_where_the_command_wants_them() -> None:
    eal = eal_of(only(["sh"]))
    function = only(["sh", "-c", "x", "{eal}", "--mine"])
    assert list(function.argv) == ["-c", "x", *eal, "--mine"]
    devices = [port.device for port in function.ports]
    words = ["--set", "vdev={vdev0}", "{vdev1}", "{file_prefix}", "{cpu}", "{lcores}",
             "(0,0,{lcore0})", "{plugin}", "{other}"]  # fmt: skip
    parts = ["--set", f"vdev={devices[0]}", devices[1], "unis-x.fw", "1", "0@1",
             "(0,0,0)", "/run/unis/x/plugin.so", "{other}"]  # fmt: skip
    assert list(only(["sh", *words]).argv) == parts


def test_offloads_are_handed_over_in_its_environment() -> None:
    assert only(["sh"]).env == {}
    with_them = only(["sh"], offloads=["rx-checksum"], env={"LANG": "C"})
    assert with_them.env == {"LANG": "C", "UNIS_OFFLOADS": "rx-checksum"}
    assert with_them.env != only(["sh"], env={"LANG": "C"}).env


@pytest.mark.parametrize(
    ("asked", "there", "env", "advised"),
    [
        ("e", "0", {}, True), ("e", "8", {}, True), ("200e", "0", {}, False),
        ("e", "0", {"UNIS_OFFLOADS": "rx-checksum"}, False),
    ],
)  # fmt: skip
def test_a_program_that_insists_on_checksums_is_told_of_the_key(
    tmp_path: Path, asked: str, there: str, env: dict[str, str], *, advised: bool
) -> None:
    words = f"requested Rx offloads 0x{asked} doesn't match Rx offloads capabilities 0x{there} in"
    command = Command(["/bin/sh", "-c", 'echo "$0"; exit 1', words], env=env)
    child = start("x", command, tmp_path / "log", "")
    child.process.wait()
    assert ("offloads: [rx-checksum]" in child.last_words()) == advised


def test_a_program_without_packet_buffers_for_its_sockets_is_told(tmp_path: Path) -> None:
    """Its last words may be others."""
    words = "echo 'eth_rx_queue_setup(): Failed to configure xdp socket'; seq 10; exit 1"
    child = start("x", Command(["/bin/sh", "-c", words]), tmp_path / "log", "")
    child.process.wait()
    assert "too few packet buffers: each port of net_af_xdp holds 2048" in child.last_words()


@pytest.mark.parametrize(
    ("words", "more", "place", "said"),
    [
        (["{lcore1}"], {}, "command", "{lcore1}: it has 1 lcore; add lcores: 2"),
        (["x={vdev2}"], {}, "command", "{vdev2}: it has 2 ports; they count from 0"),
        (["{lcores}"], {"offloads": ["rx-checksum"]}, "offloads", "`-d {plugin}`"),
        ([], {"offloads": ["rx-checksum"], "plugin": False}, "offloads", "plugin: false"),
        (["{plugin}"], {"plugin": False}, "plugin", "the command names {plugin}"),
        (["-l", "0-1", "--", "-x"], {}, "command", "-l is an argument of EAL that UNiS writes"),
        (["--file-prefix=x", "--"], {}, "command", "--file-prefix is an argument of EAL"),
    ],
)
def test_a_command_that_names_what_it_lacks_is_refused(
    words: list[str], more: dict[str, object], place: str, said: str
) -> None:
    functions = {"fw": {"command": ["sh", *words], **more}}
    (sentence,) = told(small(functions=functions, chains={"c": {"path": ["fw"]}}))
    assert sentence.startswith(f"('functions', 'fw', '{place}') ")
    assert said in sentence


@pytest.mark.parametrize(
    "words",
    [["-l", "1"], ["--vdev=x", "--", "-l", "1"], ["-l", "--", "1"], ["{lcores}", "-l", "1", "--"]],
)
def test_other_words_may_be_those_of_eal(words: list[str]) -> None:
    assert only(["sh", *words])


@pytest.mark.parametrize("words", [[], ["{eal}"], ["-d", "{plugin}", "{lcores}"]])
def test_offloads_are_taken_where_the_plugin_is_loaded(words: list[str]) -> None:
    assert "/run/unis/x/plugin.so" in only(["sh", *words], offloads=["rx-checksum"]).argv


def test_a_program_with_another_dpdk_is_spared_the_plugin() -> None:
    eal = eal_of(only(["sh"]))
    at = eal.index("-d")
    assert eal_of(only(["sh"], plugin=False)) == eal[:at] + eal[at + 2 :]


def test_dpdk_s_telemetry_is_off_unless_the_file_has_it_on() -> None:
    eal = eal_of(only(["sh"]))
    assert eal_of(only(["sh"], telemetry=True)) == [it for it in eal if it != "--no-telemetry"]
    assert "--no-telemetry" in eal


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ({"program": "sh"}, "a function on rings has none: let the link to `fw` state kind: memif"),
        ({"command": ["sh"], "user": "nobody"}, "has no socket that is known"),
        ({"command": ["sh"], "container": {}}, "has no socket that is known"),
    ],
)
def test_telemetry_is_refused_where_there_is_none(function: Data, said: str) -> None:
    functions = {"fw": {**function, "telemetry": True}}
    sentences = told(small(functions=functions, chains={"c": {"path": ["fw"]}}))
    assert [said in sentence for sentence in sentences].count(True) == 1, sentences


def test_a_command_is_on_memif_unless_the_file_says_otherwise() -> None:
    assert (only(["sh"]).group, len(only(["sh"]).ports)) == ("own", 2)
    functions = {"fw": {"command": ["sh"]}}
    ring = [{"from": "ingress", "to": "fw", "kind": "ring"}]
    plan = planned(small(functions=functions, chains={"c": {"path": ["fw"]}}, links=ring))
    assert plan.function("fw").group == "engine"
    assert "--proc-type=secondary" in eal_of(plan.function("fw"))


def test_a_command_on_rings_has_a_pair_of_ports_as_on_memif() -> None:
    """Most programs forward from a port to another; with one, many end at once."""
    ring = [{"from": "ingress", "to": "fw", "kind": "ring"}]
    functions = {"fw": {"command": ["sh"]}}
    plan = planned(small(functions=functions, chains={"c": {"path": ["fw"]}}, links=ring))
    first, second = plan.function("fw").ports
    assert (first.rx, first.tx) == (plan.chains[0].ingress, "")
    assert (second.rx, second.tx) == ("", plan.chains[0].egress)
    ours = planned(small())
    assert plan.hugepages_mb > ours.hugepages_mb, "it may make a pool of its own"


def test_its_first_lcore_is_beside_the_platform_and_the_others_on_its_cpu() -> None:
    assert only(["sh"], lcores=3).lcores == "0@0,1@1,2@1"
    assert only(["sh"]).lcores == "0@1"


def test_a_command_that_lacks_its_program_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    missing = {"fw": {"command": ["dpdk-testpmd"]}}
    (sentence,) = told(small(functions=missing, chains={"c": {"path": ["fw"]}}))
    assert "apt-get install dpdk-dev" in sentence
    assert "tools/third-party testpmd" in sentence
    commands = {"dpdk-testpmd": "tools/third-party testpmd", "x": "tools/third-party"}
    for name, wanted in commands.items():
        functions = {"fw": {"command": [f"build/third-party/bin/{name}"]}}
        sentences = told(small(functions=functions, chains={"c": {"path": ["fw"]}}))
        assert sentences == [
            f"('functions', 'fw', 'command') {name} is not fetched yet; run `{wanted}`"
        ]


def test_a_function_between_two_others_is_measured_alone_with_as_many_ports() -> None:
    functions = {name: {"command": ["sh", "{eal}"]} for name in ("a", "b")}
    chains = {
        "there": {"path": ["a", "b"], "match": [{"dst_port": 1}], "ring": 64},
        "back": {"reverse_of": "there"},
    }
    plan = planned(small(functions=functions, chains=chains, scheduler={"theta_min": 8}))
    assert plan.linked == {"a", "b"}
    for name in plan.linked:
        solo = plan.solo(name)
        (only_one,) = solo.functions
        assert (solo.name, only_one.name, solo.linked) == (plan.name, name, frozenset())
        assert all(memif.engine_end == "server" for memif in memifs_of(solo).values())
        assert len(only_one.ports) == len(plan.function(name).ports)
        # What is found there is what is looked for here.
        assert program_of(solo, name) == program_of(plan, name)
    assert not {"linked", "make_solo"} & plan.as_dict().keys()


def test_the_cost_of_a_command_is_kept_by_the_words_of_the_file() -> None:
    one, other = (only(["sh", "{eal}", word]) for word in ("--one", "--other"))
    assert cost_key(one, {64: 1}) != cost_key(other, {64: 1})


@settings(max_examples=scaled(120))
@given(chain_files())
def test_every_command_has_its_own_group_its_devices_and_an_open_input(data: Data) -> None:
    plan = plan_or_none(data)
    if plan is None:
        return
    rings = {link["to"] for link in data.get("links", []) if link.get("kind", "ring") == "ring"}
    for function in plan.functions:
        stated = data["functions"][function.name]
        lcores = function.lcores.split(",")
        assert len(lcores) == stated.get("lcores", 1)
        assert lcores[-1].endswith(f"@{function.cpu}")
        assert all(f"--vdev={port.device}" in function.argv for port in function.ports)
        assert (function.stdin is None) == ("command" not in stated)
        if "command" in stated:
            assert function.yield_every == 0
            assert (function.group == "engine") == (function.name in rings)


def test_its_input_has_what_the_file_says_and_stays_open(tmp_path: Path) -> None:
    script = "read first; echo $first; read more; echo it was closed"
    command = Command(["/bin/sh", "-c", script], stdin="hello\n")
    child = start("x", command, tmp_path / "log", "id")
    try:
        while "hello" not in (tmp_path / "log").read_text():
            child.check()
        with pytest.raises(TimeoutError):
            _wait(child.process.pid)
        assert "closed" not in (tmp_path / "log").read_text()
    finally:
        os.kill(child.process.pid, signal.SIGKILL)
        child.process.wait()


def _wait(pid: int) -> None:
    """Raises TimeoutError if the process is still there in a while."""
    poll = select.poll()
    descriptor = os.pidfd_open(pid)
    poll.register(descriptor, select.POLLIN)
    ended = poll.poll(200)
    os.close(descriptor)
    if not ended:
        raise TimeoutError


def test_the_example_says_no_cost_and_measures_each_alone(tmp_path: Path) -> None:
    program = tmp_path / "build" / "third-party" / "bin" / "dpdk-testpmd"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    example = tmp_path / "examples" / "unmodified.yaml"
    example.parent.mkdir()
    example.write_text((built.clone() / "examples" / "unmodified.yaml").read_text())
    plan: Plan = make_plan(load(example), EIGHT_CPUS, [], places)
    assert plan.linked == {"first", "second", "third"}
    assert [function.lcores for function in plan.functions] == ["0@0,1@1"] * 3
    assert json.dumps(plan.as_dict())
