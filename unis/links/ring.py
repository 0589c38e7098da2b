"""rte_ring of the engine's DPDK group: one way, zero copy, no file of its own."""

from unis.engine.limits import limit
from unis.links.kind import LinkPlan, PortEnds

_SLOT_BYTES = 8


class Ring:
    """Ports on it are net_unis, our driver, which a secondary process loads by EAL's -d."""

    name = "ring"
    most_slots = int(limit("LinkConfig.slots").max or 0)

    def capacity(self, slots: int) -> int:
        """One slot tells full from empty."""
        return slots - 1

    def device(self, port: PortEnds) -> str:
        """`net_unis0,rx=RING,tx=RING,shm=MEMZONE`; a direction that is not used is left out."""
        parts = [f"net_unis{port.number}"]
        parts += [f"rx={port.rx.name}"] if port.rx else []
        parts += [f"tx={port.tx.name}"] if port.tx else []
        return ",".join([*parts, f"shm={port.name}"])

    def packets(self, link: LinkPlan) -> int:
        """One a slot."""
        return link.slots

    def memory_bytes(self, link: LinkPlan) -> int:
        """Pointers to packets."""
        return link.slots * _SLOT_BYTES
