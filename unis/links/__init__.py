"""Kinds of links, a module each. To add one: its module, and its name here."""

from unis.links.bridge import Bridge
from unis.links.kind import LinkKind
from unis.links.memif import Memif
from unis.links.ovs import Ovs
from unis.links.ring import Ring
from unis.links.sriov import Sriov
from unis.links.tap import Tap
from unis.links.veth import Veth
from unis.links.vhost import Vhost
from unis.links.xdp import Xdp

KINDS: dict[str, LinkKind] = {
    kind.name: kind
    for kind in (Ring(), Memif(), Veth(), Bridge(), Xdp(), Ovs(), Tap(), Vhost(), Sriov())
}
