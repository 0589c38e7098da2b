"""The example chains: each runs here, or says in a sentence why not."""

import os
from pathlib import Path

import pytest

from tests.e2e.machine import Machine
from tests.e2e.third_party import on_path
from unis import built

EXAMPLES = sorted((built.clone() / "examples").glob("*.yaml"))
ENOUGH_CPUS = {"two-cores": 3}
FETCHED = {
    "diamond": "dpdk-testpmd",
    "ovs": "ovs-vswitchd",
    "unmodified": "dpdk-testpmd",
    "sriov": "dpdk-testpmd",
    "unmodified-rings": "dpdk-testpmd",
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_runs_here_or_says_why_not(
    machine: Machine, example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program := FETCHED.get(example.stem):
        on_path(monkeypatch, program)
    needed = ENOUGH_CPUS.get(example.stem, 2)
    if len(os.sched_getaffinity(0)) < needed:
        told = machine.unis("up", str(example), "--name", machine.name, "--detach", code=2)
        assert "unis simulate" in told
        return
    if example.stem == "sriov" and not Path("/sys/class/net/enp1s0f0").exists():
        told = machine.unis("up", str(example), "--name", machine.name, "--detach", code=2)
        assert "there is no PCI device behind `enp1s0f0` here" in told
        return
    machine.unis("up", str(example), "--name", machine.name, "--detach")
    machine.wait_for(
        lambda: all(int(chain["delivered"]) > 0 for chain in machine.ps()["stats"]["chains"]),
        "every chain delivers",
    )
    assert machine.exact_account()["unaccounted"] == 0
