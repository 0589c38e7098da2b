"""A chain file as an NSD and a VNFD for each function, in the form that OSM reads."""

from dataclasses import dataclass
from typing import Any

from unis.chain.document import Document
from unis.chain.load import LoadedChain
from unis.chain.model import Chain, ChainFile
from unis.chain.problem import LocatedProblem, Location
from unis.etsi.matches import attributes_of, port_zero
from unis.etsi.programs import COMMAND, PROGRAM, vdu_of
from unis.etsi.qualities import whole_ms
from unis.etsi.reasons import why_not_in_descriptor
from unis.etsi.tree import DescriptorError, MarkedDocument

_VERSION = "1.0"
_ONLY = "default"  # the id of what there is one of
_ETHERNET = {"layer-protocol": ["ethernet"]}


@dataclass(frozen=True)
class ExportedChain:
    """Descriptors as plain data, and what is to be said of them."""

    data: dict[str, Any]
    notes: list[LocatedProblem]  # what stands in a form that only UNiS reads, or incompletely
    left: list[LocatedProblem]  # parts of the chain file that are not carried over, and why


def exported(chain: LoadedChain) -> ExportedChain:
    """Descriptors for a chain file that was read from a file.

    Raises DescriptorError if a chain has no path, or a match that a descriptor cannot have.
    """
    document = chain.document or Document(chain.path, chain.file.model_dump(by_alias=True))
    exporter = _Exporter(chain.file, MarkedDocument(document))
    data = exporter.descriptors()
    marked = exporter.marked
    left = [
        marked.problem(at, f"not carried over: {why_not_in_descriptor(at)}")
        for at in marked.unread()
    ]
    return ExportedChain(data, exporter.notes, left)


class _Exporter:
    def __init__(self, file: ChainFile, marked: MarkedDocument) -> None:
        self._file = file
        self.marked = marked
        self.notes: list[LocatedProblem] = []

    def descriptors(self) -> dict[str, Any]:
        """All of them. DescriptorError."""
        for key in ("apiVersion", "api_version", "name"):
            self.marked.mark((key,))
        paths = {name: self._path(name, chain) for name, chain in self._file.chains.items()}
        matches = {name: self._matches(name, chain) for name, chain in self._file.chains.items()}
        nsd = {
            "id": self._file.name,
            "name": self._file.name,
            "version": _VERSION,
            "vnfd-id": [self._vnfd_id(name) for name in self._file.functions],
            "virtual-link-desc": [self._link(name) for name in paths],
            "vnffgd": [
                {
                    "id": _ONLY,
                    "vnf-profile-id": list(self._file.functions),
                    "nfp-position-element": [{"id": name} for name in paths],
                    "nfpd": [
                        {"id": name, "position-desc-id": [_position(name, path, matches[name])]}
                        for name, path in paths.items()
                    ],
                }
            ],
            "df": [self._flavour(paths)],
        }
        vnfds = [self._vnfd(name, paths) for name in self._file.functions]
        return {"etsi-nfv-descriptors:nfv": {"nsd": [nsd], "vnfd": vnfds}}

    def _noted(self, location: Location, sentence: str) -> None:
        self.marked.mark(location)
        self.notes.append(self.marked.problem(location, sentence))

    def _vnfd_id(self, function: str) -> str:
        return f"{self._file.name}-{function}"

    def _path(self, name: str, chain: Chain) -> list[str]:
        where: Location = ("chains", name)
        if chain.path is not None:
            for at in range(len(chain.path)):
                self.marked.mark((*where, "path", at))
            return chain.path
        if chain.reverse_of is not None:
            forward = self._file.chains[chain.reverse_of].path or []
            told = "is written as a path of its own: a descriptor has no way back"
            self._noted((*where, "reverse_of"), told)
            return list(reversed(forward))
        sentence = "a forwarding path has no branches; write the chain as a path to export it"
        raise DescriptorError([self.marked.problem((*where, "graph"), sentence)])

    def _matches(self, name: str, chain: Chain) -> list[dict[str, Any]]:
        found = []
        for at, match in enumerate(chain.match):
            where: Location = ("chains", name, "match", at)
            if key := port_zero(match):
                sentence = "is 0, which stands for all ports in a descriptor; leave it out"
                raise DescriptorError([self.marked.problem((*where, key), sentence)])
            self.marked.mark(where)
            for key in match.model_dump(exclude_none=True):
                self.marked.mark((*where, key))
            found.append(attributes_of(match, f"{name}-{at}"))
        return found

    def _link(self, name: str) -> dict[str, Any]:
        """The link that all functions of a chain are at."""
        link: dict[str, Any] = {"id": name, "connectivity-type": _ETHERNET}
        flavour: dict[str, Any] = {"id": _ONLY}
        goals = self._file.chains[name].slo
        if goals is not None and goals.reserved is None:
            ms = whole_ms(goals.latency)
            if ms is not None:
                key = goals.key if goals.key[0] != "on-demand" else self._on_demand(name)
                self.marked.mark(("chains", name, "slo", *key))
                # SOL006 wants a variation too; none exceeds the latency.
                flavour["qos"] = {"latency": ms, "packet-delay-variation": ms}
        return {**link, "df": [flavour]}

    def _on_demand(self, name: str) -> tuple[str, str]:
        stated = self.marked.document.data["chains"][name]["slo"]
        return ("on-demand" if "on-demand" in stated else "on_demand", "p95_latency")

    def _flavour(self, paths: dict[str, list[str]]) -> dict[str, Any]:
        profiles = [
            {
                "id": name,
                "vnfd-id": self._vnfd_id(name),
                "flavour-id": _ONLY,
                "instantiation-level": _ONLY,
                "virtual-link-connectivity": [
                    {
                        "virtual-link-profile-id": chain,
                        "constituent-cpd-id": [
                            {"constituent-base-element-id": name, "constituent-cpd-id": chain}
                        ],
                    }
                    for chain, path in paths.items()
                    if name in path
                ],
            }
            for name in self._file.functions
        ]
        level = {
            "id": _ONLY,
            "vnf-to-level-mapping": [
                {"vnf-profile-id": name, "number-of-instances": 1} for name in self._file.functions
            ],
        }
        return {
            "id": _ONLY,
            "vnf-profile": profiles,
            "virtual-link-profile": [self._link_profile(name) for name in paths],
            "ns-instantiation-level": [level],
        }

    def _link_profile(self, name: str) -> dict[str, Any]:
        profile: dict[str, Any] = {
            "id": name, "virtual-link-desc-id": name, "flavour-id": _ONLY
        }  # fmt: skip
        traffic = self._file.traffic
        if traffic.rate == "max":
            self.marked.mark(("traffic", "rate"))
        elif len(self._file.chains) == 1 and traffic.bps and traffic.bps.is_integer():
            self.marked.mark(("traffic", "rate"))
            profile["max-bitrate-requirements"] = {"root": int(traffic.bps)}
            profile["min-bitrate-requirements"] = {"root": 0}
        return profile

    def _vnfd(self, name: str, paths: dict[str, list[str]]) -> dict[str, Any]:
        function = self._file.functions[name]
        where: Location = ("functions", name)
        ours = PROGRAM if function.command is None else COMMAND
        for key, words in (
            ("program", None),
            ("args", function.args),
            ("command", function.command),
        ):
            self.marked.mark((*where, key))
            for at in range(len(words or [])):
                self.marked.mark((*where, key, at))
        told = (
            f"its program stands in configurable-properties as {ours}, which only UNiS reads; "
            "SOL006 has no place for a command line"
        )
        self._noted(where, told)
        if function.container is not None:
            self.marked.mark((*where, "container"))
            if function.container.image is not None:
                told = "the checksum that SOL006 wants of an image is absent; add it"
                self._noted((*where, "container", "image"), told)
        vdu, more = vdu_of(name, function)
        chains = [chain for chain, path in paths.items() if name in path]
        vdu["int-cpd"] = [{"id": chain, **_ETHERNET} for chain in chains]
        level = {"id": _ONLY, "vdu-level": [{"vdu-id": name, "number-of-instances": 1}]}
        return {
            "id": self._vnfd_id(name),
            "provider": self._file.name,
            "product-name": name,
            "software-version": _VERSION,
            "version": _VERSION,
            "vdu": [vdu],
            **more,
            "ext-cpd": [
                {"id": chain, "int-cpd": {"vdu-id": name, "cpd": chain}, **_ETHERNET}
                for chain in chains
            ],
            "df": [
                {"id": _ONLY, "vdu-profile": [{"id": name}], "instantiation-level": [level]}
            ],
        }  # fmt: skip


def _position(chain: str, path: list[str], matches: list[dict[str, Any]]) -> dict[str, Any]:
    profiles = [
        {
            "id": f"{chain}-{name}",
            "constituent-profile-elements": [
                {
                    "id": f"{chain}-{name}",
                    "order": order,
                    "constituent-base-element-id": name,
                    "ingress-constituent-cpd-id": chain,
                    "egress-constituent-cpd-id": chain,
                }
            ],
        }
        for order, name in enumerate(path)
    ]
    classes = {"match-attributes": matches} if matches else {}
    return {
        "id": chain,
        "cp-profile-id": profiles,
        **classes,
        "nfp-position-element-id": [chain],
    }
