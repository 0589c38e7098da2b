"""The engine's hugepages are there from its start, and suffice."""

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, macswap
from unis.runtime.directory import run_directory

_PAGE_MB = 2
_CHAINS = {
    "one": {"match": [{"dst_port": 80}], "path": ["a", "b"]},
    "two": {"path": ["c"]},
}


def test_functions_come_again_without_asking_one_that_is_stopped_for_memory(
    machine: Machine,
) -> None:
    """To every page more all must agree; after 5 s DPDK takes it back, and unisd may crash."""
    function = macswap(restart="on-failure")
    chains = {
        "one": {"match": [{"dst_port": 80}], "path": ["a", "b"]},
        "two": {"match": [{"dst_port": 53}], "path": ["c"]},
    }
    machine.up(machine.chain_file(dict.fromkeys("abc", function), chains=chains))
    before = machine.ps()
    pages = _pages(machine)
    state = run_directory(machine.name).read()
    assert state
    assert len(pages) * _PAGE_MB == state.hugepages_mb
    os.kill(before["functions"]["c"], signal.SIGSTOP)
    for name in "ab":
        machine.kill(before["functions"][name])
    machine.wait_for(lambda: _came_again(machine, before["functions"]), "they come again")
    os.kill(before["functions"]["c"], signal.SIGCONT)
    assert machine.ps()["unisd"] == before["unisd"]
    assert _pages(machine) == pages


@pytest.mark.long
def test_functions_that_are_killed_again_and_again_leave_no_memory(machine: Machine) -> None:
    """Once each left a packet memory of some 7 MB. Pages that the engine has at its start hide what
    24 of them leave, up to some 4 MB each.
    """
    machine.up(machine.chain_file(dict.fromkeys("abc", macswap()), chains=_CHAINS))
    _assert_leaves_no_memory(machine, deaths=24)


def test_a_router_that_is_killed_again_and_again_leaves_no_table(machine: Machine) -> None:
    """Its table takes 64 MB: the engine would have to take pages after a few deaths."""
    (machine.directory / "routes.txt").write_text(
        "10.0.0.0/8 02:00:00:00:00:01 02:00:00:00:00:02\n"
    )
    router = {"program": "router", "args": ["--routes", "routes.txt"], "cpu": 1, "cost_ns": 50}
    functions = {**dict.fromkeys("ac", macswap()), "b": router}
    machine.up(machine.chain_file(functions, chains=_CHAINS))
    _assert_leaves_no_memory(machine, deaths=6)


def _assert_leaves_no_memory(machine: Machine, deaths: int) -> None:
    """Where function b dies and is started again, and the run goes on by the second chain."""
    pages = _pages(machine)
    for _ in range(deaths):
        machine.kill(machine.pid_of("b"))
        machine.wait_for(lambda: _is_down(machine), "b is missed")
        machine.unis("apply", str(machine.directory / "chain.yaml"))
    assert not _is_down(machine)
    assert _pages(machine) == pages


def _is_down(machine: Machine) -> bool:
    return bool(machine.ps()["stats"]["chains"][0]["down"])


def _pages(machine: Machine) -> list[Path]:
    return sorted(Path("/dev/hugepages").glob(f"unis-{machine.name}map_*"))


def _came_again(machine: Machine, before: dict[str, int]) -> bool:
    run = machine.ps()
    chains = {chain["name"]: chain["down"] for chain in run["stats"]["chains"]}
    return not chains["one"] and all(run["functions"][name] != before[name] for name in "ab")
