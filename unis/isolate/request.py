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


class PlanError(UnisError):
    """Says what was asked and what there is."""


@dataclass(frozen=True)
class CacheRequest:
    """What a function, or the functions of a core, shall have."""

    ways: int = 0  # in every L3
    share: str | None = None  # the class of several, with the ways of all of them; None: its own


@dataclass(frozen=True)
class ClassRequest:
    """A class of service that is asked for."""

    name: str  # without prefix
    members: tuple[str, ...]
    ways: int  # of all members together

    @property
    def group(self) -> str:
        """Its name in the tree."""
        return GROUP_PREFIX + self.name


def classes_of(requests: Mapping[str, CacheRequest]) -> list[ClassRequest]:
    """The classes for requests by name, in order; none for requests of nothing. PlanError."""
    members: dict[str, list[str]] = {}
    for name, request in sorted(requests.items()):
        share = request.share
        for class_name in (name,) if share is None else (name, share):
            if not _NAME.fullmatch(class_name):
                raise PlanError(
                    f"`{class_name}` names no class: letters, digits, `.`, `_` and `-`, at most 64"
                )
        if request.ways < 0:
            raise PlanError(f"{name} asks for {request.ways} ways of L3")
        if share is not None and requests.get(share, request).share != share:
            raise PlanError(f"{name} shares the class {share}, which is that of another alone")
        members.setdefault(share or name, []).append(name)
    return [
        ClassRequest(name, tuple(together), ways)
        for name, together in sorted(members.items())
        if (ways := sum(requests[member].ways for member in together))
    ]
