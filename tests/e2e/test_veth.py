"""A chain on kernel devices: what they drop is told, and none of them is left."""

from pathlib import Path

import pytest

from tests.e2e.machine import Machine
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
    if end == "down":
        machine.down()
    else:
        machine.kill(machine.pid_of(end))
        machine.wait_for(lambda: not machine.processes(), "processes are left")
    machine.wait_for(lambda: not any(device.exists() for device in devices), "devices are left")
    machine.assert_clean()
