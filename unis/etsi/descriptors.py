"""Finds the NSDs and VNFDs in files, in the forms in which ETSI and OSM write them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from unis.etsi.tree import DataNode, DescriptorError, MarkedDocument, bare

_BEGINNING = "expected JSON or YAML of SOL006, which begins with nfv, nsd or vnfd"


@dataclass
class FoundDescriptors:
    """NSDs and VNFDs by their ids."""

    nsds: dict[str, DataNode] = field(default_factory=dict)
    vnfds: dict[str, DataNode] = field(default_factory=dict)

    def nsd(self, wished: str | None, documents: Iterable[MarkedDocument]) -> DataNode:
        """The one called `wished`, or the only one. DescriptorError."""
        if wished is not None and wished in self.nsds:
            return self.nsds[wished]
        root = next(iter(documents)).root
        known = ", ".join(self.nsds)
        if not self.nsds:
            raise root.error("no file has an NSD, which orders the VNFs; name its file too")
        if wished is not None:
            raise root.error(f"there is no NSD `{wished}`; choose one of {known}")
        if len(self.nsds) > 1:
            raise root.error(f"there are several NSDs; choose one of {known} by --nsd")
        return next(iter(self.nsds.values()))


def found_in(documents: Iterable[MarkedDocument]) -> FoundDescriptors:
    """All descriptors of `documents`. DescriptorError if a file has none, or an id is there twice.

    ETSI has them in `nfv: {nsd: […], vnfd: […]}`; a package of OSM has `nsd: {nsd: […]}` in one
    file and `vnfd: {…}` in another.
    """
    found = FoundDescriptors()
    for document in documents:
        _check(document)
        outer = document.root
        outer.mark()
        inner = outer.get("nfv")
        if inner is not None:
            inner.mark()
        parts = [part for part in (inner, outer) if part is not None]
        for kind, known in (("nsd", found.nsds), ("vnfd", found.vnfds)):
            for part in parts:
                for node in _entries(part, kind):
                    _add(known, kind, node)
    return found


def _check(document: MarkedDocument) -> None:
    root = document.root
    if document.document.problems:
        raise DescriptorError(document.document.problems)
    if isinstance(root.value, str) and root.value.lstrip().startswith("<"):
        raise root.error(f"is XML; {_BEGINNING}; pyang and yanglint convert it")
    if not isinstance(root.value, dict):
        raise root.error(f"is no descriptor; {_BEGINNING}")
    keys = {bare(key) for key in root.value}
    if "tosca_definitions_version" in keys:
        raise root.error(f"is TOSCA (SOL001); {_BEGINNING}")
    if keys & {"nsd-catalog", "vnfd-catalog"}:
        raise root.error(f"is in OSM's own model of before its release 9; {_BEGINNING}")
    if not keys & {"nfv", "nsd", "vnfd"}:
        raise root.error(f"is no descriptor; {_BEGINNING}")


def _entries(part: DataNode, kind: str) -> Iterator[DataNode]:
    node = part.get(kind)
    if node is None:
        return
    if isinstance(node.value, dict):
        if node.get(kind) is None:
            yield node
            return
        node.mark()
        part = node
    yield from part.items(kind)


def _add(known: dict[str, DataNode], kind: str, node: DataNode) -> None:
    name = node.peek("id")
    if name is None:
        raise node.error(f"has no `id`; add that of the {kind.upper()}")
    if name in known:
        other = known[name].marked.document.file
        raise node.error(f"the {kind.upper()} `{name}` is in {other} too; name one of them")
    known[name] = node
