"""Chains of the paper's synthetic function, macswap, on one CPU (sections 3 and 5.1.2)."""

from typing import Any

from unis import built
from unis.chain.load import LoadedChain
from unis.chain.model import API_VERSION, ChainFile
from unis.simulate.scenario import PAPER_YIELD_EVERY

COSTS = ("light", "medium", "heavy", "variable")
# Cycles by the packet's size without FCS: medium for 200 bytes, heavy for 1400, as the paper says
# of its trace (section 5.4).
_VARIABLE = "64:50,196:150,1396:250"
_SIZES = {"variable": "datacenter"}
_SMALLEST = 64  # bytes with FCS


def macswap_chain(
    name: str, cost: str, length: int, cpu: int, *, ring: int | None = None, fused: bool = False
) -> LoadedChain:
    """`length` functions in a row, or one process that does what they would do.

    `cost` as macswap's --cost, or `variable`; `ring`: slots of each ring, absent: as by default.
    """
    args = ["--cost", _VARIABLE if cost == "variable" else cost]
    if fused:
        args += ["--stages", str(length)]
    function: dict[str, Any] = {"program": "macswap", "args": args}
    functions = {
        f"macswap{at}": dict(function, yield_every=PAPER_YIELD_EVERY)
        for at in range(1, 2 if fused else length + 1)
    }
    chain: dict[str, Any] = {"path": list(functions)}
    if ring is not None:
        chain["ring"] = ring
    data = {
        "apiVersion": API_VERSION,
        "name": name,
        "traffic": {"source": {"kind": "synthetic", "size": _SIZES.get(cost, _SMALLEST)}},
        "defaults": {"cpu": cpu},
        "functions": functions,
        "chains": {"chain": chain},
    }
    return LoadedChain(built.examples_directory() / name, ChainFile.model_validate(data))
