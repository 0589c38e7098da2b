"""A link, as the chain file has it."""

from pydantic import Field

from unis.chain import defaults
from unis.chain.lengths import Slots
from unis.chain.part import Part
from unis.chain.values import Destination, LinkName, Origin


class Link(Part):
    """What carries packets from one function to the next, where the default does not do."""

    origin: Origin = Field(alias="from")
    """A function, or `ingress`."""
    to: Destination
    """The function behind it in a path, or `egress`."""
    kind: LinkName = defaults.LINK
    """Of other kinds than `ring`, the function behind it is a primary process without rings."""
    slots: Slots | None = None
    """Of a ring, by default those of the chain; of other kinds, each way."""
