"""Programs that somebody else started are scheduled, and given back as they were found."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.attached import Foreign, circle, polls, started_by_hand
from tests.e2e.machine import UNIS, Machine
from tests.e2e.pages import follow
from unis import built
from unis.runtime.directory import run_directory

Json = dict[str, Any]
_BOTH_WAYS = (
    *("--ingress", "memif:0", "--egress", "memif:1"),
    *("--ingress", "memif:1", "--egress", "memif:0"),
)
_PAGE = built.clone() / "docs" / "attach.md"


@pytest.fixture(scope="module")
def functions(
    able: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[list[Foreign]]:
    """Of all tests behind the first that has them, whose CPU they use: they stand last."""
    with circle(tmp_path_factory.mktemp("circle"), "first", "second", "third") as started:
        yield started


def attach(machine: Machine, one: Foreign, *ends: str, code: int = 0) -> str:
    return machine.unis(
        *("attach", "--name", machine.name, "--pid", str(one.pid), "--as", one.name),
        *("--cpu", "1", *ends),
        code=code,
    )


def received(machine: Machine) -> dict[str, int]:
    """By function."""
    return {
        one["name"]: sum(int(path["rx_packets"]) for path in one["paths"])
        for one in machine.ps()["stats"]["functions"]
    }


def goes_on(machine: Machine, *names: str) -> None:
    """Till each has received what it cannot have had before."""
    before = received(machine)
    machine.wait_for(
        lambda: all(received(machine)[name] > before[name] + 10_000 for name in names),
        f"{names} do not go on",
    )


def adopted(machine: Machine, *names: str) -> None:
    """Till another unisd has them."""
    log = run_directory(machine.name).event_log
    sentence = f"unisd has adopted {', '.join(names)}"
    machine.wait_for(lambda: sentence in log.read_text(), "nobody adopts them")


def test_those_that_die_are_dropped_and_the_others_go_on(machine: Machine) -> None:
    with (
        circle(machine.directory, "one", "two") as left,
        circle(machine.directory, "three", "four") as right,
    ):
        before = left[0].threads()
        for function in (*left, *right):
            attach(machine, function, *_BOTH_WAYS, "--cost-ns", "60")
        # Both before the launcher looks: killing one is often enough for that, over memif.
        launcher = machine.ps()["launcher"]["pid"]
        os.kill(launcher, signal.SIGSTOP)
        try:
            for function in right:
                function.process.kill()
                function.process.wait()
        finally:
            os.kill(launcher, signal.SIGCONT)

        def attached() -> list[str]:
            return [one["name"] for one in machine.ps()["stats"]["functions"]]

        machine.wait_for(lambda: attached() == ["one", "two"], "they are still there")
        goes_on(machine, "one", "two")
        machine.kill(machine.ps()["launcher"]["pid"])  # now the guard gives them back
        machine.wait_for(lambda: left[0].threads() == before, "they are not given back")
        assert left[0].process.poll() is left[1].process.poll() is None


def test_over_rings_of_another_group(machine: Machine) -> None:
    rings = ["--vdev=net_ring0", "--vdev=net_ring1"]
    group = f"other{os.getpid()}"
    with started_by_hand(group, machine.directory, *rings) as one:
        one.say("start tx_first 8")
        machine.wait_for(lambda: polls(one), "it does not poll")
        before = one.threads()
        files = sorted(Path("/var/run/dpdk", group).iterdir())
        left, right = (f"ring:ETH_RXTX0_net_ring{at}" for at in (0, 1))
        refused = ["--ingress", left, "--egress", "ring:none", "--cost-ns", "50"]
        assert "there is no ring none in this" in attach(machine, one, *refused, code=2)
        attach(machine, one, *("--ingress", left, "--egress", right),
               *("--ingress", right, "--egress", left))  # fmt: skip
        goes_on(machine, group)
        machine.kill(machine.ps()["unisd"]["pid"])
        adopted(machine, group)
        goes_on(machine, group)
        machine.down()
        assert one.threads() == before
        assert sorted(Path("/var/run/dpdk", group).iterdir()) == files
        one.say("stop")
        one.say("quit")
        assert one.process.wait(20) == 0


def test_they_are_scheduled_and_returned_as_they_were(
    machine: Machine, functions: list[Foreign]
) -> None:
    before = [one.threads() for one in functions]
    attach(machine, functions[0], *_BOTH_WAYS)
    for one in functions[1:]:
        attach(machine, one, *_BOTH_WAYS, "--cost-ns", "60")
    goes_on(machine, "first", "second", "third")
    run = machine.ps()
    # Which of its memifs is the first depends on who connected first.
    assert sorted(chain["functions"] for chain in run["stats"]["chains"]) == [
        ["first", "second", "third"],
        ["first", "third", "second"],
    ]
    assert sum(one["scheduling"].startswith("rr") for one in run["stats"]["functions"]) == 3
    assert any(one.threads() != was for one, was in zip(functions, before, strict=True))
    assert "exact" not in machine.unis("ps", machine.name), "their traffic is not ours to count"

    machine.unis("detach", "second", "--name", machine.name)
    assert functions[1].threads() == before[1]
    machine.unis("detach", "--pid", str(functions[0].pid))
    machine.unis("detach", "third")
    assert [one.threads() for one in functions] == before
    assert not run_directory(machine.name).path.exists(), "the last one ends the run"
    assert all(one.process.poll() is None for one in functions)


def test_another_unisd_adopts_what_the_dead_one_had(
    machine: Machine, functions: list[Foreign]
) -> None:
    before = [one.threads() for one in functions]
    for one in functions:
        attach(machine, one, *_BOTH_WAYS, "--cost-ns", "60")
    was = machine.ps()["unisd"]["pid"]
    os.kill(was, signal.SIGSTOP)  # the guard gives them back meanwhile
    machine.wait_for(
        lambda: all(not any(thread[1] for thread in one.threads().values()) for one in functions),
        "the guard does not give them back",
    )
    os.kill(was, signal.SIGKILL)

    adopted(machine, "first", "second", "third")
    assert machine.ps()["unisd"]["pid"] != was
    goes_on(machine, "first", "second", "third")
    assert all(one.process.poll() is None for one in functions)
    machine.down()
    assert [one.threads() for one in functions] == before


def test_the_page_says_what_works(machine: Machine, functions: list[Foreign]) -> None:
    """`docs/attach.md`; its programs are called as ours are."""
    try:
        assert "attached" in follow(_PAGE, machine.directory)
    except AssertionError:
        subprocess.run([UNIS, "down", "attached"], check=False)
        raise
    assert all(one.process.poll() is None for one in functions)
    left = [run["name"] for run in json.loads(machine.unis("ps", "--json"))]
    assert "attached" not in left
