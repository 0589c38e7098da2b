"""Runs `unis-sim`: a Scenario in, a SimResult out, as protobuf's JSON."""

import subprocess
from dataclasses import dataclass

from google.protobuf import json_format

from unis import built
from unis.engine import names
from unis.engine.histogram import Latency
from unis.simulate.scenario import ScenarioError
from unis.v1 import simulator_pb2 as pb

_SECONDS = 300  # of real time: for what no scenario takes


def simulate(scenario: pb.Scenario) -> pb.SimResult:
    """The result of one run; the same for the same scenario. ScenarioError if it is refused."""
    try:
        done = subprocess.run(
            [built.simulator()],
            input=json_format.MessageToJson(scenario).encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ScenarioError(
            f"the simulator has not ended after {_SECONDS} s: simulate fewer --seconds"
        ) from None
    if done.returncode != 0:
        raise ScenarioError(done.stderr.decode(errors="replace").strip() or "unis-sim failed")
    return json_format.Parse(done.stdout, pb.SimResult())


@dataclass(frozen=True)
class SimulationSummary:
    """What a simulated policy did, over all chains."""

    policy: str
    mpps: float
    offered_mpps: float
    dropped_pps: float
    switches_per_second: float
    latency: Latency

    @classmethod
    def of(cls, result: pb.SimResult) -> "SimulationSummary":
        """Rates from the counters of a run."""
        seconds = result.duration_ns / 1e9
        dropped = sum(
            chain.dropped_ingress_full + chain.dropped_egress_full + chain.dropped_by_function
            for chain in result.chains
        )
        return cls(
            policy=names.policy_name(result.policy),
            mpps=sum(chain.delivered for chain in result.chains) / seconds / 1e6,
            offered_mpps=sum(chain.offered for chain in result.chains) / seconds / 1e6,
            dropped_pps=dropped / seconds,
            switches_per_second=result.switches / seconds,
            latency=Latency(chain.latency for chain in result.chains),
        )
