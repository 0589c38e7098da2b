"""Goals on the latency of a chain."""

import json

from tests.e2e.machine import Machine, macswap
from unis.engine.client import EngineClient
from unis.engine.histogram import Latency
from unis.runtime.directory import run_directory


def has_latencies(machine: Machine) -> bool:
    with EngineClient(run_directory(machine.name).socket) as client:
        (chain,) = client.stats(latency=True).chains
    return Latency([chain.latency]).percentile_us(95) is not None


def slots(machine: Machine, **chain: object) -> int:
    """Of the rings of a chain of three functions that was brought up and has delivered."""
    functions = {name: macswap() for name in ("a", "b", "c")}
    file = machine.chain_file(functions, chains={"chain": {"path": list(functions), **chain}})
    machine.up(file)
    machine.wait_for(lambda: has_latencies(machine), "no latency is measured")
    shown = machine.unis("ps", machine.name)
    assert ("(goal 200 µs)" in shown) == ("slo" in chain)
    machine.down()
    plan = json.loads(machine.unis("config", str(file), "--json"))
    (size,) = {link["slots"] for link in plan["links"]}
    return int(size)


def test_a_goal_shortens_the_queues(machine: Machine) -> None:
    # The costs that the file states are more than they are, so the goal is one that can be met.
    assert slots(machine, slo={"p95_latency": "200us"}) < slots(machine)


def test_a_goal_that_cannot_be_met_is_refused_with_what_can(machine: Machine) -> None:
    functions = {name: macswap() for name in ("a", "b", "c")}
    chains = {"chain": {"path": list(functions), "slo": {"p95_latency": "1us"}}}
    said = machine.unis("up", str(machine.chain_file(functions, chains=chains)), code=2)
    assert "a p95 latency of 1us cannot be met: about" in said
    machine.assert_clean()
