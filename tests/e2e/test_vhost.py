"""Chains on vhost-user: every packet is accounted for, and who dies comes back alone."""

from functools import partial
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, macswap
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered
from tests.e2e.test_veth import assert_come_back, assert_ends_clean, on_links
from tests.e2e.third_party import SLOWLY, a_skeleton, a_testpmd, third_party
from unis import built

EXAMPLE = built.clone() / "examples" / "vhost.yaml"

on_vhosts = partial(on_links, "vhost")


@pytest.mark.parametrize("end", ["down", "launcher", "unisd"])
def test_packets_pass_and_are_accounted_for(machine: Machine, end: str) -> None:
    third_party("dpdk-testpmd")
    machine.unis("up", str(EXAMPLE), "--name", machine.name, "--detach")
    assert_delivers_more_than(machine, delivered(machine.ps()) + 100_000)
    for function in machine.ps()["stats"]["functions"]:
        assert function["cost_ns"] > 0
        assert all(path["received_known"] and path["sent_known"] for path in function["paths"])
    assert_whole(machine.exact_account())
    folder = Path("/run/unis") / machine.name
    assert_ends_clean(machine, end, lambda: not folder.exists())


def test_whoever_dies_comes_back_alone(machine: Machine) -> None:
    """Driver of the engine's and device of the next, driver of both, and the one between them."""
    functions = {name: macswap(restart="on-failure") for name in "abc"}
    links = on_vhosts("a", "b", "c")
    machine.up(machine.chain_file(functions, links=links, traffic=SLOWLY))
    assert_delivers_more_than(machine, 1000)
    others = {name: machine.pid_of(name) for name in "ac"}
    assert_come_back(machine, "b")
    assert {name: machine.pid_of(name) for name in "ac"} == others
    assert_come_back(machine, "acb")
    assert_whole(machine.exact_account())


def test_unmodified_programs_are_driver_and_device(machine: Machine) -> None:
    functions = {"pmd": a_testpmd(), "basic": a_skeleton(), "own": macswap()}
    links = on_vhosts("pmd", "basic", "own")
    machine.up(machine.chain_file(functions, links=links, traffic=SLOWLY))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    assert_whole(machine.exact_account())


def test_functions_of_another_user_have_such_ports(machine: Machine) -> None:
    functions = {name: macswap(user="nobody") for name in "ab"}
    machine.up(machine.chain_file(functions, links=on_vhosts("a", "b"), traffic=SLOWLY))
    assert_delivers_more_than(machine, 1000)
    assert_whole(machine.exact_account())


def test_it_is_of_one_chain_with_rings_and_memifs(machine: Machine) -> None:
    functions = {name: macswap() for name in "abc"}
    links = [
        {"from": "ingress", "to": "a", "kind": "memif"},
        {"from": "a", "to": "b", "kind": "vhost"},
        {"from": "b", "to": "c", "kind": "ring"},
    ]
    machine.up(machine.chain_file(functions, links=links, traffic=SLOWLY))
    assert_delivers_more_than(machine, 1000)
    assert_whole(machine.exact_account())
