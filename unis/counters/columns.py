"""The columns of `unis ps` and `unis top`: what each shows of the counters, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unis.counters.declared import TIME, reading

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from unis.counters.metric import CountedField


@dataclass(frozen=True)
class Column:
    """One column of a table. It shows the sum of its readings, or, as a rate, their growth."""

    title: str
    says: str  # Markdown
    readings: tuple[CountedField, ...] = ()

    def known(self, message: Message) -> bool:
        """Whether the message that holds its counters knows them."""
        return all(one.known(message) for one in self.readings)


def _counts(title: str, *paths: str, says: str = "") -> Column:
    """A column that shows counters; what it says is what the first one says."""
    readings = tuple(map(reading, paths))
    return Column(title, says or readings[0].help, readings)


FUNCTION = Column("function", "Its name in the chain file.")
CPU = Column("CPU", "Its CPU.")
CHAIN = Column("chain", "Its chain; a function of several chains has one line for each.")
STATES = tuple(Column(state.short, state.help, (state,)) for state in TIME.readings)
HAS_CPU = STATES[:2]  # those in which a function has a CPU

RAN = _counts("ran", "functions.cpu_time_ns")
COST = _counts("ns a packet", "functions.cost_ns", says=(
    "CPU time of a packet, as the scheduler uses it. `assumed`: nobody has stated or measured it "
    "yet."
))  # fmt: skip
RECEIVED = _counts("received", "functions.paths.rx_packets")
SENT = _counts("sent", "functions.paths.tx_packets")
LINK_FULL = _counts("link full", "functions.paths.dropped_egress_full")
TAKEN = _counts("taken", "functions.paths.taken")
PS_FUNCTIONS = (
    FUNCTION,
    Column("pid", "Its process."),
    _counts("threads", "functions.threads"),
    CPU,
    Column("state", "[States](#states), below."),
    Column("restarts", "Number of restarts after its process ended."),
    Column("class", "Its class in the kernel, and what is set there: `fifo 2`, "
           "`other, nice -5, slice 3 ms`."),
    RAN,
    COST,
    CHAIN,
    RECEIVED,
    SENT,
    LINK_FULL,
    TAKEN,
)  # fmt: skip
ELAPSED = Column(
    "elapsed", "For how long UNiS has scheduled it, summed over its threads.", TIME.readings
)
PS_TIME = (FUNCTION, ELAPSED, *STATES)

PACKET_RATE = _counts("packets/s", "functions.paths.rx_packets")
INGRESS = Column("ingress", "How full the link before it is at the moment: a bar, and packets.")
EGRESS = Column("egress", "The same of the link behind it.")
TURN_RATE = _counts("switches/s", "functions.switched_in")
DROP_RATE = _counts("drops/s", "functions.paths.dropped_egress_full")


def top_functions(*, states: bool) -> tuple[Column, ...]:
    """Without `states` only those in which a function has a CPU."""
    return (
        FUNCTION, CPU, *(STATES if states else HAS_CPU), CHAIN, PACKET_RATE, INGRESS, EGRESS,
        TURN_RATE, DROP_RATE,
    )  # fmt: skip


OFFERED_RATE = _counts("offered/s", "chains.offered")
DELIVERED_RATE = _counts("delivered/s", "chains.delivered")
BIT_RATE = _counts("Gbit/s", "chains.delivered_bytes", says="Bits of delivered packets.")
REFUSED_RATE = _counts(
    "refused/s", "chains.dropped_ingress_full", "chains.dropped_down",
    says="Packets that found the first link full, or the chain down; they are dropped.",
)  # fmt: skip
TOP_CHAINS = (CHAIN, OFFERED_RATE, DELIVERED_RATE, BIT_RATE, REFUSED_RATE)

EDGE = Column("edge", "From a function to the next one.")
EDGE_OFFERED = _counts("offered", "chains.edges.offered")
EDGE_TAKEN = _counts("taken", "chains.edges.taken")
EDGE_DROPPED = _counts("dropped", "chains.edges.dropped")
EDGE_WAITING = _counts("waiting", "chains.edges.waiting")
TAKEN_RATE = _counts("taken/s", "chains.edges.taken")
DROPPED_RATE = _counts("dropped/s", "chains.edges.dropped")
PS_EDGES = (
    CHAIN,
    EDGE,
    Column("port", "The port of the function that they leave by."),
    EDGE_OFFERED,
    EDGE_TAKEN,
    EDGE_DROPPED,
    EDGE_WAITING,
    Column("wait", "How long a packet waits in the edge, on average over 0.2 s, by Little's law."),
)
TOP_EDGES = (CHAIN, EDGE, TAKEN_RATE, DROPPED_RATE, EDGE_WAITING)

CPU_SHARES = tuple(
    Column(state.title, "Share of the CPU's time in which one of its functions was in this state.")
    for state in HAS_CPU
)
SWITCH_RATE = _counts("switches/s", "cores.switches")
REST_RATE = _counts("rests/s", "cores.rests")
WAKE_RATE = _counts("wakes/s", "cores.wakes")
TOP_CPUS = (
    CPU,
    *CPU_SHARES,
    Column("idle", "Time that no function of UNiS used."),
    SWITCH_RATE,
    REST_RATE,
    WAKE_RATE,
)
BUSY_PART = _counts("busy", "components.busy_ns", says=(
    "Share of its time in which the part handled packets or switches; the rest it polls. Where "
    "it nears 100 %, the engine limits the chain."
))  # fmt: skip
HANDLED_RATE = _counts("handles/s", "components.handled")
ENGINE_CPU = _counts("", "engine_cpu_ns")  # in the last row
TOP_PLATFORM = (
    Column("platform", "A part of the engine: source, sink, bridges, scheduler."),
    CPU,
    BUSY_PART,
    HANDLED_RATE,
)
