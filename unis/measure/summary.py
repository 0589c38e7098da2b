"""What a comparison of arms found, as summary.json holds it."""

import platform
from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from unis.engine.histogram import Latency
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Paired, Quartiles
from unis.measure.windows import Rounds, throughput
from unis.runtime.costs import cpu_model
from unis.runtime.doctor.software import dpdk_version
from unis.v1 import engine_pb2 as pb

BASELINE = "cooperative"
SUBJECT = "unis"
_PERCENTILES = (5, 50, 95, 99)


class Drops(BaseModel):
    """Packets that were offered and not delivered, over all windows."""

    offered: int
    dropped: int
    per_second: float

    @property
    def share(self) -> float:
        """Of what was offered; nothing offered is nothing lost."""
        return self.dropped / self.offered if self.offered else 0.0


class PolicySummary(BaseModel):
    """One arm over all its windows."""

    mpps: Quartiles
    mean_mpps: float
    offered_mpps: float
    ratio_to_cooperative: Paired | None  # None: co-operative is not there, or delivered nothing
    ratio_of_unis: Paired | None  # what UNiS delivered, by what this arm did
    windows_without_packets: int
    window_s: float
    drops: Drops
    switches_per_second: float
    latency_us: dict[str, float | None]
    disturbed: Disturbance


class MachineSummary(BaseModel):
    """Where it was measured."""

    cpu_model: str
    cpus: int
    kernel: str
    dpdk: str

    @classmethod
    def this(cls, cpus: int) -> "MachineSummary":
        """This machine, with `cpus` CPUs."""
        return cls(
            cpu_model=cpu_model(),
            cpus=cpus,
            kernel=platform.release(),
            dpdk=dpdk_version() or "unknown",
        )


class Summary(BaseModel):
    """A comparison of arms: policies, or policies with a controller each."""

    policies: dict[str, PolicySummary]
    accounted: bool  # the exact account has no packet missing
    account: dict[str, int | bool]
    costs_ns: dict[str, float]
    machine: MachineSummary
    settings: dict[str, str | int | float]
    tuning: dict[str, str]  # by policy: how it was set, which its figures depend on

    def tuning_of(self, arm: str) -> str:
        """How the policy of an arm was set; empty if there is nothing to tell."""
        policy, _, how = arm.partition("/")
        if how.isdecimal():
            return f"a yield every {how} bursts"
        return self.tuning.get(policy, "")

    def times(self, other: str) -> Paired | None:
        """How many times what `other` delivers UNiS does: of windows of the same round."""
        return self.policies[other].ratio_of_unis if other in self.policies else None


def latency_of(rounds: Rounds, arm: str) -> Latency:
    """The latency of all windows of an arm."""
    return Latency(windows[arm].latency for windows in rounds if arm in windows)


def ratio(rounds: Rounds, arm: str, base: str, blocks: int = 1) -> Paired | None:
    """Throughput of `arm` by that of `base`, in the rounds that have both; None if none has.

    `blocks`: bring-ups that the rounds come from.
    """
    both = [windows for windows in rounds if arm in windows and base in windows]
    return Paired.ratio(throughput(both, arm), throughput(both, base), blocks) if both else None


def latency_ratio(rounds: Rounds, arm: str, base: str, percentile: int) -> Paired | None:
    """A percentile of the latency under `arm` by that under `base`, round by round."""
    pairs: list[tuple[float, float]] = []
    for windows in rounds:
        if arm in windows and base in windows:
            value, base_value = (
                latency_of([windows], name).percentile_us(percentile) for name in (arm, base)
            )
            if value is not None and base_value is not None:  # both delivered something
                pairs.append((value, base_value))
    if not pairs:
        return None
    return Paired.ratio([value for value, _ in pairs], [base_value for _, base_value in pairs])


def summarise_arm(rounds: Rounds, arm: str) -> PolicySummary:
    """All windows of one arm."""
    windows = [windows[arm] for windows in rounds if arm in windows]
    seconds = sum(window.window_ns for window in windows) / 1e9
    offered = sum(window.offered for window in windows)
    dropped = sum(window.dropped for window in windows)
    return PolicySummary(
        mpps=Quartiles.of(throughput(rounds, arm)),
        mean_mpps=sum(window.delivered for window in windows) / seconds / 1e6,
        offered_mpps=offered / seconds / 1e6,
        ratio_to_cooperative=ratio(rounds, arm, BASELINE),
        ratio_of_unis=ratio(rounds, SUBJECT, arm),
        windows_without_packets=sum(not window.delivered for window in windows),
        window_s=seconds / len(windows),
        drops=Drops(
            offered=offered,
            dropped=dropped,
            per_second=dropped / seconds,
        ),
        switches_per_second=sum(window.switches for window in windows) / seconds,
        latency_us=latency_of(rounds, arm).percentiles_us(_PERCENTILES),
        disturbed=Disturbance.of(windows),
    )


def account_dict(account: pb.Account) -> dict[str, int | bool]:
    """Every number of an account."""
    return {
        field.name: getattr(account, field.name)
        for field in account.DESCRIPTOR.fields
        if field.name != "doubt"
    }


def summarise(
    rounds: Rounds,
    arms: Sequence[str],
    account: pb.Account,
    costs_ns: Mapping[str, float],
    machine: MachineSummary,
    settings: Mapping[str, str | int | float],
    tuning: Mapping[str, str],
) -> Summary:
    """All of a comparison."""
    return Summary(
        policies={arm: summarise_arm(rounds, arm) for arm in arms},
        accounted=account.exact and account.unaccounted == 0,
        account=account_dict(account),
        costs_ns=dict(costs_ns),
        machine=machine,
        settings=dict(settings),
        tuning=dict(tuning),
    )
