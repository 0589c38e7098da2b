"""The chains: some fit the parameters of the model, the others test it. All are up at once.

Traffic flows through one chain at a time. The functions of the others sleep meanwhile.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unis import built, links
from unis.chain.load import LoadedChain
from unis.chain.model import API_VERSION, ChainFile

KINDS = ("ring", "memif", "vhost", "veth", "ovs")
KERNEL_KINDS = ("veth", "ovs")  # their links are devices of the kernel
CARRIED = ("ovs",)  # by a process of its own
OF_ENGINE = ("ring",)  # packets are passed on and not copied
_FIRST_PORT = 5001  # UDP, of the first chain's packets
# What macswap's ports are called, by kind. Without names it would look for packets at both ports.
_PORTS = {"memif": "net_memif", "veth": "net_mmsg", "ovs": "net_mmsg"}


@dataclass(frozen=True)
class ModelShape:
    """A chain of macswap, by what each function works on a packet."""

    name: str
    cycles: tuple[int, ...]  # of the imitated work, by function
    sizes: tuple[int, ...]  # of frames, bytes with FCS
    fits: bool  # else it tests

    @property
    def functions(self) -> list[str]:
        """Their names."""
        return [f"{self.name}{at}" for at in range(1, len(self.cycles) + 1)]

    @property
    def title(self) -> str:
        """For people."""
        same = len({*self.cycles}) == 1 and len(self.cycles) > 1
        return (
            f"{len(self.cycles)} × {self.cycles[0]}" if same else " + ".join(map(str, self.cycles))
        )


# No length and no cost of those that test is among those that fit.
IDLE = ModelShape("idle", (0,), (64,), fits=True)
DEAR = ModelShape("dear", (1000,), (64,), fits=True)
PAIR = ModelShape("pair", (600, 600), (64, 1500), fits=True)
ROW = ModelShape("row", (100,) * 4, (64, 1500), fits=True)
MIXED = ModelShape("mixed", (1200, 50, 400), (64, 512), fits=False)
LONG = ModelShape("long", (150,) * 5, (64, 256, 1024), fits=False)
SHAPES = (IDLE, DEAR, PAIR, ROW, MIXED, LONG)
# Of `overload`, in runs of its own: idle functions of other chains would have slices there.
THREE = ModelShape("three", (250,) * 3, (64,), fits=False)


@dataclass(frozen=True)
class ModelCase:
    """A chain with frames of one size."""

    shape: ModelShape
    size: int

    @property
    def name(self) -> str:
        """Of windows, and for people."""
        return f"{self.shape.title} cycles, {self.size} B"


CASES = tuple(ModelCase(shape, size) for shape in SHAPES for size in shape.sizes)


def port_of(at: int) -> int:
    """Of the packets of a chain, by its place among the shapes."""
    return _FIRST_PORT + at


def chains_of(kind: str, shapes: Sequence[ModelShape], capture: Path, cpu: int) -> LoadedChain:
    """As `unis up` reads it; `capture`: what the source sends at first."""
    data = {
        "apiVersion": API_VERSION,
        "name": f"bench-model-{kind}",
        "traffic": {"source": {"kind": "pcap", "file": str(capture)}},
        "scheduler": {"max_delay_us": 0},  # at full load nobody sleeps between packets
        "defaults": {"cpu": cpu},
        "functions": {
            name: _function(kind, cycles, last=name == shape.functions[-1])
            for shape in shapes
            for name, cycles in zip(shape.functions, shape.cycles, strict=True)
        },
        "chains": {
            shape.name: {"path": shape.functions, "match": [{"dst_port": port_of(at)}]}
            for at, shape in enumerate(shapes)
        },
        "links": [link for shape in shapes for link in _links(kind, shape)],
    }
    file = built.examples_directory() / f"bench-model-{kind}.yaml"
    return LoadedChain(file, ChainFile.model_validate(data))


def missing(kind: str) -> str:
    """Why links of a kind cannot be measured here; empty: they can."""
    if kind not in links.KINDS:
        return f"this UNiS has no links of kind {kind}"
    return links.KINDS[kind].hindrance()


def _function(kind: str, cycles: int, *, last: bool) -> dict[str, Any]:
    ports = _ports(kind, last=last)
    words = ["--ports", ",".join(ports)] if ports else []
    return {"program": "macswap", "args": [*words, "--cost", str(cycles)]}


def _ports(kind: str, *, last: bool) -> Sequence[str]:
    """From which it receives, and to which it sends."""
    if kind == "vhost":  # of two functions the first has the device, the other one the driver
        return "net_virtio_user0", "net_virtio_user1" if last else "net_vhost1"
    return [f"{_PORTS[kind]}{at}" for at in (0, 1)] if kind in _PORTS else []


def _links(kind: str, shape: ModelShape) -> list[Mapping[str, Any]]:
    driver = {"driver": "mmsg"} if kind in KERNEL_KINDS else {}
    ends = ("ingress", *shape.functions, "egress")
    return [
        {"from": origin, "to": to, "kind": kind, **driver}
        for origin, to in itertools.pairwise(ends)
    ]
