"""What a profile has beside the parts: advice, what it rests on, and what came of following it."""

from typing import Literal

from pydantic import BaseModel

from unis.measure.paired import Ratio

Gain = Literal["throughput", "latency"]  # at overload; the median at the load of the profile
# By path in the chain file, as `links.0.driver`; None: leave the key out.
Change = dict[str, str | int | float | bool | None]


class Advice(BaseModel):
    """One change of the chain file."""

    what: str  # one sentence
    change: Change
    expected_gain: float  # times the throughput, or the latency before by that after
    kind: Gain
    rests_on: list[str]  # measured facts, each with its figure and who measured it

    @property
    def gain(self) -> str:
        """How much, in words."""
        if self.kind == "throughput":
            return f"about {self.expected_gain:.1f} times the throughput at overload"
        return f"a median latency shorter by about {self.expected_gain:.1f} times"


class TrialLoad(BaseModel):
    """What was measured before and after at one load: medians over the windows."""

    before: float  # kpps delivered, or median latency, µs
    after: float
    gain: Ratio | None  # paired; latency: before by after; None: nothing came through


class Trial(BaseModel):
    """A piece of advice that was followed, for some windows."""

    what: str
    how: Literal["windows", "bring-ups"]  # of one bring-up in turn, or A B B A twice
    overload_kpps: TrialLoad
    half_load_us: TrialLoad  # at half of what passed before
    worth: bool  # at least 5 %, and the interval is above 1


class FunctionUse(BaseModel):
    """What a function did at overload."""

    name: str
    cpu: int
    cost_ns: float  # of a packet; 0: not known
    # `kernel`: CPU time by packets, of a function that waits for them, with its switches.
    cost_by: Literal["engine", "kernel"] = "engine"
    switches: float = 0  # of the kernel, by packets received
    packets: float  # received, by each that was delivered
    busy: float  # shares of the time: at packets
    spinning: float  # had its CPU and found no packet
    waiting: float  # for its CPU
    sleeping: float


class ChainUse(BaseModel):
    """What engine and kernel counted of the chain at overload. All of it is of one run."""

    policy: str
    controller: str
    delivered_kpps: float
    engine_ns: float  # of a packet, on the busiest of the platform's CPUs; 0: not known
    functions: list[FunctionUse]  # in the order of the chain
    lost: dict[str, float]  # by place, in packets for each that was delivered
    out_of_order: float | None  # share of the hand-overs seen; None: none was counted
    switch_ns: float  # of a switch by the engine; 0: not known
    p95_us: float | None  # at the load of the profile

    @property
    def without_advice(self) -> str:
        """What it means if there is none."""
        if all(function.cost_ns for function in self.functions):
            return "UNiS knows no change that would make this chain faster."
        return "There is no advice, because the cost of a packet is not known."

    @property
    def lost_on_links(self) -> float:
        """Packets that links dropped, for each that was delivered."""
        return sum(count for place, count in self.lost.items() if place in ON_LINKS)


BY_KERNEL, LINK_FULL = "by the kernel, on links", "a link full"
ON_LINKS = (BY_KERNEL, LINK_FULL)
