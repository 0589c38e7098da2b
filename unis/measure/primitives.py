"""What memory, switches, calls and probes take on this machine, as `unis calibrate` measured it.

The profiler of the SCC paper calls them primitive latencies (its Table 2 and Fig. 3).
"""

import datetime
import platform
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from unis.errors import UnisError
from unis.runtime.costs import cpu_model
from unis.runtime.kept import KeptFile, age_remark

Group = Literal["memory", "call", "switch", "wake_up", "timer", "packet", "probe"]

# CPUs that others keep busy. The kernel counts in ticks of 10 ms.
DISTURBED_CPUS = 0.05


class MedianNs(BaseModel):
    """The median of samples, with its interval of 95 %. A difference may be below 0."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    samples: int = Field(ge=6)  # fewer have no such interval
    median_ns: float
    low_ns: float
    high_ns: float

    @model_validator(mode="after")
    def _around(self) -> "MedianNs":
        if not self.low_ns <= self.median_ns <= self.high_ns:
            raise ValueError("the median is outside its interval")
        return self


class Primitive(BaseModel):
    """One of them, or why it is not there."""

    model_config = ConfigDict(extra="forbid")

    group: Group
    name: str
    labels: dict[str, int | str] = {}  # numbers have their unit in the name: `array_bytes`
    provider: str  # of the time
    ns: MedianNs | None = None
    missing: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "Primitive":
        if (self.ns is None) == (self.missing is None):
            raise ValueError("either `ns` or `missing` must be there")
        return self


class Primitives(BaseModel):
    """All that was measured of one CPU, and where."""

    model_config = ConfigDict(extra="forbid")

    cpu_model: str
    kernel: str
    measured: AwareDatetime
    cpu: int
    other_cpu: int | None  # from which it was woken up
    others_cpus: float = Field(0.0, ge=0)  # CPUs that others kept busy meanwhile
    rows: list[Primitive]

    @classmethod
    def of(
        cls, cpu: int, other_cpu: int | None, rows: list[Primitive], others_cpus: float = 0.0
    ) -> "Primitives":
        """Measured just now, on this machine."""
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        return cls(
            cpu_model=cpu_model(), kernel=platform.release(), measured=now, cpu=cpu,
            other_cpu=other_cpu, rows=rows, others_cpus=others_cpus,
        )  # fmt: skip

    def find(self, group: Group, name: str, **labels: int | str) -> Primitive | None:
        """The first one with these labels, whatever others it has."""
        return next(
            (
                row
                for row in self.rows
                if (row.group, row.name) == (group, name) and labels.items() <= row.labels.items()
            ),
            None,
        )

    def disturbed(self) -> str | None:
        """What a reader of the figures must know; None: hardly anything else ran."""
        if self.others_cpus < DISTURBED_CPUS:
            return None
        return (
            f"Disturbed: others kept {self.others_cpus:.2f} CPUs busy meanwhile. Times may be too "
            "long, which no interval shows; measure again while nothing else runs."
        )

    def stale(self) -> str | None:
        """Why it does not hold here; None: it does."""
        for what, then, now in (
            ("CPU", self.cpu_model, cpu_model()),
            ("kernel", self.kernel, platform.release()),
        ):
            if then != now:
                return f"it is of another {what} ({then}): run `unis calibrate --only machine`"
        return None

    def remark(self) -> str | None:
        """What who reckons with it must know; None: it is of today."""
        return age_remark(self.measured)


FILE = KeptFile("machine.json", Primitives)


def kept() -> Primitives:
    """What was measured here last; UnisError if nothing was, or on another CPU or kernel."""
    found = FILE.read()
    if stale := found.stale():
        raise UnisError(f"{FILE.path}: {stale}")
    return found
