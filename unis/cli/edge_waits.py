"""How long packets wait on each edge of a chain with branches, from a few snapshots."""

from __future__ import annotations

import itertools
import time
from statistics import fmean
from typing import TYPE_CHECKING

from unis.cli.view import ends_of, has_branches
from unis.engine.client import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unis.engine.client import EngineClient
    from unis.v1 import engine_pb2 as pb

Waits = dict[str, list[float | None]]  # by chain, in the order of its edges; ns

_SECONDS = 0.2  # some hundred turns of functions
_PAUSE = 0.005


def waits(client: EngineClient, first: pb.Stats) -> Waits:
    """What packets wait in the links of each edge, ns in the mean over the next 0.2 s.

    Of chains with branches only. None: no packet was taken. Empty: the engine did not answer.
    """
    if not any(map(has_branches, first.chains)):
        return {}
    snapshots = [first]
    until = time.monotonic() + _SECONDS
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(_PAUSE, left))
        try:
            snapshots.append(client.stats(seconds=_SECONDS))
        except EngineError:
            return {}
    return mean_waits(snapshots)


def mean_waits(snapshots: Sequence[pb.Stats]) -> Waits:
    """By Little's law: the packets that wait, divided by the packets taken in a nanosecond.

    Empty if the chains changed between the snapshots.
    """
    first, last = snapshots[0], snapshots[-1]
    shapes = [
        [(chain.name, [ends_of(edge) for edge in chain.edges]) for chain in snapshot.chains]
        for snapshot in snapshots
    ]
    if any(before != after for before, after in itertools.pairwise(shapes)):
        return {}
    elapsed = last.time_ns - first.time_ns
    found: Waits = {}
    for at, chain in enumerate(first.chains):
        if not has_branches(chain):
            continue
        found[chain.name] = []
        for edge, before in enumerate(chain.edges):
            taken = last.chains[at].edges[edge].taken - before.taken
            waiting = fmean(snapshot.chains[at].edges[edge].waiting for snapshot in snapshots)
            found[chain.name].append(waiting * elapsed / taken if taken > 0 else None)
    return found
