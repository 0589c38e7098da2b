"""Chains of the paper's synthetic function, macswap, on one CPU (sections 3 and 5.1.2)."""

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
    `chains`: so many alike, each of functions of its own; `goal`: on their p95 latency, as "100us".
    """
    args = ["--cost", _VARIABLE if cost == "variable" else cost]
    if fused:
        args += ["--stages", str(length)]
    function: dict[str, Any] = {
        "program": "macswap", "args": args, "yield_every": PAPER_YIELD_EVERY,
    }  # fmt: skip
    count = 1 if fused else length
    paths = {
        f"chain{of}" if chains > 1 else "chain": [
            f"macswap{(of - 1) * count + at}" for at in range(1, count + 1)
        ]
        for of in range(1, chains + 1)
    }
    data = {
        "apiVersion": API_VERSION,
        "name": name,
        "traffic": {"source": {"kind": "synthetic", "size": _SIZES.get(cost, _SMALLEST)}},
        "scheduler": {"controller": controller},
        "defaults": {"cpu": cpu},
        "functions": {each: dict(function) for path in paths.values() for each in path},
        "chains": {
            of: _chain(path, ring, _FIRST_PORT + at if chains > 1 else None, goal)
            for at, (of, path) in enumerate(paths.items())
        },
    }
    return LoadedChain(built.examples_directory() / name, ChainFile.model_validate(data))


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
