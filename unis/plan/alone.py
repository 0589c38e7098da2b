"""A function by itself, between two memifs of the engine, where it can be measured."""

from unis.chain import defaults
from unis.chain.link import Link
from unis.chain.load import LoadedChain
from unis.chain.model import SchedulerPart
from unis.chain.values import INGRESS


def alone(chain: LoadedChain, name: str) -> LoadedChain:
    """The same traffic and as many ports, but no other function."""
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
    link = Link.model_validate({"from": INGRESS, "to": name, "kind": "memif"})
    parts = {
        "functions": {name: file.functions[name]},
        "chains": chains,
        "links": [link],
        "scheduler": SchedulerPart(),
    }
    return LoadedChain(chain.path, file.model_copy(update=parts), chain.document)
