"""An NSD and its VNFDs as a chain file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from unis.chain.document import Document
from unis.chain.model import API_VERSION
from unis.chain.problem import LocatedProblem
from unis.chain.values import LONGEST_CHAIN, LONGEST_NAME
from unis.etsi.descriptors import FoundDescriptors, found_in
from unis.etsi.matches import match_of
from unis.etsi.names import ChainNames
from unis.etsi.paths import PassedVnf, PathReader
from unis.etsi.programs import StatedPrograms, function_of
from unis.etsi.qualities import LinkReader, goal_of, rate_of
from unis.etsi.reasons import why_not_in_chain
from unis.etsi.tree import DataNode, DescriptorError, MarkedDocument


@dataclass(frozen=True)
class ImportedChain:
    """A chain file as plain data, and what is to be said of it."""

    data: dict[str, Any]
    renamed: list[LocatedProblem]  # ids that a chain file cannot have as names
    left: list[LocatedProblem]  # parts of descriptors that are not carried over, and why


@dataclass(frozen=True)
class Wishes:
    """What the user chooses."""

    programs: StatedPrograms = field(default_factory=StatedPrograms)
    cpu: int = 1  # of all functions
    nsd: str | None = None  # id; None: the only one
    flavour: str | None = None  # id of a df of the NSD; None: the only one


def imported(documents: Sequence[Document], wishes: Wishes) -> ImportedChain:
    """The chain file for the NSD in `documents`, one chain for each nfpd.

    Raises DescriptorError with a line for each problem. Whether the data is a valid chain file,
    `unis.chain.load` says.
    """
    marked = [MarkedDocument(document) for document in documents]
    importer = _Importer(found_in(marked), wishes, marked)
    data = importer.chain_file()
    left = [
        document.problem(at, f"not carried over: {document.reason(at) or why_not_in_chain(at)}")
        for document in marked
        for at in document.unread()
    ]
    return ImportedChain(data, importer.renamed, left)


class _Importer:
    def __init__(
        self, found: FoundDescriptors, wishes: Wishes, documents: Sequence[MarkedDocument]
    ) -> None:
        self._found = found
        self._wishes = wishes
        self._nsd = found.nsd(wishes.nsd, documents)
        self._flavour = self._chosen_flavour()
        self._profiles = self._flavour.keyed("vnf-profile")
        self._links = LinkReader(self._nsd, self._flavour)
        self._functions = ChainNames(LONGEST_NAME, "vnf")
        self._chains = ChainNames(LONGEST_CHAIN, "path")
        self.renamed: list[LocatedProblem] = []

    def _chosen_flavour(self) -> DataNode:
        flavours = self._nsd.keyed("df")
        known = ", ".join(flavours)
        wished = self._wishes.flavour
        if wished is not None and wished not in flavours:
            raise self._nsd.error(f"there is no df `{wished}`; choose one of {known or '(none)'}")
        if not flavours:
            raise self._nsd.error("has no df, which lists the VNFs; add one with a vnf-profile")
        if wished is None and len(flavours) > 1:
            raise self._nsd.error(f"has several df; choose one of {known} by --flavour")
        chosen = flavours[wished] if wished is not None else next(iter(flavours.values()))
        chosen.text("id")
        return chosen

    def chain_file(self) -> dict[str, Any]:
        """All of it. DescriptorError."""
        nsd = self._nsd
        name = self._renamed(nsd, ChainNames(LONGEST_NAME, "service"))
        paths = self._paths()
        problems: list[LocatedProblem] = []
        passed: list[list[PassedVnf]] = []
        for reader, path in paths:
            try:
                passed.append(reader.vnfs(path))
            except DescriptorError as error:
                problems += error.problems
        self._check_wishes()
        used = {vnf.profile for path in passed for vnf in path}
        names: dict[str, str] = {}
        functions: dict[str, Any] = {}
        for profile, node in self._profiles.items():
            if profile in used:
                try:
                    names[profile] = self._renamed(node, self._functions)
                    functions[names[profile]] = self._function(profile, node)
                except DescriptorError as error:
                    problems += error.problems
        for path_vnfs in passed:
            try:
                self._check_points(path_vnfs)
            except DescriptorError as error:
                problems += error.problems
        if problems:
            raise DescriptorError(list(dict.fromkeys(problems)))
        return self._written(name, functions, names, list(zip(paths, passed, strict=True)))

    def _written(
        self,
        name: str,
        functions: dict[str, Any],
        names: dict[str, str],
        paths: list[tuple[tuple[PathReader, DataNode], list[PassedVnf]]],
    ) -> dict[str, Any]:
        ids = [path.peek("id") for (_, path), _ in paths]
        chains: dict[str, Any] = {}
        data: dict[str, Any] = {
            "apiVersion": API_VERSION, "name": name, "defaults": {"cpu": self._wishes.cpu},
            "functions": functions, "chains": chains,
        }  # fmt: skip
        for (reader, path), vnfs in paths:
            own = path.peek("id") or ""
            twice = ids.count(own) > 1
            wished = f"{reader.graph.peek('id')}-{own}" if twice else own
            chain: dict[str, Any] = {}
            if match := _classes(reader.positions(path)):
                chain["match"] = match
            chain["path"] = [names[vnf.profile] for vnf in vnfs]
            links = self._links.passed(vnfs)
            if goal := goal_of(links):
                chain["slo"] = {"p95_latency": goal}
            if len(paths) == 1 and (rate := rate_of(links)):
                data["traffic"] = {"rate": rate}
            chains[self._renamed(path, self._chains, wished)] = chain
        return data

    def _renamed(self, node: DataNode, names: ChainNames, wished: str | None = None) -> str:
        own = node.text("id") or ""
        name = names.name(own if wished is None else wished)
        if name != own:
            sentence = f"is called `{name}`; a name in a chain file is unique, of a-z, 0-9, - and _"
            self.renamed.append(node.marked.problem(node.location, sentence))
        return name

    def _paths(self) -> list[tuple[PathReader, DataNode]]:
        graphs = self._nsd.keyed("vnffgd")
        found = []
        for graph in graphs.values():
            paths = graph.keyed("nfpd").values()
            if paths:
                graph.text("id")
            found += [(PathReader(graph, self._profiles), path) for path in paths]
        if not found:
            raise self._nsd.error(
                "has no vnffgd with an nfpd, so its VNFs have no order; add one, and name the VNFs "
                "in its positions"
            )
        return found

    def _check_wishes(self) -> None:
        known = {*self._profiles, *self._found.vnfds}
        for profile in self._profiles.values():
            known.add(profile.peek("vnfd-id") or "")
        for name in self._wishes.programs.ids:
            if name not in known:
                raise self._nsd.error(
                    f"`{name}` of --program, --command or --image is neither a vnf-profile nor a "
                    f"VNFD; choose one of {', '.join(sorted(known - {''}))}"
                )

    def _function(self, profile: str, node: DataNode) -> dict[str, Any]:
        vnfd_id = node.text("vnfd-id")
        if vnfd_id is None:
            raise node.error("names no VNFD; add vnfd-id")
        listed = self._nsd.texts("vnfd-id")
        if listed and vnfd_id not in [name for name, _ in listed]:
            raise node.error(f"is of the VNFD `{vnfd_id}`, which vnfd-id of the NSD lacks; add it")
        vnfd = self._found.vnfds.get(vnfd_id)
        if vnfd is not None:
            vnfd.text("id")
        return function_of(node, (profile, vnfd_id), vnfd, self._wishes.programs)

    def _check_points(self, vnfs: Iterable[PassedVnf]) -> None:
        for vnf in vnfs:
            vnfd = self._found.vnfds.get(self._profiles[vnf.profile].peek("vnfd-id") or "")
            if vnfd is None:
                continue
            points = vnfd.keyed("ext-cpd")
            for name, node in vnf.points:
                if name not in points:
                    raise node.error(
                        f"there is no ext-cpd `{name}` in the VNFD `{vnfd.peek('id')}`; choose one "
                        f"of {', '.join(points) or '(none)'}"
                    )
                _mark_point(vnfd, points[name])


def _mark_point(vnfd: DataNode, point: DataNode) -> None:
    """A connection point of a path is a port of the function; so is that of the VDU behind it."""
    point.text("id")
    behind = point.get("int-cpd")
    if behind is None or not isinstance(behind.value, dict):
        return
    vdu = behind.text("vdu-id")
    own = behind.text("cpd")
    node = vnfd.keyed("vdu").get(vdu or "")
    if node is None:
        raise behind.error(f"there is no VDU `{vdu}`; add it to the VNFD")
    inner = node.keyed("int-cpd").get(own or "")
    if inner is not None:
        inner.text("id")


def _classes(positions: list[DataNode]) -> list[dict[str, Any]]:
    """The matches of a chain: those of the one position of its path that has some."""
    having = [position for position in positions if position.items("match-attributes")]
    if len(having) > 1:
        raise having[1].error(
            "has match-attributes, and a position before it too; a chain chooses its packets once, "
            "at its ingress: keep those of the first position"
        )
    return [match_of(entry) for each in having for entry in each.keyed("match-attributes").values()]
