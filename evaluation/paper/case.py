"""A case: a chain of synthetic functions that starts once, and its measurements."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from evaluation.paper import arms
from unis.bench.synthetic import Stage, chain_of, size_of
from unis.calibrate.fit import RING
from unis.chain import defaults
from unis.chain.load import LoadedChain

_ORDER = ("0", "light", "medium", "heavy", "mixed", "variable")  # in figures
GAMMA = defaults.PAPER_GAMMA
LATENCY_LOAD = 0.8  # of the load that every arm of the set LOAD sustains (section 5.1.2)

MAIN, LOAD = "main", "load"
KERNEL = "kernel"  # the kernel's default policy
SHORT = "-short"  # suffix of a key: the kernel's policies with their shortest slices
TUNED = "tuned"  # hand-over and the two best co-operative distances of MAIN, measured again
# Slices of a wrong length under hand-over, and with costs estimated online.
HANDOVER_FILLS, ONLINE_COST_FILLS = "handed", "followed"


@dataclass(frozen=True)
class Case:
    """One chain or several that start once. Window sets are measured one after the other."""

    key: str
    cost: str
    length: int
    figures: frozenset[str]  # that use it
    make: Callable[[], LoadedChain]
    sets: Mapping[str, Sequence[str]]  # arms whose windows alternate, by set
    size: int | str = 64
    fused: bool = False  # the work of the chain in one process
    cpus: int = 1  # of the functions
    least_rounds: int = 0  # in MAIN

    @property
    def sort_key(self) -> tuple[int, int, str, str]:
        """The order of the cases in a figure."""
        return (_ORDER.index(self.cost), self.length, f"{self.size:>5}", self.key)


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    lengths: Mapping[str, Sequence[int]]  # of chains, by cost
    window: float = 0.1  # seconds
    sets: int = 1  # balanced Latin squares per set
    latency_lengths: Mapping[str, Sequence[int]] = field(default_factory=dict)
    fused: Mapping[str, Sequence[int]] = field(default_factory=dict)
    sizes: Sequence[int] = (64, 512, 1500)  # bytes (Fig. 1)


def chain_case(
    cost: str,
    length: int,
    cpu: int,
    sets: Mapping[str, Sequence[str]],
    figures: frozenset[str] = frozenset(),
    name: str = "calibrate",
) -> Case:
    """One chain on one CPU."""
    path = [Stage(each_cost, cpu) for each_cost in costs_of(cost, length)]
    size = size_of(cost)
    return Case(
        key=f"{cost}-{length}",
        cost=cost,
        length=length,
        figures=figures,
        make=lambda: paper_chain({"chain": path}, name, size=size),
        sets=sets,
        size=size,
    )


def costs_of(cost: str, length: int) -> list[str]:
    """The cost of each function of a chain."""
    if cost == "mixed":  # section 5.3
        return [("medium", "heavy")[index % 2] for index in range(length)]
    return [cost] * length


def paper_chain(
    paths: Mapping[str, Sequence[Stage]], name: str, *, size: int | str = 64, **scheduler: float
) -> LoadedChain:
    """A run called `name` with the paper's settings, except those in `scheduler`."""
    settings = {"controller": arms.PRIORITY, "gamma": GAMMA, "cost": "static", **scheduler}
    return chain_of(name, paths, size=size, ring=RING, scheduler=settings)
