"""What the SCC paper found, as `paper.toml` has it."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

_FILE = Path(__file__).parent / "paper.toml"


class PaperValue(BaseModel):
    """A figure of the paper beside one of ours."""

    where: str
    what: str
    unit: str
    low: float
    high: float  # the same as `low` where the paper has one number

    def __str__(self) -> str:
        number = f"{self.low:g}" if self.low == self.high else f"{self.low:g}–{self.high:g}"
        return f"{number} {self.unit}".strip() + f" ({self.where})"


@cache
def paper() -> Mapping[str, Any]:
    """The file."""
    return tomllib.loads(_FILE.read_text())


def remarks(experiment: str) -> list[str]:
    """What does not close in the paper where this experiment's figures stand."""
    found = [remark["text"] for remark in paper()["remark"] if remark["experiment"] == experiment]
    return [" ".join(text.split()) for text in found]


def latency_of_chain(link: str, name: str, length: int) -> PaperValue | None:
    """Median latency of a chain, by Figs. 9 and 10; None: the paper does not tell."""
    what = "median latency, by the paper's linear fit from 2 on"
    fit = paper()["fig10"].get(name)
    if link == "ovs" or fit is None or "intercept" not in fit or length < 2:
        return None
    value = fit["slope"] * length + fit["intercept"]
    return PaperValue(where="Fig. 10, its line", what=what, unit="µs", low=value, high=value)


def slope(link: str, name: str) -> PaperValue | None:
    """µs that each further router adds."""
    figure, where = ("fig9", "Fig. 9") if link == "ovs" else ("fig10", "Fig. 10")
    fit = paper()[figure].get(name)
    if fit is None:
        return None
    return PaperValue(
        where=where, what="latency of each further function", unit="µs",
        low=fit["slope"], high=fit["slope"],
    )  # fmt: skip


def latency_of_batch(batch: int, size: int) -> PaperValue | None:
    """Median latency of one router at the rate that saturates it without batches. For batches that
    the paper tells no median of, what its profiler calculates.
    """
    fig8 = paper()["fig8"]
    what = "median latency at the rate that saturates batch 1"
    found = None
    if batch == 1:
        found = fig8["single"]
    elif fig8["batches"]["least"] <= batch <= fig8["batches"]["most"]:
        found = fig8["batches"]
    if found:
        return PaperValue(
            where="Fig. 8", what=what, unit="µs", low=found["low"], high=found["high"]
        )
    us = paper()["table7"].get(str(batch)) if size == 64 else None
    if us is None:
        return None
    return PaperValue(
        where="Table 7, calculated", what="latency, calculated", unit="µs", low=us, high=us
    )


def contention(link: str, name: str, length: int) -> PaperValue | None:
    """Scheduling contention ÷ run time."""
    side = "ovs" if link == "ovs" else "b2b"
    value = paper()["table8"].get(f"{side}_{name}", {}).get(str(length))
    if value is None:
        return None
    what = "scheduling contention ÷ run time"
    return PaperValue(where="Table 8", what=what, unit="", low=value, high=value)


# ------------------------------------------------------------------ its profiler


def _one(where: str, what: str, unit: str, value: float) -> PaperValue:
    return PaperValue(where=where, what=what, unit=unit, low=value, high=value)


def primitive(name: str) -> PaperValue | None:
    """A context switch of a scheduling class, or `call`."""
    ns = paper()["table2"].get(name)
    what = "a system call of network I/O" if name == "call" else "a context switch"
    return None if ns is None else _one("Table 2", what, "ns", ns)


def memory(level: str) -> PaperValue:
    """Of L1, L2, L3 or DRAM."""
    found = paper()["fig3"][level]
    return PaperValue(where="Fig. 3", what="an access", unit="ns", **found)


def context(name: str) -> tuple[PaperValue, Sequence[float]]:
    """Latency of the router, and its references to L1, L2, L3 and DRAM."""
    found = paper()["table4"][name]
    return _one("Table 4", "latency, calculated", "µs", found["us"]), found["references"]


def fig5() -> tuple[PaperValue, PaperValue]:
    """µs that each further router adds: measured, and calculated."""
    found = paper()["fig5"]
    return (
        _one("Fig. 5", "latency of each further function", "µs", found["measured"]),
        _one("Fig. 5", "the same, calculated", "µs", found["calculated"]),
    )


def wait(link: str, name: str, length: int) -> PaperValue | None:
    """Waiting ÷ run time."""
    value = paper()["table5"]["wait"].get(str(length)) if link == "ovs" else None
    if value is None or name != "default":
        return None
    return _one("Table 5", "waiting ÷ run time", "", value)
