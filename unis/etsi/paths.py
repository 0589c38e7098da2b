"""The order of the VNFs in a forwarding path: an nfpd's positions as functions, one after another.

Three forms are read. SOL006 2.6.1: `position-desc-id` with `cp-profile-id`. Later versions:
`position-desc` with `nfp-position-element-id`. OSM: that of 2.6.1, with an `order` and both
connection points in each element.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unis.etsi.tree import DataNode


@dataclass(frozen=True)
class PassedVnf:
    """A VNF that a path passes, and by which of its connection points."""

    profile: str  # id of its vnf-profile
    node: DataNode  # that names it
    points: tuple[tuple[str, DataNode], ...] = ()  # ids of external connection points, in order
    whole: bool = False  # both points are named, so the next position is another VNF


@dataclass(frozen=True)
class PathReader:
    """Reads the paths of one vnffgd. DescriptorError says where a path is wrong."""

    graph: DataNode  # vnffgd
    profiles: Mapping[str, DataNode]  # of the deployment flavour, by id

    def positions(self, path: DataNode) -> list[DataNode]:
        """The positions of an nfpd, in order."""
        forms = [key for key in ("position-desc", "position-desc-id") if path.get(key) is not None]
        if len(forms) > 1:
            raise path.error("has position-desc and position-desc-id; keep one")
        positions = list(path.keyed(forms[0]).values()) if forms else []
        if not positions:
            raise path.error("has no position; add a position-desc for each VNF, in order")
        return positions

    def vnfs(self, path: DataNode) -> list[PassedVnf]:
        """The VNFs that an nfpd passes, each once."""
        passed: list[PassedVnf] = []
        places: dict[str, int] = {}
        for position in self.positions(path):
            position.text("id")
            for vnf in self._at(position):
                last = passed[-1] if passed else None
                if last and last.profile == vnf.profile and not (last.whole or vnf.whole):
                    passed[-1] = PassedVnf(vnf.profile, last.node, last.points + vnf.points)
                    continue
                if vnf.profile in places:
                    raise vnf.node.error(
                        f"passes the VNF `{vnf.profile}` again, which is number "
                        f"{places[vnf.profile]} of the path already; a chain passes a function "
                        "once: add a second vnf-profile of its VNFD"
                    )
                passed.append(vnf)
                places[vnf.profile] = len(passed)
        return passed

    def _at(self, position: DataNode) -> list[PassedVnf]:
        elements = self.graph.keyed("nfp-position-element")
        named: list[PassedVnf] = []
        profiles = position.keyed("cp-profile-id")
        for name, node in position.texts("nfp-position-element-id"):
            if name not in elements:
                raise node.error(f"there is no nfp-position-element `{name}`; {_choose(elements)}")
            elements[name].text("id")
            if not profiles:
                named.append(self._of_element(elements[name]))
        if profiles:
            return list(self._of_profiles(profiles))
        if not named:
            raise position.error(
                "is a position without a VNF; add cp-profile-id, or nfp-position-element-id"
            )
        if len({vnf.profile for vnf in named}) > 1:
            others = ", ".join(dict.fromkeys(vnf.profile for vnf in named))
            raise position.error(
                f"is one position of several VNFs ({others}); give each a position of its own, "
                "and write branches into the chain file as `graph`"
            )
        return [PassedVnf(named[0].profile, named[0].node, sum((v.points for v in named), ()))]

    def _of_element(self, element: DataNode) -> PassedVnf:
        desc = element.get("desc")
        if desc is None:
            raise element.error("names no VNF; add desc: {vnf-profile: {vnf-profile-id: …}}")
        for key, what in (("pnf-profile", "a physical function"), ("ns-profile", "a service")):
            other = desc.get(key)
            if other is not None:
                raise other.error(f"is {what}, which UNiS does not run; take it out of the path")
        point = desc.get("vnf")
        vnfd = point.text("vnfd-id") if point else None
        named = desc.get("vnf-profile")
        profile = named.text("vnf-profile-id") if named else None
        if profile is None:
            of_vnfd = [
                name
                for name, node in self.profiles.items()
                if vnfd is not None and node.peek("vnfd-id") == vnfd
            ]
            if len(of_vnfd) != 1:
                raise desc.error("names no vnf-profile; add vnf-profile: {vnf-profile-id: …}")
            profile = of_vnfd[0]
        points = _points(point, "cpd-id") if point else ()
        return PassedVnf(self._known(profile, named or desc), element, points)

    def _of_profiles(self, profiles: Mapping[str, DataNode]) -> Iterator[PassedVnf]:
        """By the order of each cp-profile; cp-profiles as they are listed."""
        before: int | None = None
        for profile in profiles.values():
            profile.text("id")
            elements = list(profile.keyed("constituent-profile-elements").values())
            if not elements:
                raise profile.error("is a position without a VNF; add constituent-profile-elements")
            ordered = _ordered(elements)
            first = ordered[0][0]
            if before is not None and first is not None and first < before:
                raise profile.error(
                    f"begins with order {first}, and the cp-profile before it with {before}; list "
                    "the cp-profiles in the order of the path"
                )
            before = first if first is not None else before
            for _, element in ordered:
                yield self._of_profile_element(element)

    def _of_profile_element(self, element: DataNode) -> PassedVnf:
        # In 2.6.1 the id of an element is that of the profile.
        name = element.text("constituent-base-element-id")
        own = element.text("id")
        ends = ("ingress-constituent-cpd-id", "egress-constituent-cpd-id")
        points = sum((_points(element, key) for key in (*ends, "cpd-id")), ())
        whole = all(element.get(key) is not None for key in ends)
        return PassedVnf(self._known(name or own or "", element), element, points, whole)

    def _known(self, profile: str, node: DataNode) -> str:
        if profile not in self.profiles:
            raise node.error(
                f"names the VNF `{profile}`, which is no vnf-profile; {_choose(self.profiles)}"
            )
        listed = [name for name, _ in self.graph.texts("vnf-profile-id")]
        if listed and profile not in listed:
            raise node.error(
                f"names the VNF `{profile}`, which is not in vnf-profile-id of its vnffgd; add it"
            )
        return profile


def _points(node: DataNode, key: str) -> tuple[tuple[str, DataNode], ...]:
    found = node.get(key)
    if found is None:
        return ()
    found.mark()
    return ((found.as_text(), found),)


def _ordered(elements: list[DataNode]) -> list[tuple[int | None, DataNode]]:
    found: list[tuple[int | None, DataNode]] = []
    for element in elements:
        order = element.get("order")
        if order is not None:
            order.mark()
        found.append((None if order is None else order.as_number(), element))
    orders = [order for order, _ in found]
    if None in orders and any(order is not None for order in orders):
        at = orders.index(None)
        raise elements[at].error("has no order, and another element has; state it for each")
    for at, stated in enumerate(orders):
        if stated is not None and stated in orders[:at]:
            which = "first " if stated == min(each for each in orders if each is not None) else ""
            raise elements[at].error(
                f"has order {stated}, as an element before it has: there are two {which}positions; "
                "give each its own order"
            )
    return sorted(found, key=lambda pair: pair[0] or 0)


def _choose(known: Mapping[str, DataNode]) -> str:
    return f"choose one of {', '.join(known)}" if known else "the descriptor has none; add it"
