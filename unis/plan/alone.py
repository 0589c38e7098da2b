"""A function by itself, between two links of the engine, where it can be measured."""

from unis.chain import defaults
from unis.chain.link import Link
from unis.chain.load import LoadedChain
from unis.chain.model import SchedulerPart
from unis.chain.values import EGRESS, INGRESS


def alone(
    chain: LoadedChain, name: str, kinds: tuple[str, str] = ("memif", "memif")
) -> LoadedChain:
    """The same traffic and as many ports, but no other function; `kinds`: of links in and out."""
    file = chain.file
    chains = {
        key: part.model_copy(
            update={
                "ring": defaults.RING,
                "path": None if part.reverse_of else [name],
                "graph": None,
            }
        )
        for key, part in file.chains.items()
        if name in chain.graph.chains[key].functions
    }
    ends = ((INGRESS, name), (name, EGRESS))
    links = [
        Link.model_validate({"from": a, "to": b, "kind": kind})
        for (a, b), kind in zip(ends, kinds, strict=True)
    ]
    parts = {
        "functions": {name: file.functions[name]},
        "chains": chains,
        "links": links,
        "scheduler": SchedulerPart(),
    }
    return LoadedChain(chain.path, file.model_copy(update=parts), chain.document)
