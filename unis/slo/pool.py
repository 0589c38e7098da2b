"""Machines as one pool of cores and ways, promises as what can be cut up: ways for each.

A promise takes of the pool, with w ways, w of them and a part of a core. Whatever is placed, a
machine has no more than all of its ways and cores, so no placement takes fewer machines than this.
"""

import math
from collections.abc import Sequence

from unis.slo.cores import Wish
from unis.slo.linear import LinearProgram
from unis.slo.profile import Server

_EPSILON = 1e-9


def pooled(wishes: Sequence[Wish], server: Server, full: float = 1.0) -> tuple[float, list[int]]:
    """Machines, and ways for each where cores get that full."""
    kinds: dict[tuple[float, ...], list[int]] = {}
    for at, wish in enumerate(wishes):
        kinds.setdefault(wish.shares, []).append(at)
    columns = [
        (kind, ways) for kind, shares in enumerate(kinds) for ways in range(1, len(shares) + 1)
    ]
    found = _solved([*kinds], [len(of) for of in kinds.values()], columns, server, full)
    chosen = [1] * len(wishes)
    left = {kind: list(of) for kind, of in enumerate(kinds.values())}
    for (kind, ways), count in zip(columns, found[1:], strict=True):
        for _ in range(round(count)):
            if left[kind]:
                chosen[left[kind].pop()] = ways
    for kind, rest in left.items():
        most = max(
            (ways for (at, ways), count in zip(columns, found[1:], strict=True)
             if at == kind and count > _EPSILON), default=1,
        )  # fmt: skip
        for at in rest:
            chosen[at] = most
    return found[0], chosen


def _solved(
    shares: Sequence[tuple[float, ...]],
    counts: Sequence[int],
    columns: Sequence[tuple[int, int]],
    server: Server,
    full: float,
) -> list[float]:
    """Machines, then how many of each kind have so many ways."""
    # Rows: ways, cores, then each kind.
    program = LinearProgram([0.0, 0.0, *counts], [math.inf, math.inf, *counts])
    program.add(1.0, {0: float(server.ways), 1: full * server.places})
    for kind, ways in columns:
        program.add(0.0, {0: -float(ways), 1: -shares[kind][ways - 1], 2 + kind: 1.0})
    solved = program.solve()
    if solved is None:
        raise AssertionError("so many machines as one likes hold all of it")
    return [*solved.values]
