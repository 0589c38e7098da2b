"""Goals on the latency of a chain."""

import time

from tests.e2e.machine import Machine, macswap
from unis.engine.client import EngineClient
from unis.engine.histogram import Latency
from unis.runtime.directory import run_directory

_SECONDS = 1.0  # that latencies are gathered, of hundreds of thousands of packets at least


def p95_us(machine: Machine, **chain: object) -> float:
    """At full load, of three functions; brought up for this."""
    functions = {name: macswap() for name in ("a", "b", "c")}
    machine.up(machine.chain_file(functions, chains={"chain": {"path": list(functions), **chain}}))
    with EngineClient(run_directory(machine.name).socket) as client:
        time.sleep(_SECONDS)
        latency = Latency([client.stats(latency=True).chains[0].latency]).percentile_us(95)
    shown = machine.unis("ps", machine.name)
    assert ("(goal 200 µs)" in shown) == ("slo" in chain)
    machine.down()
    assert latency is not None
    return latency


def test_a_goal_shortens_the_queues(machine: Machine) -> None:
    # The costs that the file states are more than they are, so the goal is one that can be met.
    goal = p95_us(machine, slo={"p95_latency": "200us"})
    assert goal < p95_us(machine) / 2


def test_a_goal_that_cannot_be_met_is_refused_with_what_can(machine: Machine) -> None:
    functions = {name: macswap() for name in ("a", "b", "c")}
    chains = {"chain": {"path": list(functions), "slo": {"p95_latency": "1us"}}}
    said = machine.unis("up", str(machine.chain_file(functions, chains=chains)), code=2)
    assert "a p95 latency of 1us cannot be met: about" in said
    machine.assert_clean()
