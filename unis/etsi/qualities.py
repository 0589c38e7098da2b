"""What links must give: the latency and bit rate of virtual links, and goals of a chain.

A virtual link states the most that its packets may take, in ms. The goal of a chain is the sum over
the links that it passes; it holds from source to sink, so the functions' time counts too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from unis.chain.values import in_ns
from unis.etsi.paths import PassedVnf
from unis.etsi.tree import DataNode

NS_PER_MS = 1_000_000
_LARGEST_MS = 1 << 32  # uint32 of the latency
_SOME_LACK = "another link of the chain states no latency, so there is no sum to be a goal"


@dataclass(frozen=True)
class PassedLink:
    """A virtual link that a chain passes."""

    latency: DataNode | None = None  # ms
    rate: DataNode | None = None  # bits a second


@dataclass(frozen=True)
class LinkReader:
    """The virtual links of an NSD in one of its deployment flavours."""

    nsd: DataNode
    flavour: DataNode  # df

    def passed(self, path: Iterable[PassedVnf]) -> list[PassedLink]:
        """The links at the connection points of a path, each once, as packets pass them."""
        profiles = self.flavour.keyed("vnf-profile")
        names: dict[str, DataNode] = {}
        for vnf in path:
            for passed, _ in vnf.points:
                for name, node in self._at(profiles[vnf.profile], passed):
                    names.setdefault(name, node)
        return [self._link(name, node) for name, node in names.items()]

    def _at(self, profile: DataNode, passed: str) -> Iterator[tuple[str, DataNode]]:
        for connected in profile.items("virtual-link-connectivity"):
            for point in connected.items("constituent-cpd-id"):
                if point.peek("constituent-cpd-id") != passed:
                    continue
                point.text("constituent-cpd-id")
                point.text("constituent-base-element-id")
                node = connected.get("virtual-link-profile-id")
                if node is None:
                    raise connected.error("names no link; add virtual-link-profile-id")
                node.mark()
                yield node.as_text(), node

    def _link(self, name: str, node: DataNode) -> PassedLink:
        """By its profile; OSM names the link itself where there is no profile."""
        profile = self.flavour.keyed("virtual-link-profile").get(name)
        links = self.nsd.keyed("virtual-link-desc")
        wished = None
        rate = None
        if profile is not None:
            profile.text("id")
            name = profile.text("virtual-link-desc-id") or name
            wished = profile.text("flavour-id")
            rate = profile.get("max-bitrate-requirements")
        if name not in links:
            known = ", ".join(links) or "(none)"
            raise (profile or node).error(
                f"there is no virtual-link-desc `{name}`; choose one of {known}"
            )
        links[name].text("id")
        flavours = links[name].keyed("df")
        if wished is not None and flavours and wished not in flavours and profile is not None:
            raise profile.error(
                f"there is no df `{wished}` in the link `{name}`; choose one of "
                f"{', '.join(flavours)}"
            )
        only = next(iter(flavours.values())) if len(flavours) == 1 else None
        flavour = flavours.get(wished, only) if wished is not None else only
        quality = flavour.get("qos") if flavour is not None else None
        if flavour is not None:
            flavour.text("id")
        return PassedLink(
            quality.get("latency") if quality is not None else None,
            rate.get("root") if rate is not None else None,
        )


def goal_of(links: list[PassedLink]) -> str | None:
    """The latency goal of a chain over `links`, such as `3ms`; None without one."""
    stated = [link.latency for link in links if link.latency is not None]
    if not stated:
        return None
    total = sum(node.as_number() for node in stated)
    if len(stated) < len(links) or total == 0:
        for node in stated:
            node.because(_SOME_LACK if total else "0 ms is no goal that a chain could keep")
        return None
    for node in stated:
        node.mark()
    return f"{total}ms"


def rate_of(links: list[PassedLink]) -> str | None:
    """The rate of a source into the first link, such as `1Gbps`; None without one."""
    node = links[0].rate if links else None
    if node is None:
        return None
    bits = node.as_number()
    if bits == 0:
        node.because("0 bits a second is no rate of a source")
        return None
    node.mark()
    for factor, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if bits % factor == 0:
            return f"{bits // factor}{unit}bps"
    return f"{bits}bps"


def whole_ms(duration: str) -> int | None:
    """A latency goal in ms; None if a descriptor cannot have it."""
    ms = in_ns(duration) / NS_PER_MS
    return int(ms) if ms.is_integer() and 1 <= ms < _LARGEST_MS else None
