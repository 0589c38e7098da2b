"""What is asked of cache isolation, and what others have taken. Plain data.

goresctrl's words: a want with a class of its own is a partition with one class; those that
`share` are members of one class; a resource is mandatory unless it is named as optional.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from unis.errors import UnisError
from unis.isolate.schemata import Schemata

GROUP_PREFIX = "unis-"
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}")

# In every cache of a level, or by cache ID; in one that is not named: as everybody else.
Ways = int | Mapping[int, int]


class PlanError(UnisError):
    """Says what was asked and what there is."""


@dataclass(frozen=True)
class Want:
    """What a function, or a core's functions, shall have."""

    l3: Ways = 0
    l2: Ways = 0
    bandwidth: int | None = None  # at most, in the machine's unit (percent); None: no limit
    share: str | None = None  # the class of several, with the ways of all of them; None: its own

    def ways(self, level: str, domain: int) -> int:
        """In one cache of `L3` or `L2`."""
        ways = self.l3 if level == "L3" else self.l2
        return ways if isinstance(ways, int) else ways.get(domain, 0)

    def domains(self, level: str) -> frozenset[int]:
        """Cache IDs that it names."""
        ways = self.l3 if level == "L3" else self.l2
        return frozenset() if isinstance(ways, int) else frozenset(ways)

    def uses(self, level: str) -> bool:
        """Whether it wants ways of `L3` or `L2` at all."""
        ways = self.l3 if level == "L3" else self.l2
        return bool(ways) if isinstance(ways, int) else any(ways.values())


@dataclass(frozen=True)
class OtherGroup:
    """A group that somebody else has made, and that nobody here touches."""

    name: str
    schemata: Schemata
    exclusive: bool = False
    monitors: int = 0  # MON groups in it

    def mask(self, resources: Iterable[str], domain: int) -> int:
        """Its ways of one cache, under CDP of both halves."""
        found = 0
        for resource in resources:
            found |= self.schemata.get(resource, {}).get(domain, 0)
        return found


@dataclass(frozen=True)
class ClassDemand:
    """A class of service to be."""

    name: str  # without prefix
    members: Mapping[str, Want] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """As the tree calls it."""
        return GROUP_PREFIX + self.name

    def ways(self, level: str, domain: int) -> int:
        """Of all members together."""
        return sum(want.ways(level, domain) for want in self.members.values())

    @property
    def bandwidth(self) -> int | None:
        """The most that a member may take, for the class is throttled as one."""
        limits = [want.bandwidth for want in self.members.values()]
        return None if None in limits else max(limit for limit in limits if limit is not None)


def demands(wants: Mapping[str, Want]) -> list[ClassDemand]:
    """The classes that they make, in order. PlanError where names or numbers cannot be."""
    found: dict[str, dict[str, Want]] = {}
    for name, want in sorted(wants.items()):
        for said in (name, *([want.share] if want.share is not None else [])):
            if not _NAME.fullmatch(said):
                raise PlanError(
                    f"`{said}` names no class: letters, digits, `.`, `_` and `-`, at most 64"
                )
        for level, ways in (("L3", want.l3), ("L2", want.l2)):
            counts = [ways] if isinstance(ways, int) else ways.values()
            if min(counts, default=0) < 0:
                raise PlanError(f"{name} asks for {min(counts)} ways of {level}")
        if want.share is not None and want.share in wants and wants[want.share].share != want.share:
            raise PlanError(f"{name} shares the class {want.share}, which is that of another alone")
        if _is_anything(want) or want.share is not None:
            found.setdefault(want.share or name, {})[name] = want
    return [ClassDemand(name, members) for name, members in sorted(found.items())]


def _is_anything(want: Want) -> bool:
    return want.uses("L3") or want.uses("L2") or want.bandwidth is not None
