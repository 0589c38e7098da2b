"""Names of links, and what else tells one from another; so that what stays in a run keeps them."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from unis import links
from unis.chain.link import Queues
from unis.errors import UnisError
from unis.links.kind import LinkDetails, LinkPlan, LinkSpec, PortEnds
from unis.nics.layout import VfChoice
from unis.plan.wiring import LinkPlace, PortPlace, Wiring


@dataclass(frozen=True)
class Links:
    """The links of a run, each at its place."""

    at: Mapping[LinkPlace, LinkPlan]
    later: Mapping[LinkPlace, str | None]  # the function at the end that is there later

    def plans(self) -> tuple[LinkPlan, ...]:
        """All of them."""
        return tuple(self.at.values())

    def names(self, places: Iterable[LinkPlace]) -> list[str]:
        """What those are called."""
        return [self.at[place].name for place in places]

    def port(self, function: str, name: str, number: int, port: PortPlace) -> PortEnds:
        """A port of a function; `number` is that of its device."""
        return PortEnds(
            name=name,
            number=number,
            rx=self.at[port.rx] if port.rx else None,
            tx=self.at[port.tx] if port.tx else None,
            end=int(
                links.KINDS[port.kind].duplex
                and port.rx is not None
                and not port.rx.wire
                and self.later[port.rx] == function
            ),
        )


def name_links(
    run: str,
    wiring: Wiring,
    rings: Mapping[str, int],
    directory: Path,
    folders: Mapping[str, Path],
    there: Iterable[LinkPlan] = (),
    loaded: Path = Path(),
    on_nics: Mapping[LinkPlace, VfChoice] | None = None,
) -> Links:
    """The links of a run; `rings` says how many slots those of each chain have. Files of links are
    in the `folders` of their functions (see `unis.plan.programs`), of functions that have none in
    `directory`; what programs load is in `loaded`. Links `on_nics` have one of those choices.

    Links that are `there` already and do not change keep their names.
    """
    names = _Names(wiring, there)
    functions = wiring.graph.functions
    later = {place: _later(place, list(functions)) for place in wiring.places}
    found: dict[LinkPlace, LinkPlan] = {}
    made: dict[str, Iterator[int]] = {}
    for place in wiring.places:
        ends = [end for end in (place.to, place.origin) if end]
        client = later[place]
        queues = functions[client].queues if client else Queues()
        spec = LinkSpec(
            run=run,
            name="",
            slots=place.slots(rings),
            engine=not place.is_direct and not place.wire,
            wire=place.wire,
            folder=next((folders[end] for end in ends if end in folders), directory),
            directory=directory,
            loaded=loaded,
            queues_to_server=queues.tx,
            queues_to_client=queues.rx,
            driver=place.of_kind.driver if place.of_kind else None,
            batch=place.of_kind.batch if place.of_kind else None,
            options=place.of_kind.mmsg_options if place.of_kind else (),
            nic=(on_nics or {}).get(place),
            receiver=int(place.to is not None and place.to == client),
        )
        at = next(made.setdefault(place.chain, itertools.count()))
        found[place] = names.link(place, spec, at)
    return Links(found, later)


def _later(place: LinkPlace, order: list[str]) -> str | None:
    """The function at the end that is there later: of two the one that is started later."""
    return max((end for end in (place.origin, place.to) if end), key=order.index, default=None)


class _Names:
    """Names of links and their numbers, so that a link which stays what it is keeps them."""

    def __init__(self, wiring: Wiring, there: Iterable[LinkPlan]) -> None:
        self._there = {link.name: link for link in there}
        self._by_place = {(link.edge, link.part): link for link in self._there.values()}
        self._edges = {(chain.name, *edge.ends) for chain, edge in wiring.graph.edges()}
        self._used: set[str] = set()
        self._numbers: dict[str, set[int]] = {kind: set() for kind in links.KINDS}
        for link in self._there.values():
            if link.details:
                self._numbers[link.kind].update(link.details.ids)

    def link(self, place: LinkPlace, spec: LinkSpec, at: int) -> LinkPlan:
        """The link at a place, where it is the chain's `at`th."""
        kind = place.kind
        stays = self._by_place.get((place.key, place.part))
        if stays is None or not _alike(stays, kind, spec):
            counted = itertools.chain([at], itertools.count())
            names = (f"{place.chain}.{number}" for number in counted)
            name = next(name for name in names if self._free(name, kind, spec))
            stays = self._there.get(name)
        else:
            name = stays.name
        self._used.add(name)
        if stays:
            return replace(stays, edge=place.key, part=place.part)
        details = self._details(replace(spec, name=name), place)
        self._numbers[kind].update(details.ids if details else ())
        return LinkPlan(name, kind, spec.slots, details, place.key, place.part)

    def _details(self, spec: LinkSpec, place: LinkPlace) -> LinkDetails | None:
        kind, taken = links.KINDS[place.kind], self._numbers[place.kind]
        for number in kind.numbers(spec):
            if number not in taken:
                details = kind.details(spec, number)
                if details is None or taken.isdisjoint(details.ids):
                    return details
        raise UnisError(
            f"all virtual functions are taken that the link from {place.edge.origin} to "
            f"{place.edge.to} could have, some by links that go: `unis down {spec.run}` and "
            "`unis up` make it"
        )

    def _free(self, name: str, kind: str, spec: LinkSpec) -> bool:
        if name in self._used:
            return False
        there = self._there.get(name)
        # One whose place is gone may have another.
        return there is None or (there.edge not in self._edges and _alike(there, kind, spec))


def _alike(there: LinkPlan, kind: str, spec: LinkSpec) -> bool:
    same = (there.kind, there.slots) == (kind, spec.slots)
    return same and links.KINDS[kind].matches(there, spec)
