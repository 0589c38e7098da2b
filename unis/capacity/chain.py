"""A chain as the model has it: functions with costs and CPUs, and the links between them."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from unis.capacity.parameter import Parameter, Source
from unis.chain.values import EGRESS, INGRESS, mean_cost

HARDWARE = "sriov"  # the kind of link that is the NIC's own switch


@dataclass(frozen=True)
class FunctionCost:
    """What a function costs a packet, with its rings: one number, or one for each packet size."""

    by_size: float | Mapping[int, float]
    unit: Literal["cycles", "ns"]
    source: Source
    note: str = ""
    is_guess: bool = False  # nobody stated or measured it

    def mean(self, sizes: Mapping[int, int]) -> Parameter:
        """Over a mix of sizes."""
        value = mean_cost(self.by_size, sizes)
        return Parameter(value=value, unit=self.unit, source=self.source, note=self.note)


@dataclass(frozen=True)
class ModelFunction:
    """A function, and the CPU that it runs on."""

    name: str
    cpu: int
    cost: FunctionCost


@dataclass(frozen=True)
class ModelLink:
    """An edge of a chain. `kinds`: the links that packets pass on it, of which the engine carries
    packets from one to the next. `share`: of the chain's packets.
    """

    origin: str  # a function, or `ingress`
    to: str  # a function, or `egress`; empty: copies end here
    kinds: tuple[str, ...] = ("ring",)
    share: float = 1.0
    is_copy: bool = False  # made by the engine, of packets that another edge has


@dataclass(frozen=True)
class ModelChain:
    """A chain. `sizes`: bytes of frames with FCS, and how many packets have them."""

    name: str
    functions: Mapping[str, ModelFunction]
    links: tuple[ModelLink, ...]
    sizes: Mapping[int, int] = field(default_factory=lambda: {64: 1})
    nic: str | None = None  # whose ports are its ends; None: UNiS's source and sink
    back: bool = False  # it enters where others leave

    @classmethod
    def path(
        cls,
        name: str,
        functions: tuple[ModelFunction, ...],
        kind: str = "ring",
        **more: object,
    ) -> "ModelChain":
        """A chain without branches, with links of one kind. `more`: further fields."""
        ends = [INGRESS, *(each.name for each in functions), EGRESS]
        links = tuple(ModelLink(*pair, (kind,)) for pair in itertools.pairwise(ends))
        plain = cls(name, {each.name: each for each in functions}, links)
        return replace(plain, **more)  # type: ignore[arg-type]

    @property
    def is_path(self) -> bool:
        """Whether every packet takes the same way."""
        return all(link.share == 1 and link.to for link in self.links) and len(
            self.links
        ) == len(self.functions) + 1  # fmt: skip

    @property
    def order(self) -> tuple[ModelFunction, ...]:
        """Its functions in the order of the links."""
        return tuple(self.functions[link.to] for link in self.links if link.to in self.functions)

    @property
    def mean_size(self) -> float:
        """Bytes of a packet with FCS."""
        return self.mean({size: float(size) for size in self.sizes})

    def mean(self, by_size: Mapping[int, float]) -> float:
        """Of what is known for each of its sizes."""
        whole = sum(self.sizes.values())
        return sum(by_size[size] * share for size, share in self.sizes.items()) / whole

    def visits(self, function: str) -> float:
        """How often a packet passes it on average."""
        return sum(link.share for link in self.links if link.to == function)

    def linked_by(self, kind: str) -> "ModelChain":
        """The same chain with all links of one kind."""
        return replace(self, links=tuple(replace(link, kinds=(kind,)) for link in self.links))

    def of_size(self, size: int) -> "ModelChain":
        """The same chain with packets of one size."""
        return replace(self, sizes=MappingProxyType({size: 1}))

    def of_length(self, length: int) -> "ModelChain":
        """A path with so many functions: the first ones, or all of them again and again, each on
        the CPU of its namesake.
        """
        there = self.order
        taken = [there[at % len(there)] for at in range(length)]
        named = tuple(
            use if at < len(there) else replace(use, name=f"{use.name} ({1 + at // len(there)})")
            for at, use in enumerate(taken)
        )
        # Of which kinds a link is, its downstream function decides, as in the file.
        kinds = [self.links[at % len(there)].kinds for at in range(length)]
        ends = [INGRESS, *(use.name for use in named), EGRESS]
        links = [
            ModelLink(*pair, of)
            for pair, of in zip(
                itertools.pairwise(ends), [*kinds, self.links[-1].kinds], strict=True
            )
        ]
        return replace(self, functions={use.name: use for use in named}, links=tuple(links))

    def placed(self, cpus: Mapping[str, int]) -> "ModelChain":
        """The same chain with functions on other CPUs."""
        moved = {
            name: replace(use, cpu=cpus.get(name, use.cpu)) for name, use in self.functions.items()
        }
        return replace(self, functions=moved)


def functions_of(chains: Iterator[ModelChain] | tuple[ModelChain, ...]) -> dict[str, ModelFunction]:
    """All functions of the chains, each once."""
    return {name: use for chain in chains for name, use in chain.functions.items()}
