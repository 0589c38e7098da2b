"""What links of kinds whose functions have drivers of their own have in common."""

from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, macswap
from tests.e2e.test_run import assert_delivers_more_than
from tests.e2e.test_veth import assert_come_back, on_links
from tests.e2e.test_xdp import assert_lost_by_the_kernel_alone
from unis.runtime.directory import run_directory

of_each_kind = pytest.mark.parametrize(("kind", "rate"), [("tap", "20kpps"), ("xdp", "30kpps")])


def traffic(rate: str) -> Json:
    return {"source": {"kind": "synthetic", "size": 64}, "rate": rate}


def devices_of(machine: Machine, kind: str) -> set[str]:
    state = run_directory(machine.name).read()
    assert state
    names = tuple(name for of, name in state.made if of == kind)
    return {file.name for file in Path("/sys/class/net").iterdir() if file.name.startswith(names)}


@pytest.mark.long
@of_each_kind
def test_functions_that_die_come_back_on_the_same_devices(
    machine: Machine, kind: str, rate: str
) -> None:
    """What brought packets to the one that was killed stays on its device until then."""
    functions = {name: macswap(restart="on-failure") for name in "abc"}
    links = on_links(kind, "a", "b", "c")
    machine.up(machine.chain_file(functions, links=links, traffic=traffic(rate)))
    devices = devices_of(machine, kind)
    assert_delivers_more_than(machine, 1000)
    assert_come_back(machine, "abcab")
    assert devices_of(machine, kind) == devices


@of_each_kind
def test_functions_of_another_user_have_such_ports(machine: Machine, kind: str, rate: str) -> None:
    functions = {"a": macswap(user="nobody"), "b": macswap()}
    links = on_links(kind, "a", "b")
    machine.up(machine.chain_file(functions, links=links, traffic=traffic(rate)))
    assert_delivers_more_than(machine, 1000)
    assert_lost_by_the_kernel_alone(machine.exact_account())


@of_each_kind
def test_it_is_of_one_chain_with_a_veth_and_a_memif(machine: Machine, kind: str, rate: str) -> None:
    functions = {name: macswap() for name in "abc"}
    links = [
        {"from": "ingress", "to": "a", "kind": "memif"},
        {"from": "a", "to": "b", "kind": kind},
        {"from": "b", "to": "c", "kind": "veth"},
        {"from": "c", "to": "egress", "kind": kind},
    ]
    machine.up(machine.chain_file(functions, links=links, traffic=traffic(rate)))
    assert_delivers_more_than(machine, 5000)
    assert_lost_by_the_kernel_alone(machine.exact_account())
