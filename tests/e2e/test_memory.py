"""The engine's hugepages are there from its start, and suffice."""

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, macswap
from unis.runtime.directory import run_directory

_PAGE_MB = 2


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
    """Once each left some 7 MB: after 16 of them the engine had to take more pages."""
    chains = {  # the run goes on by the second one
        "one": {"match": [{"dst_port": 80}], "path": ["a", "b"]},
        "two": {"path": ["c"]},
    }
    machine.up(machine.chain_file(dict.fromkeys("abc", macswap()), chains=chains))
    pages = _pages(machine)
    for _ in range(24):
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
