"""Chains of the paper's synthetic function, macswap, on one CPU (sections 3 and 5.1.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unis import built
from unis.chain import defaults
from unis.chain.load import LoadedChain
from unis.chain.model import API_VERSION, ChainFile
from unis.chain.values import ControllerName
from unis.simulate.scenario import PAPER_YIELD_EVERY

COSTS = ("light", "medium", "heavy", "variable")
# Cycles by the packet's size without FCS: medium for 200 bytes, heavy for 1400, as the paper says
# of its trace (section 5.4).
_VARIABLE = "64:50,196:150,1396:250"
_SIZES = {"variable": "datacenter"}
_SMALLEST = 64  # bytes with FCS
_FIRST_PORT = 5001  # of packets for the first of several chains


@dataclass(frozen=True)
class Stage:
    """One function of a chain: what it costs (as macswap's --cost, or `variable`) and where."""

    cost: str
    cpu: int
    works: int = 1  # how often it repeats its work for a packet, in place of as many functions


def macswap_chain(
    name: str,
    cost: str,
    length: int,
    cpu: int,
    *,
    ring: int | None = None,
    fused: bool = False,
    controller: ControllerName = defaults.CONTROLLER,
    chains: int = 1,
    goal: str | None = None,
) -> LoadedChain:
    """`length` functions in a row, or one process that does what they would do.

    `cost` as macswap's --cost, or `variable`; `ring`: slots of each ring, absent: as by default
    under `controller`;
    `chains`: number of equal chains, each with its own functions; `goal`: on their p95 latency, as
    "100us".
    """
    path = [Stage(cost, cpu, length)] if fused else [Stage(cost, cpu)] * length
    paths = {f"chain{at}" if chains > 1 else "chain": path for at in range(1, chains + 1)}
    return chain_of(
        name, paths, size=size_of(cost), ring=ring, goal=goal,
        scheduler={"controller": controller},
    )  # fmt: skip


def size_of(cost: str) -> int | str:
    """Frames for functions that cost so much: the smallest, or the modes of the paper's trace."""
    return _SIZES.get(cost, _SMALLEST)


def chain_of(
    name: str,
    paths: Mapping[str, Sequence[Stage]],
    *,
    size: int | str = _SMALLEST,
    ring: int | None = None,
    goal: str | None = None,
    scheduler: Mapping[str, Any],
) -> LoadedChain:
    """Chains of functions, macswap1, macswap2, …, which none of them share.

    `size`: of frames, bytes with FCS, or the name of a mix; `scheduler` as in a chain file.
    """
    functions: dict[str, Any] = {}
    chains: dict[str, Any] = {}
    for at, (chain, stages) in enumerate(paths.items()):
        path = [f"macswap{len(functions) + place}" for place in range(1, len(stages) + 1)]
        functions |= {each: _function(stage) for each, stage in zip(path, stages, strict=True)}
        chains[chain] = _chain(path, ring, _FIRST_PORT + at if len(paths) > 1 else None, goal)
    data = {
        "apiVersion": API_VERSION,
        "name": name,
        "traffic": {"source": {"kind": "synthetic", "size": size}},
        "scheduler": {"max_delay_us": 0, **scheduler},  # the paper's functions never sleep
        "functions": functions,
        "chains": chains,
    }
    return LoadedChain(built.examples_directory() / name, ChainFile.model_validate(data))


def _function(stage: Stage) -> dict[str, Any]:
    args = ["--cost", _VARIABLE if stage.cost == "variable" else stage.cost]
    if stage.works > 1:
        args += ["--stages", str(stage.works)]
    return {
        "program": "macswap", "args": args, "cpu": stage.cpu, "yield_every": PAPER_YIELD_EVERY,
    }  # fmt: skip


def _chain(path: list[str], ring: int | None, port: int | None, goal: str | None) -> dict[str, Any]:
    """With the packets to `port`; None: with all."""
    chain: dict[str, Any] = {"path": path}
    if goal is not None:
        chain["slo"] = {"p95_latency": goal}
    if ring is not None:
        chain["ring"] = ring
    if port is not None:
        chain["match"] = [{"dst_port": port}]
    return chain
