"""rte_ring of the engine's DPDK group: one way, zero copy, no file of its own."""

from unis.engine.limits import limit
from unis.links.kind import LinkKind, LinkPlan, LinkSpec, PortEnds

_SLOT_BYTES = 8  # a pointer to a packet


class Ring(LinkKind):
    """Ports on it are net_unis, our driver, which a secondary process loads by EAL's -d."""

    name = "ring"
    driver = "net_unis"
    of_group = True
    duplex = False
    most_slots = int(limit("LinkConfig.slots").max or 0)
    default_slots = None

    def capacity(self, slots: int) -> int:
        """One slot tells full from empty."""
        return slots - 1

    def details(self, spec: LinkSpec, number: int) -> None:
        """None: its name is that of the ring in the DPDK group."""

    def device_arguments(self, port: PortEnds) -> dict[str, object]:
        """`rx=RING,tx=RING,shm=MEMZONE`; a direction that is not used is left out."""
        ends = {"rx": port.rx, "tx": port.tx}
        return {**{way: link.name for way, link in ends.items() if link}, "shm": port.name}

    def lacks(self) -> str:
        """Nothing: the driver is built with UNiS."""
        return ""

    def packets(self, link: LinkPlan) -> int:
        """One a slot."""
        return link.slots

    def memory_bytes(self, link: LinkPlan) -> int:
        """Its slots."""
        return link.slots * _SLOT_BYTES
