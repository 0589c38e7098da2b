"""Throughput by cache ways where nobody can set them: of the cache model (docs/cache-model.md)."""

import os
from collections.abc import Callable
from pathlib import Path

from unis.plan.model import FunctionPlan, Plan
from unis.profile.cache_model import PacketCost, cache_profile, ns_by_ways, share_by_ways
from unis.profile.machine_caches import Caches
from unis.profile.references import ENTRY, Flows, Recorded, RecordingError, Subject, record
from unis.profile.result import Modelled

_PACKETS = 100_000  # recorded at least, and so many a flow
_A_FLOW = 3


def modelled(plan: Plan, ways: int, caches: Caches, report: Callable[[str], None]) -> Modelled:
    """With 1 to `ways`, beside the whole of `caches`. UnisError where it cannot be modelled.

    A recording that has to be made first is reported.
    """
    if len(plan.functions) != 1:
        raise RecordingError("the cache model knows single functions, not chains")
    recorded = record_function(plan, plan.functions[0], report)
    profile, cost = cache_profile(recorded, caches), PacketCost()
    times = ns_by_ways(profile, cost)
    extra_ns = tuple(max(0.0, time - times[-1]) for time in times)
    source = (
        f"cache of {caches.llc.ways} ways simulated on the references of the program to packets of "
        f"64 B of {recorded.fill} flows, caches of {caches.name}, latencies of the "
        f"paper's Xeon assumed ({cost.llc_ns:g} and {cost.memory_ns:g} ns)"
    )
    return Modelled(share_by_ways(profile, cost)[:ways], extra_ns[:ways], source)


def record_function(
    plan: Plan, function: FunctionPlan, report: Callable[[str], None] = lambda _: None
) -> Recorded:
    """One of the plan's, with its arguments, on traffic of as many flows; kept, so recorded once.

    A recording that has to be made is reported. RecordingError where it cannot be.
    """
    flows = getattr(plan.traffic.source, "flows", None)
    if flows is None:
        raise RecordingError("the cache model knows synthetic traffic, not captures or ports")
    if function.is_command:
        raise RecordingError(
            f"the cache model knows programs that call {ENTRY} with packets, as ours do; "
            f"`{function.name}` is a command of others"
        )
    if function.user or function.env:
        raise RecordingError(
            f"`{function.name}` runs as another user, or with an environment of its own: it is "
            "not started again without them"
        )
    return record(_subject(function), Flows(flows, max(_PACKETS, _A_FLOW * flows)), report=report)


def _subject(function: FunctionPlan) -> Subject:
    """The files that its arguments name by their full paths, for it is recorded elsewhere."""
    words = [_found(function, word) for word in function.words]
    files = tuple(path for word, path in words if path is not None)
    arguments = tuple(str(path) if path else word for word, path in words)
    return Subject(function.program.name, function.program, arguments, files)


def _found(function: FunctionPlan, word: str) -> tuple[str, Path | None]:
    path = function.cwd / word
    # A word too long for a path, or with a zero byte, is none: Path.is_file() would raise.
    return word, path.resolve() if word and os.path.isfile(path) else None  # noqa: PTH113
