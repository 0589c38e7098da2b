"""Kinds of links, a module each. To add one: its module, and a line here."""

from unis.links.kind import LinkKind
from unis.links.memif import Memif
from unis.links.ring import Ring
from unis.links.veth import Veth

_KINDS: tuple[LinkKind, ...] = (
    Ring(),
    Memif(),
    Veth(),
)

KINDS = {kind.name: kind for kind in _KINDS}
