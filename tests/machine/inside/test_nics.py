"""UNiS takes virtual functions from the kernel's driver, and gives them back as they were: with
their driver, override, and an interface of the same name and MTU that is up.
"""

import os
import signal
import struct
import subprocess
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, machine_in, macswap
from tests.e2e.test_crash_points import assert_was_killed, up
from tests.machine.inside.cards import Card, Function, wait_for
from unis.nics import binding
from unis.nics.binding import Binding
from unis.runtime.directory import run_directory

_MTU = "1400"
_SET_CONTAINER, _SET_IOMMU, _GET_DEVICE = 0x3B68, 0x3B66, 0x3B6A  # VFIO_…
UP = [
    "unis.nics.binding:write#2",  # another driver is wanted, and the kernel's still has it
    "unis.nics.binding:write#3",  # no driver has it
]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_in(tmp_path) as machine:
        yield machine


@pytest.fixture
def functions(cards: list[Card]) -> list[Function]:
    """Two, whose interfaces are up; their driver is the kernel's."""
    made = cards[0].make(2, "igbvf")
    (Path("/sys/class/net") / made[0].interface / "mtu").write_text(_MTU)
    return made


def as_found(functions: list[Function]) -> list[Binding]:
    return [binding.found(function.address) for function in functions]


def chain(machine: Machine, functions: list[Function]) -> Path:
    """The first by its interface, the second by a short address."""
    names = (functions[0].interface, functions[1].address.removeprefix("0000:"))
    return machine.chain_file(
        {"swap": macswap()},
        traffic={
            end: {"kind": "port", "device": name}
            for end, name in zip(("source", "sink"), names, strict=True)
        },
        platform={"cpus": [0]},
    )


def test_they_go_to_vfio_while_the_chain_runs(machine: Machine, functions: list[Function]) -> None:
    before = as_found(functions)
    assert (before[0].mtu, before[0].override, before[0].flags & 1) == (int(_MTU), "igbvf", 1)
    file = chain(machine, functions)
    machine.up(file)
    assert [function.driver for function in functions] == ["vfio-pci"] * 2
    machine.down()
    assert as_found(functions) == before


@pytest.mark.parametrize("point", UP)
def test_a_launcher_that_is_killed_while_they_go_leaves_them_as_they_were(
    machine: Machine, functions: list[Function], point: str
) -> None:
    before = as_found(functions)
    assert up(machine, "launcher", point, chain(machine, functions)) == 1
    assert_was_killed(machine, "launcher")
    assert_come_back(machine, functions, before)


def test_unisd_is_killed_while_the_chain_runs(machine: Machine, functions: list[Function]) -> None:
    before = as_found(functions)
    machine.up(chain(machine, functions))
    machine.kill(machine.pid_of("unisd"))
    assert_come_back(machine, functions, before)


def test_a_launcher_is_killed_while_they_come_back(
    machine: Machine, functions: list[Function]
) -> None:
    before = as_found(functions)
    file = chain(machine, functions)
    assert up(machine, "launcher", "unis.nics.binding:write#7", file) == 0
    machine.unis("down", machine.name, codes=(0, 1))
    assert_was_killed(machine, "launcher")
    assert_come_back(machine, functions, before)


def test_ctrl_c_while_they_go(machine: Machine, functions: list[Function]) -> None:
    before = as_found(functions)
    launcher = machine.start("up", str(chain(machine, functions)))
    override = functions[0].device / "driver_override"
    wait_for(lambda: override.read_text() == "vfio-pci\n", "it does not begin", 60)
    launcher.send_signal(signal.SIGINT)
    said, _ = launcher.communicate(timeout=180)
    assert launcher.returncode == 130, said
    assert as_found(functions) == before


def test_where_nobody_is_left_the_next_command_gives_them_back(
    machine: Machine, functions: list[Function]
) -> None:
    before = as_found(functions)
    machine.up(chain(machine, functions))
    state = run_directory(machine.name).read()
    assert state
    assert state.guard
    machine.kill(state.guard.pid)
    machine.kill(state.launcher.pid)
    machine.unis("down", machine.name, codes=(0, 1))
    assert_come_back(machine, functions, before)


def assert_come_back(machine: Machine, functions: list[Function], before: list[Binding]) -> None:
    def undone() -> bool:
        state = run_directory(machine.name).read()
        return state is None or state.undone()

    wait_for(undone, "the run is not undone", 180)
    assert as_found(functions) == before
    machine.assert_clean()


def test_what_cannot_be_had_is_refused_and_nothing_is_changed(
    machine: Machine, functions: list[Function], held: Callable[[Function], None]
) -> None:
    free, taken = functions
    subprocess.run(["ip", "addr", "add", "192.0.2.1/24", "dev", free.interface], check=True)
    held(taken)
    before = as_found(functions)
    for device, why in (
        (free.address, "has the address 192.0.2.1"),
        (taken.address, "has it open; end that process"),
    ):
        file = machine.chain_file(
            {"swap": macswap()}, traffic={"source": {"kind": "port", "device": device}}
        )
        assert why in machine.unis("up", str(file), "--detach", code=2)
        assert as_found(functions) == before


@pytest.fixture
def held() -> Iterator[Callable[[Function], None]]:
    """Has this process open a virtual function, which its driver then does not let go."""
    opened: list[int] = []

    def hold(function: Function) -> None:
        function.bind("vfio-pci")
        number = (function.device / "iommu_group").resolve().name
        container, group = (os.open(f"/dev/vfio/{name}", os.O_RDWR) for name in ("vfio", number))
        ioctl(group, _SET_CONTAINER, struct.pack("i", container))
        ioctl(container, _SET_IOMMU, 1)  # of type 1
        opened.append(ioctl(group, _GET_DEVICE, bytearray(function.address.encode() + b"\0")))
        opened.extend((group, container))

    yield hold
    for descriptor in opened:
        os.close(descriptor)


@pytest.mark.short
def test_a_write_that_waits_for_a_program_is_given_up(
    functions: list[Function], held: Callable[[Function], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "SECONDS", 2.0)
    held(functions[0])
    (problem,) = binding.restore(Binding(functions[0].address, "igbvf", "vfio-pci"))
    assert "does not answer within 2 s" in problem
