"""rte_ring of the engine's DPDK group: one way, zero copy, no file of its own."""

from collections.abc import Collection

from unis.engine.limits import limit
from unis.links.kind import EalDevice, LinkPlan, NothingMade, PortEnds, Wanted

_SLOT_BYTES = 8


class Ring(NothingMade):
    """Ports on it are net_unis, our driver, which a secondary process loads by EAL's -d."""

    name = "ring"
    driver = "net_unis"
    of_group = True
    for_traffic = True
    one_user = False  # programs on rings share all memory of the group
    queues_may_differ = False
    drops = False
    duplex = False
    most_slots = int(limit("LinkConfig.slots").max or 0)
    default_slots: int | None = None
    capabilities: Collection[str] = ()

    def capacity(self, slots: int) -> int:
        """One slot tells full from empty."""
        return slots - 1

    def details(self, wanted: Wanted, number: int) -> None:
        """None: its name is that of the ring in the DPDK group."""

    def stays(self, there: LinkPlan, wanted: Wanted) -> bool:  # noqa: ARG002
        """Any ring is as good as another."""
        return True

    def device(self, port: PortEnds) -> EalDevice:
        """`net_unis0,rx=RING,tx=RING,shm=MEMZONE`; a direction that is not used is left out."""
        parts = [f"{self.driver}{port.number}"]
        parts += [f"rx={port.rx.name}"] if port.rx else []
        parts += [f"tx={port.tx.name}"] if port.tx else []
        return EalDevice(",".join([*parts, f"shm={port.name}"]))

    def lacks(self) -> str:
        """Nothing: the driver is built with UNiS."""
        return ""

    def packets(self, link: LinkPlan) -> int:
        """One a slot."""
        return link.slots

    def memory_bytes(self, link: LinkPlan) -> int:
        """Pointers to packets."""
        return link.slots * _SLOT_BYTES
