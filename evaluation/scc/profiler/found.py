"""What `--only profiler` found. Times are ns where the name says nothing else."""

from typing import Literal

from pydantic import BaseModel

from evaluation.scc.paper import PaperValue
from evaluation.scc.rows import SccRatio
from unis.measure.primitives import MedianNs
from unis.parts.result import ChainParts


class PrimitiveRow(BaseModel):
    """Table 2: a switch or a call."""

    what: str
    ns: MedianNs | None
    missing: str | None  # why there is none
    paper: PaperValue | None


class MemoryPoint(BaseModel):
    """Fig. 3: an access to an array, the next one after it."""

    order: str  # random, or forward
    array_bytes: int
    stride_bytes: int
    page_bytes: int
    ns: MedianNs


class LevelRow(BaseModel):
    """Fig. 3: the fastest and the slowest access of arrays that fit into a memory."""

    level: str
    low_ns: float
    high_ns: float
    paper: PaperValue


class References(BaseModel):
    """Of one packet."""

    provider: str
    l1: float  # all loads and stores
    l2: float  # that L1 did not have
    l3: float
    dram: float


class ContextRow(BaseModel):
    """Fig. 4 and Table 4: one router."""

    context: str
    how: str  # what it is here
    latency_us: float | None  # median of windows that nothing traced, at half of what passes
    parts_us: float | None  # the sum of the profiler's
    ns_per_packet: float | None  # 1 ÷ what passes in overload; of the kernel: of its CPU
    interval: tuple[float, float] | None  # of the latter, 95 %
    references: References | None
    no_references: str  # why there are none, or what they leave out
    paper: PaperValue
    paper_references: References


class LengthRow(BaseModel):
    """Fig. 5: a chain, calculated against measured."""

    arm: str  # links, and how its functions are scheduled
    length: int
    profile: ChainParts

    @property
    def measured_us(self) -> float:
        """Median latency of windows that nothing traced."""
        return self.profile.median_latency_ns / 1000

    @property
    def explained_us(self) -> float:
        """The sum of the parts."""
        return self.profile.explained_ns / 1000

    @property
    def bound(self) -> float:
        """What the residual may be."""
        return self.profile.allowed

    @property
    def misses(self) -> bool:
        """Whether it is more."""
        return abs(self.profile.residual) > self.bound


class SlopeRow(BaseModel):
    """µs that each further function adds, from two on."""

    arm: str
    measured_us: float
    explained_us: float
    share: float | None  # explained of measured; null where latency does not grow with length
    paper_measured: PaperValue  # over Open vSwitch, of functions that poll
    paper_explained: PaperValue


class WaitRow(BaseModel):
    """Tables 5 and 8, in overload: of all functions together, by schedstat."""

    arm: str
    length: int
    wait: float | None  # not runnable ÷ run time
    contention: float | None  # runnable and not running ÷ run time
    kpps: float
    paper_wait: PaperValue | None
    paper_contention: PaperValue | None


class Elsewhere(BaseModel):
    """What grew beside the part that was to grow, at most of all."""

    place: str
    part: str
    ns: float


class InjectedRow(BaseModel):
    """A known delay, and what the profiler found of it."""

    name: str
    how: str
    place: str
    parts: list[str]  # where it belongs, together
    injected_ns: float
    known_by: str
    found_ns: float
    share: SccRatio | None  # found ÷ injected
    elsewhere: Elsewhere | None
    elsewhere_share: SccRatio | None  # its growth ÷ injected, whatever its sign
    latency_ns: float | None  # growth of the median latency of all packets of the same windows


class ProfilerFound(BaseModel):
    """All of it; lists are empty where a step has not been measured."""

    calibrated: str = ""  # when, and by what
    primitives: list[PrimitiveRow] = []
    memory: list[MemoryPoint] = []
    levels: list[LevelRow] = []
    contexts: list[ContextRow] = []
    lengths: list[LengthRow] = []
    slopes: list[SlopeRow] = []
    waits: list[WaitRow] = []
    injected: list[InjectedRow] = []
    notes: list[str] = []  # what is missing here, and why

    @property
    def empty(self) -> bool:
        """Nothing was asked for, or nothing came of it."""
        return not (self.primitives or self.contexts or self.lengths or self.injected)


Step = Literal["primitives", "contexts", "lengths", "injected"]
