"""Costs of functions that were measured here before, alone or in a chain."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from unis.runtime.errors import LaunchError
from unis.runtime.files import locked, write_atomically

if TYPE_CHECKING:
    from unis.chain.model import Traffic
    from unis.plan.model import Plan
    from unis.plan.programs import ProgramPlan
    from unis.v1 import costs_pb2 as pb

ESTIMATE_ROUNDS = 2000  # bursts timed for each packet size
# Where the traffic is not known beforehand (section 5.1.2): smallest to MTU.
_MTU_SIZES = (64, 512, 1024, 1500)
# A machine that others share may run at another speed tomorrow.
_DAYS = 1
_LARGEST_FILE = 64 << 20  # bytes of an argument's file that are hashed
_LOCK_SECONDS = 5.0  # others hold the cache for milliseconds


@dataclass(frozen=True)
class SizeCost:
    """What a packet of one size costs; quartiles of the rounds."""

    size: int  # bytes with FCS
    ns: float
    ns_q1: float
    ns_q3: float
    cycles: float


@dataclass(frozen=True)
class Cost:
    """What a packet costs, the mean over the sizes, each as often as it comes."""

    ns: float
    ns_q1: float
    ns_q3: float
    cycles: float
    sizes: tuple[SizeCost, ...] = ()

    @property
    def solo(self) -> bool:
        """Whether the Cycle Estimator measured it; else the scheduler followed it in a chain."""
        return bool(self.sizes)

    @classmethod
    def followed(cls, ns: float) -> Cost:
        """As the scheduler measured it while the function ran in a chain."""
        return cls(ns=ns, ns_q1=ns, ns_q3=ns, cycles=0.0)

    @classmethod
    def of(cls, estimate: pb.FunctionEstimate) -> Cost:
        """As the engine measured it."""
        sizes = (
            SizeCost(size=s.size, ns=s.ns, ns_q1=s.ns_q1, ns_q3=s.ns_q3, cycles=s.cycles)
            for s in estimate.sizes
        )
        return cls(
            ns=estimate.ns,
            ns_q1=estimate.ns_q1,
            ns_q3=estimate.ns_q3,
            cycles=estimate.cycles,
            sizes=tuple(sizes),
        )


@dataclass(frozen=True)
class _StoredCost:
    measured: float  # seconds since 1970
    cost: Cost


_COSTS = TypeAdapter(dict[str, _StoredCost])


def shares_of(traffic: Traffic, sizes: Sequence[int] = ()) -> dict[int, int]:
    """The packet sizes that a function's cost is taken over, and how often each counts.

    Those of synthetic traffic are the ones that it will see. For a capture and for a port, which
    nobody looks into beforehand, four sizes up to the MTU stand alike. `sizes` instead, if any.
    """
    return dict.fromkeys(sizes, 1) or traffic.size_shares or dict.fromkeys(_MTU_SIZES, 1)


def cpu_model() -> str:
    """The name of the CPU, as the kernel tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "CPU part")):
            return line.partition(":")[2].strip()
    return "unknown CPU"


def cost_key(function: ProgramPlan, shares: Mapping[int, int]) -> str:
    """Changes with anything that may change the cost: program, arguments, their files, CPU.

    OSError if the program cannot be read, or was removed meanwhile.
    """
    digest = hashlib.sha256(_program(function))
    for part in (
        *function.words,  # EAL's carry names of the run, but for the kind of the ports
        *function.drivers,
        *(f"{key}={value}" for key, value in sorted(function.env.items())),
        function.user,
        *function.capabilities,
        function.yield_every,
        dict(shares),
        cpu_model(),
        function.lcore_count,
        function.stdin or "",
        function.terminal,
    ):
        digest.update(f"\0{part}".encode())
    for argument in [*function.words, *_followed(function)]:
        digest.update(_content(function.cwd / argument.rpartition("=")[2]))
    return digest.hexdigest()


def _program(function: ProgramPlan) -> bytes:
    """What tells a program from another. A root file system has no digest: its program is read."""
    container = function.container
    if container and container.digest:
        return f"{container.digest} {function.program}".encode()
    if container and container.image:
        return _content(container.image / str(function.program).lstrip("/"))
    return function.program.read_bytes()


def _followed(function: ProgramPlan) -> list[str]:
    """What runs where the program only starts another: the files that a script names, and what a
    word is on PATH, as in `env NAME=1 program`. Not what a script puts together.
    """
    found = [shutil.which(word) or "" for word in function.words if "/" not in word]
    if function.program.is_file() and _is_small(function.program):
        content = function.program.read_bytes()
        if content.startswith(b"#!"):
            words = content.decode(errors="replace").replace('"', " ").split()
            found += [str(function.program.parent / word) for word in words if "/" in word]
    return found


def _content(file: Path) -> bytes:
    """The content of a file that an argument names; empty if it names none."""
    try:
        return file.read_bytes() if file.is_file() and _is_small(file) else b""
    except (OSError, ValueError):  # too long for a name, or with a null
        return b""


def _is_small(file: Path) -> bool:
    return file.stat().st_size <= _LARGEST_FILE


def cache_directory() -> Path:
    """The folder of what was measured on this machine."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "unis"


def _costs_file() -> Path:
    return cache_directory() / "costs.json"


def kept_costs() -> dict[str, Cost]:
    """What was measured lately, by `cost_key`."""
    return {key: kept.cost for key, kept in _kept().items()}


def _kept() -> dict[str, _StoredCost]:
    oldest = time.time() - _DAYS * 86400
    try:
        read = _COSTS.validate_json(_costs_file().read_bytes())
    except (OSError, ValueError):
        return {}
    return {key: kept for key, kept in read.items() if kept.measured >= oldest}


def keep_cost(key: str, cost: Cost) -> None:
    """Keeps a cost; a cache that cannot be written is no reason to fail."""
    folder = cache_directory()
    with contextlib.suppress(OSError, LaunchError):
        folder.mkdir(parents=True, exist_ok=True)
        # Else of two runs that start at once one would overwrite the costs of the other.
        with locked(folder, os.O_RDONLY | os.O_DIRECTORY, _LOCK_SECONDS):
            costs = _kept() | {key: _StoredCost(time.time(), cost)}
            write_atomically(_costs_file(), _COSTS.dump_json(costs, indent=1).decode())


def remember_cost(function: ProgramPlan, shares: Mapping[int, int], cost: Cost) -> None:
    """Keeps what was measured, unless the program cannot be read any more."""
    with contextlib.suppress(OSError):
        keep_cost(cost_key(function, shares), cost)


def known_switch_ns(controller: str) -> float | None:
    """From the decision until the next function runs, as it was measured here before."""
    cost = kept_costs().get(_switch_key(controller))
    return cost.ns if cost and cost.ns > 0 else None


def remember_switch(controller: str, ns: float) -> None:
    """What a switch took at the start of a run."""
    if ns > 0:
        keep_cost(_switch_key(controller), Cost(ns, ns, ns, 0.0))


def _switch_key(controller: str) -> str:
    return f"switch {controller} {cpu_model()}"


def known_costs(plan: Plan, sizes: Sequence[int] = ()) -> dict[str, Cost]:
    """Costs that were measured here before; `sizes` instead of the traffic's."""
    return costs_of(plan.functions, shares_of(plan.traffic, sizes))


def costs_of(functions: Iterable[ProgramPlan], wanted: Mapping[int, int]) -> dict[str, Cost]:
    """Costs that were measured on this machine before, over these packet sizes."""
    kept = kept_costs()
    found: dict[str, Cost] = {}
    for function in functions:
        with contextlib.suppress(OSError):  # of a program that we may execute and not read
            if cost := kept.get(cost_key(function, wanted)):
                found[function.name] = cost
    return found


def alike(plan: Plan, names: Iterable[str], sizes: Sequence[int] = ()) -> list[list[str]]:
    """Functions that cost the same, together: same cost key, same CPU, both or neither with a link
    to another function. A program that is gone is like no other.
    """
    shares = shares_of(plan.traffic, sizes)
    groups: dict[tuple[bool, int, str], list[str]] = {}
    for name in names:
        function = plan.function(name)
        try:
            key = cost_key(function, shares)
        except OSError:
            key = f"function {name}"
        groups.setdefault((name in plan.linked, function.cpu, key), []).append(name)
    return [*groups.values()]
