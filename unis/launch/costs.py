"""Costs of functions that the Cycle Estimator measured here before."""

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from unis.chain.model import Function, SyntheticSource, Traffic
from unis.v1 import engine_pb2 as pb

_LARGEST_FILE = 64 << 20  # bytes of an argument's file that are hashed
MIX_SIZES = {"imix": [64, 594, 1518], "datacenter": [200, 1400]}
# Packet sizes for a function whose cost depends on them (section 5.1.2): smallest to MTU.
MTU_SIZES = [64, 512, 1024, 1500]


class SizeCost(BaseModel):
    """What a packet of one size costs; quartiles of the rounds."""

    size: int  # bytes with FCS
    ns: float
    ns_q1: float
    ns_q3: float
    cycles: float


class Cost(BaseModel):
    """What a packet costs, the mean over the sizes."""

    ns: float
    ns_q1: float
    ns_q3: float
    cycles: float
    sizes: list[SizeCost] = []

    @classmethod
    def of(cls, estimate: pb.NfEstimate) -> "Cost":
        """As the engine measured it."""
        return cls(
            ns=estimate.ns,
            ns_q1=estimate.ns_q1,
            ns_q3=estimate.ns_q3,
            cycles=estimate.cycles,
            sizes=[
                SizeCost(size=s.size, ns=s.ns, ns_q1=s.ns_q1, ns_q3=s.ns_q3, cycles=s.cycles)
                for s in estimate.sizes
            ],
        )


_Costs = TypeAdapter(dict[str, Cost])


def sizes_of(traffic: Traffic) -> list[int]:
    """The packet sizes that a function's cost is taken over: those that it will see."""
    match traffic.source:
        case SyntheticSource(size=str(mix)):
            return MIX_SIZES[mix]
        case SyntheticSource(size=int(size)):
            return [size]
        case _:
            return MTU_SIZES


def cpu_model() -> str:
    """The name of the CPU, as the kernel tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "CPU part")):
            return line.partition(":")[2].strip()
    return "unknown CPU"


def cost_key(program: Path, function: Function, directory: Path, sizes: Sequence[int]) -> str:
    """Changes with anything that may change the cost: program, arguments, their files, CPU."""
    digest = hashlib.sha256(program.read_bytes())
    parts = [*function.args, str(function.yield_every), str(list(sizes)), cpu_model()]
    for part in parts:
        digest.update(f"\0{part}".encode())
    for argument in function.args:
        file = directory / argument.rpartition("=")[2]
        if file.is_file() and file.stat().st_size <= _LARGEST_FILE:
            digest.update(file.read_bytes())
    return digest.hexdigest()


class CostCache:
    """Costs by key, in one JSON file."""

    def __init__(self, file: Path | None = None) -> None:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._file = file or home / "unis" / "costs.json"

    def get(self, key: str) -> Cost | None:
        """The cost that was measured, if it was."""
        return self._read().get(key)

    def put(self, key: str, cost: Cost) -> None:
        """Keeps a cost; a cache that cannot be written is no reason to fail."""
        costs = self._read() | {key: cost}
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._file.parent)
            with os.fdopen(handle, "wb") as stream:
                stream.write(json.dumps(_Costs.dump_python(costs), indent=1).encode())
            Path(name).replace(self._file)
        except OSError:
            return

    def _read(self) -> dict[str, Cost]:
        try:
            return _Costs.validate_json(self._file.read_bytes())
        except (OSError, ValidationError):
            return {}


# Rounds of the estimator: bursts timed for each packet size.
ESTIMATE_ROUNDS = 2000
