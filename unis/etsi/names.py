"""Names of a chain file for ids of descriptors, which may have any characters."""

import re

from unis.chain.values import EGRESS, INGRESS

_OTHERS = re.compile(r"[^a-z0-9_-]+")
_RESERVED = (INGRESS, EGRESS)


class ChainNames:
    """Gives each id a name of its own. An id that is a valid name stays as it is."""

    def __init__(self, longest: int, fallback: str) -> None:
        self._longest = longest
        self._fallback = fallback
        self._taken: set[str] = set()

    def name(self, text: str) -> str:
        """A name of at most `longest` characters that was not given before."""
        wished = _OTHERS.sub("-", text.lower()).strip("-_") if self._altered(text) else text
        wished = wished or self._fallback
        # A chain file ignores keys x-…
        if wished in _RESERVED or wished.startswith("x-"):
            wished = f"{self._fallback}-{wished}"
        name, number = wished[: self._longest], 1
        while name in self._taken:
            number += 1
            end = f"-{number}"
            name = wished[: self._longest - len(end)] + end
        self._taken.add(name)
        return name

    @staticmethod
    def _altered(text: str) -> bool:
        return re.fullmatch(r"[a-z0-9][a-z0-9_-]*", text) is None
