"""What is asked of cache isolation. Plain data.

goresctrl's words: a request with a class of its own is a partition with one class; requests that
`share` are members of one class.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from unis.errors import UnisError

GROUP_PREFIX = "unis-"
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}")

# In every cache of a level, or by cache ID; a cache that is not named is shared with the root.
WaysAsked = int | Mapping[int, int]


class PlanError(UnisError):
    """Says what was asked and what there is."""


@dataclass(frozen=True)
class CacheRequest:
    """What a function, or the functions of a core, shall have."""

    l3: WaysAsked = 0
    l2: WaysAsked = 0
    bandwidth: int | None = None  # at most, in the machine's unit (percent); None: no limit
    share: str | None = None  # the class of several, with the ways of all of them; None: its own

    def of_level(self, level: str) -> WaysAsked:
        """Of `L3` or `L2`."""
        return self.l3 if level == "L3" else self.l2

    def ways(self, level: str, domain: int) -> int:
        """In one cache."""
        ways = self.of_level(level)
        return ways if isinstance(ways, int) else ways.get(domain, 0)

    def uses(self, level: str) -> bool:
        """Whether it asks for ways of the level at all."""
        ways = self.of_level(level)
        return bool(ways) if isinstance(ways, int) else any(ways.values())


@dataclass(frozen=True)
class ClassRequest:
    """A class of service that is asked for."""

    name: str  # without prefix
    members: Mapping[str, CacheRequest]

    @property
    def group(self) -> str:
        """Its name in the tree."""
        return GROUP_PREFIX + self.name

    def ways(self, level: str, domain: int) -> int:
        """Of all members together."""
        return sum(request.ways(level, domain) for request in self.members.values())

    def uses(self, level: str) -> bool:
        """Whether a member asks for ways of the level."""
        return any(request.uses(level) for request in self.members.values())

    @property
    def bandwidth(self) -> int | None:
        """The highest limit of a member, because the class is throttled as a whole."""
        limits = [request.bandwidth for request in self.members.values()]
        return None if None in limits else max(limit for limit in limits if limit is not None)


def classes_of(requests: Mapping[str, CacheRequest]) -> list[ClassRequest]:
    """The classes for requests by name, in order; none for requests of nothing. PlanError."""
    members: dict[str, dict[str, CacheRequest]] = {}
    for name, request in sorted(requests.items()):
        share = request.share
        for class_name in (name,) if share is None else (name, share):
            if not _NAME.fullmatch(class_name):
                raise PlanError(
                    f"`{class_name}` names no class: letters, digits, `.`, `_` and `-`, at most 64"
                )
        for level in ("L3", "L2"):
            ways = request.of_level(level)
            least = ways if isinstance(ways, int) else min(ways.values(), default=0)
            if least < 0:
                raise PlanError(f"{name} asks for {least} ways of {level}")
        if share is not None and requests.get(share, request).share != share:
            raise PlanError(f"{name} shares the class {share}, which is that of another alone")
        members.setdefault(share or name, {})[name] = request
    classes = [ClassRequest(name, requests) for name, requests in sorted(members.items())]
    return [
        clos for clos in classes
        if clos.uses("L3") or clos.uses("L2") or clos.bandwidth is not None
    ]  # fmt: skip
