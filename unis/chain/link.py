"""A link, as the chain file has it: its kind may have keys of its own."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, create_model

from unis.chain import defaults
from unis.chain.lengths import Slots
from unis.chain.part import Part
from unis.chain.values import Destination, LinkName, Origin
from unis.links import KINDS
from unis.links.kind import LinkKind


class _AnyLink(Part):
    """What carries packets from one function to the next, where the default does not do."""

    origin: Origin = Field(alias="from")
    """A function, or `ingress`."""
    to: Destination
    """The function behind it in a path, or `egress`."""
    kind: LinkName = defaults.LINK
    """Of other kinds than `ring`, the function behind it is a primary process without rings."""
    slots: Slots | None = None
    """Of a ring, by default those of the chain; of other kinds, each way."""

    @property
    def own_keys(self) -> dict[str, int]:
        """Those that only links of some kind have, as far as they are stated."""
        common = set(_AnyLink.model_fields)
        return {key: value for key, value in self if key not in common and value is not None}


def link_model(kinds: Iterable[LinkKind]) -> type[_AnyLink]:
    """Links with the keys that these kinds have."""
    keys: dict[str, Any] = {
        key.name: (
            Annotated[int, Field(ge=key.least, le=key.most)] | None,
            Field(default=None, description=f"Of a {kind.name}: {key.text}"),
        )
        for kind in kinds
        for key in kind.keys
    }
    return create_model("Link", __base__=_AnyLink, __doc__=_AnyLink.__doc__, **keys)


if TYPE_CHECKING:
    Link = _AnyLink
else:
    Link = link_model(KINDS.values())
