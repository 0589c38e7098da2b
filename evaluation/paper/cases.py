"""The cases of the paper's experiments on this machine."""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from evaluation.paper import arms
from evaluation.paper.case import (
    HANDOVER_FILLS,
    KERNEL,
    LOAD,
    MAIN,
    ONLINE_COST_FILLS,
    SHORT,
    TUNED,
    Case,
    Extent,
    chain_case,
    paper_chain,
)
from unis.bench.synthetic import Stage, size_of
from unis.chain.load import LoadedChain
from unis.plan.machine import Machine

NAME = "evaluation-paper"  # of the runs
SEED = 1  # of the order of the cases
# The shortest slices of the kernel's policies.
_SHORT_RR_MS, _SHORT_FAIR_MS = 1, 0.1

QUICK = Extent(
    lengths={
        "light": (2, 5), "medium": (2, 5), "heavy": (2, 4), "mixed": (2, 4),
        "variable": (2, 4),
    },
    window=0.07,
    latency_lengths={"light": (5,), "medium": (5,), "heavy": (4,)},
    fused={"light": (2, 5), "medium": (2, 5)},
    sizes=(64, 1500),
)  # fmt: skip
_LENGTHS = dict.fromkeys(("light", "medium", "heavy", "mixed", "variable"), (2, 3, 4, 5, 6))
FULL = Extent(
    lengths={
        **_LENGTHS,
        "light": (1, 2, 3, 4, 5, 6, 7),
        "medium": (1, 2, 3, 4, 5, 6),
        "heavy": (1, 2, 3, 4, 6),
    },
    sets=2,
    latency_lengths={**_LENGTHS, "heavy": (2, 3, 4, 6), "mixed": (), "variable": ()},
    fused={"light": (2, 3, 4, 5, 6), "medium": (2, 3, 4, 5, 6), "variable": (2, 4, 6)},
)

_FIGURES = {
    "light": ("fig4a", "fig6", "fig9", "fig10", "fig11", "fig12", "same"),
    "medium": ("fig4b", "fig6", "fig9", "fig12", "fig13", "same"),
    "heavy": ("fig6", "same"),
    "mixed": ("fig7", "same"),
    "variable": ("fig8", "fig14", "same"),
}
# Figures that show the throughput of one process.
_FUSED_FIGURES = {"light": "fig4a", "medium": "fig4b", "variable": "fig8"}
DETAILED_LENGTH = 5  # section 5.6


def cases(extent: Extent, machine: Machine) -> list[Case]:
    """All cases in the order of measurement: random, but the same each time.

    So a machine that changes within the hour does not look like an effect of the length. A fused
    case follows its chain immediately.
    """
    cpu = max(machine.cpus)
    groups: list[list[Case]] = [
        list(_chain_cases(extent, cost, length, cpu))
        for cost, lengths in extent.lengths.items()
        for length in lengths
    ]
    others = [*_kernel_cases(extent.sizes, cpu), *_slice_cases(cpu), *_table1_cases(machine)]
    groups += [[case] for case in others]
    random.Random(SEED).shuffle(groups)  # noqa: S311  no secret
    return [case for group in groups for case in group]


def _chain_cases(extent: Extent, cost: str, length: int, cpu: int) -> Iterator[Case]:
    """The chain, and if wanted the same work in one process."""
    latency = length in extent.latency_lengths.get(cost, ())
    # A single function shares its CPU with none: it only counts for the density.
    figures = {"fig6"} if length == 1 else {*_FIGURES[cost], *(["fig5"] if latency else [])}
    sets: dict[str, Sequence[str]] = {MAIN: arms.CHAIN}
    if length > 1:  # all arms are alike for a single function
        sets[TUNED] = arms.TUNED
    if length == DETAILED_LENGTH:
        sets[KERNEL] = arms.KERNEL
    if latency:
        sets[LOAD] = arms.LATENCY
    yield chain_case(cost, length, cpu, sets, frozenset(figures), NAME)
    if length in extent.fused.get(cost, ()):  # one process has one cost
        fused = [Stage(cost, cpu, length)]
        size = size_of(cost)
        yield Case(
            key=f"{cost}-{length}-fused",
            cost=cost,
            length=length,
            figures=frozenset({_FUSED_FIGURES[cost]}),
            make=lambda: paper_chain({"chain": fused}, NAME, size=size),
            sets={MAIN: (arms.FUSED,)},
            size=size,
            fused=True,
        )


def _kernel_cases(sizes: Sequence[int], cpu: int) -> Iterator[Case]:
    """Two functions of no cost, with the kernel's default slices and with its shortest."""
    path = [Stage("0", cpu)] * 2
    short = {"rr_timeslice_ms": _SHORT_RR_MS, "fair_slice_ms": _SHORT_FAIR_MS}
    for size in sizes:
        for suffix, slices in (("", {}), (SHORT, short)):
            yield Case(
                key=f"kernel-{size}{suffix}",
                cost="0",
                length=2,
                figures=frozenset({"fig1"}),
                make=partial(paper_chain, {"chain": path}, NAME, size=size, **slices),
                sets={MAIN: (arms.OTHER, arms.RR, arms.HANDOVER, arms.PAPER_K)},
                size=size,
            )


def _slice_cases(cpu: int) -> Iterator[Case]:
    names = [
        arms.fill_name(share, occupancy=occupancy)
        for share in arms.FILLS
        for occupancy in (True, False)
    ]
    for cost in ("light", "medium"):
        path = [Stage(cost, cpu)] * DETAILED_LENGTH
        yield Case(
            key=f"slices-{cost}",
            cost=cost,
            length=DETAILED_LENGTH,
            figures=frozenset({"fig15"}),
            make=partial(paper_chain, {"chain": path}, NAME),
            sets={
                MAIN: names,
                ONLINE_COST_FILLS: [*map(arms.online_cost_fill_name, arms.FEW_FILLS)],
                HANDOVER_FILLS: [*map(arms.handover_fill_name, arms.FEW_FILLS)],
            },
        )


# Table 1: the CPU of each function, from 0, by configuration and chain.
CONFIGURATIONS: dict[str, dict[str, tuple[int, ...]]] = {
    "a": {"s1": (0, 0, 0), "s2": (0,)},
    "b": {"s1": (0, 0, 0, 1), "s2": (0, 1, 1, 1)},
    "c": {"s1": (0, 0, 0, 0, 1, 1, 1, 1)},
}


_TABLE_ROUNDS = 20


def paths_of(configuration: str, cpus: Sequence[int]) -> dict[str, list[Stage]]:
    """The chains of a configuration of Table 1 on these CPUs."""
    return {
        name: [Stage("medium", cpus[place]) for place in places]
        for name, places in CONFIGURATIONS[configuration].items()
    }


def table_chain(paths: Mapping[str, Sequence[Stage]]) -> LoadedChain:
    """Chains of a configuration of Table 1."""
    return paper_chain(paths, NAME)


def cpus_of(configuration: str) -> int:
    """The number of CPUs of its functions."""
    return 1 + max(place for places in CONFIGURATIONS[configuration].values() for place in places)


def _table1_cases(machine: Machine) -> Iterator[Case]:
    """The configurations of Table 1 that fit on the CPUs besides the platform's."""
    free = sorted(machine.cpus)[::-1]
    for configuration in CONFIGURATIONS:
        count = cpus_of(configuration)
        if count >= len(free):
            continue
        paths = paths_of(configuration, free)
        yield Case(
            key=f"table1{configuration}",
            cost="medium",
            length=max(map(len, paths.values())),
            figures=frozenset({"table1"}),
            make=partial(table_chain, paths),
            sets={MAIN: arms.TABLE},
            cpus=count,
            least_rounds=_TABLE_ROUNDS,
        )
