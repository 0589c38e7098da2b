"""The chains of the paper's experiments, as they are brought up on this machine."""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from evaluation.paper import arms
from evaluation.paper.case import (
    FOLLOWED,
    HANDED,
    KERNEL,
    LOAD,
    MAIN,
    SHORT,
    TUNED,
    Case,
    Extent,
    chain_case,
    chain_like_the_papers,
)
from unis.bench.synthetic import Stage, size_of
from unis.chain.load import LoadedChain
from unis.plan.machine import Machine

NAME = "evaluation-paper"  # of the runs
SEED = 1  # of the order in which they are measured
# Slices of the kernel's policies, the shortest that it has.
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
# Whose pictures have what one process passes.
_OF_FUSED = {"light": "fig4a", "medium": "fig4b", "variable": "fig8"}
LENGTH_LOOKED_INTO = 5  # section 5.6


def cases(extent: Extent, machine: Machine) -> list[Case]:
    """All of them, in the order in which they are measured.

    That is by chance, the same each time, so that a machine that changes in an hour does not look
    like a length. What one process passes is measured right after its chain.
    """
    cpu = max(machine.cpus)
    together: list[list[Case]] = [
        list(_chains(extent, cost, length, cpu))
        for cost, lengths in extent.lengths.items()
        for length in lengths
    ]
    alone = [*_kernels(extent.sizes, cpu), *_slices(cpu), *_several(machine)]
    together += [[case] for case in alone]
    random.Random(SEED).shuffle(together)  # noqa: S311  no secret
    return [case for chains in together for case in chains]


def _chains(extent: Extent, cost: str, length: int, cpu: int) -> Iterator[Case]:
    """The chain, and the same work in one process."""
    latency = length in extent.latency_lengths.get(cost, ())
    # One alone has nobody to share its CPU with: it only says how many fit.
    figures = {"fig6"} if length == 1 else {*_FIGURES[cost], *(["fig5"] if latency else [])}
    sets: dict[str, Sequence[str]] = {MAIN: arms.CHAIN}
    if length > 1:  # one alone passes as much under each
        sets[TUNED] = arms.TUNED
    if length == LENGTH_LOOKED_INTO:
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
            figures=frozenset({_OF_FUSED[cost]}),
            make=lambda: chain_like_the_papers({"chain": fused}, NAME, size=size),
            sets={MAIN: (arms.FUSED,)},
            size=size,
            fused=True,
        )


def _kernels(sizes: Sequence[int], cpu: int) -> Iterator[Case]:
    """Two functions that hardly do a thing; with the kernel's own slices, and with its shortest."""
    path = [Stage("0", cpu)] * 2
    short = {"rr_timeslice_ms": _SHORT_RR_MS, "fair_slice_ms": _SHORT_FAIR_MS}
    for size in sizes:
        for suffix, slices in (("", {}), (SHORT, short)):
            yield Case(
                key=f"kernel-{size}{suffix}",
                cost="0",
                length=2,
                figures=frozenset({"fig1"}),
                make=partial(chain_like_the_papers, {"chain": path}, NAME, size=size, **slices),
                sets={MAIN: (arms.OTHER, arms.RR, arms.HANDOVER, arms.PAPER_K)},
                size=size,
            )


def _slices(cpu: int) -> Iterator[Case]:
    names = [arms.fills(share, occupancy=on) for share in arms.FILLS for on in (True, False)]
    for cost in ("light", "medium"):
        path = [Stage(cost, cpu)] * LENGTH_LOOKED_INTO
        yield Case(
            key=f"slices-{cost}",
            cost=cost,
            length=LENGTH_LOOKED_INTO,
            figures=frozenset({"fig15"}),
            make=partial(chain_like_the_papers, {"chain": path}, NAME),
            sets={
                MAIN: names,
                FOLLOWED: [*map(arms.followed, arms.SOME_FILLS)],
                HANDED: [*map(arms.handed, arms.SOME_FILLS)],
            },
        )


# Table 1: by configuration, of each chain the function's CPU, as a number from 0.
CONFIGURATIONS: dict[str, dict[str, tuple[int, ...]]] = {
    "a": {"s1": (0, 0, 0), "s2": (0,)},
    "b": {"s1": (0, 0, 0, 1), "s2": (0, 1, 1, 1)},
    "c": {"s1": (0, 0, 0, 0, 1, 1, 1, 1)},
}


_TABLE_ROUNDS = 20


def paths_of(configuration: str, cpus: Sequence[int]) -> dict[str, list[Stage]]:
    """The chains of a configuration of Table 1 on these CPUs."""
    return {
        name: [Stage("medium", cpus[at]) for at in places]
        for name, places in CONFIGURATIONS[configuration].items()
    }


def table_chain(paths: Mapping[str, Sequence[Stage]]) -> LoadedChain:
    """Chains of a configuration of Table 1."""
    return chain_like_the_papers(paths, NAME)


def cpus_of(configuration: str) -> int:
    """How many CPUs its functions have."""
    return 1 + max(at for places in CONFIGURATIONS[configuration].values() for at in places)


def _several(machine: Machine) -> Iterator[Case]:
    """Those for which there are CPUs enough, one of which is the platform's."""
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
