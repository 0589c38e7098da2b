"""What a comparison of policies found, as build/demo/summary.json holds it."""

import platform
import shutil
import subprocess
from collections.abc import Sequence

from pydantic import BaseModel

from unis.bench.windows import Quartiles, Rounds, mpps, ratios
from unis.engine.histogram import Latency
from unis.launch.costs import cpu_model
from unis.v1 import engine_pb2 as pb

BASELINE = "cooperative"
_PERCENTILES = (5, 50, 95, 99)


class Drops(BaseModel):
    """Packets that were offered and not delivered, over all windows."""

    offered: int
    dropped: int
    per_second: float


class PolicySummary(BaseModel):
    """One policy over all its windows."""

    mpps: Quartiles
    mean_mpps: float  # with time slices longer than a window, the median says little
    ratio_to_cooperative: Quartiles | None  # of windows of the same round
    drops: Drops
    switches_per_second: float
    latency_us: dict[str, float | None]


class MachineSummary(BaseModel):
    """Where it was measured."""

    cpu_model: str
    cpus: int
    kernel: str
    dpdk: str


class Summary(BaseModel):
    """A comparison of policies."""

    policies: dict[str, PolicySummary]
    accounted: bool  # the exact account has no packet missing
    account: dict[str, int | bool]
    costs_ns: dict[str, float]
    machine: MachineSummary
    settings: dict[str, str | int | float]

    def times(self, policy: str, other: str) -> float | None:
        """How many times the mean throughput of `other` the `policy` has."""
        there = policy in self.policies and other in self.policies
        if not there or not self.policies[other].mean_mpps:
            return None
        return self.policies[policy].mean_mpps / self.policies[other].mean_mpps


def latency_of(rounds: Rounds, policy: str) -> Latency:
    """The latency of all windows of a policy."""
    return Latency(windows[policy].latency for windows in rounds if policy in windows)


def summarise_policy(rounds: Rounds, policy: str) -> PolicySummary:
    """All windows of one policy."""
    windows = [windows[policy] for windows in rounds if policy in windows]
    seconds = sum(window.window_ns for window in windows) / 1e9
    paired = ratios(rounds, policy, BASELINE)
    dropped = sum(window.dropped for window in windows)
    return PolicySummary(
        mpps=Quartiles.of([mpps(window) for window in windows]),
        mean_mpps=sum(window.delivered for window in windows) / seconds / 1e6,
        ratio_to_cooperative=Quartiles.of(paired) if paired else None,
        drops=Drops(
            offered=sum(window.offered for window in windows),
            dropped=dropped,
            per_second=dropped / seconds,
        ),
        switches_per_second=sum(window.switches for window in windows) / seconds,
        latency_us=latency_of(rounds, policy).percentiles_us(_PERCENTILES),
    )


def account_dict(account: pb.Account) -> dict[str, int | bool]:
    """Every number of an account."""
    return {field.name: getattr(account, field.name) for field in account.DESCRIPTOR.fields}


def this_machine(cpus: int) -> MachineSummary:
    """The machine that we run on."""
    tool = shutil.which("pkg-config")
    version = ""
    if tool:
        done = subprocess.run(
            [tool, "--modversion", "libdpdk"], capture_output=True, text=True, check=False
        )
        version = done.stdout.strip()
    return MachineSummary(
        cpu_model=cpu_model(), cpus=cpus, kernel=platform.release(), dpdk=version or "unknown"
    )


def summarise(
    rounds: Rounds,
    policies: Sequence[str],
    account: pb.Account,
    costs_ns: dict[str, float],
    machine: MachineSummary,
    settings: dict[str, str | int | float],
) -> Summary:
    """All of a comparison."""
    return Summary(
        policies={policy: summarise_policy(rounds, policy) for policy in policies},
        accounted=account.exact and account.unaccounted == 0,
        account=account_dict(account),
        costs_ns=costs_ns,
        machine=machine,
        settings=settings,
    )
