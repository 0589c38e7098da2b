"""A chain of synthetic functions that is brought up once, and what is measured of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from evaluation.paper import arms
from unis.bench.synthetic import Stage, chain_of, size_of
from unis.calibrate.fit import RING
from unis.chain import defaults
from unis.chain.load import LoadedChain

_ORDER = ("0", "light", "medium", "heavy", "mixed", "variable")  # in figures
GAMMA = defaults.PAPER_GAMMA
LATENCY_LOAD = 0.8  # of what the least of the arms of the set LOAD sustains (section 5.1.2)

MAIN, LOAD = "main", "load"
KERNEL = "kernel"  # its default policy
SHORT = "-short"  # its slices
TUNED = "tuned"  # beside co-operation's two best distances of MAIN, measured anew
# Slices of a wrong length where functions hand the CPU over, and where costs are followed.
HANDED, FOLLOWED = "handed", "followed"


@dataclass(frozen=True)
class Case:
    """One chain, or several, brought up once; what is measured of it, set after set."""

    key: str
    cost: str
    length: int
    figures: frozenset[str]  # that need it
    make: Callable[[], LoadedChain]
    sets: Mapping[str, Sequence[str]]  # arms that alternate, by set
    size: int | str = 64
    fused: bool = False  # the same work in one process
    cpus: int = 1  # of functions
    least_rounds: int = 0  # of MAIN

    @property
    def place(self) -> tuple[int, int, str, str]:
        """Among the cases of a figure."""
        return (_ORDER.index(self.cost), self.length, f"{self.size:>5}", self.key)


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    lengths: Mapping[str, Sequence[int]]  # of chains, by cost
    window: float = 0.1  # seconds
    sets: int = 1  # balanced squares of each set
    latency_lengths: Mapping[str, Sequence[int]] = field(default_factory=dict)
    fused: Mapping[str, Sequence[int]] = field(default_factory=dict)  # likewise
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
    path = [Stage(each, cpu) for each in costs_of(cost, length)]
    size = size_of(cost)
    return Case(
        key=f"{cost}-{length}",
        cost=cost,
        length=length,
        figures=figures,
        make=lambda: chain_like_the_papers({"chain": path}, name, size=size),
        sets=sets,
        size=size,
    )


def costs_of(cost: str, length: int) -> list[str]:
    """Of each function of a chain."""
    if cost == "mixed":  # section 5.3
        return [("medium", "heavy")[at % 2] for at in range(length)]
    return [cost] * length


def chain_like_the_papers(
    paths: Mapping[str, Sequence[Stage]], name: str, *, size: int | str = 64, **scheduler: float
) -> LoadedChain:
    """Run as `name`; as in the paper, but for what `scheduler` says."""
    settings = {"controller": arms.PRIORITY, "gamma": GAMMA, "cost": "static", **scheduler}
    return chain_of(name, paths, size=size, ring=RING, scheduler=settings)
