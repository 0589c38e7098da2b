"""The declarations: name, kind, unit, help and labels of all that the engine counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unis.counters.metric import CountedField, Metric, MetricKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from unis.v1 import engine_pb2 as pb

_COUNTER, _GAUGE, _HISTOGRAM = MetricKind


def _occupancy(link: pb.LinkStats) -> float:
    return min(1.0, link.packets / link.capacity) if link.capacity else 0.0


def _is_link(link: pb.LinkStats) -> bool:
    return bool(link.name)  # a chain may end at a function


def _is_seen(link: pb.LinkStats) -> bool:
    return link.HasField("packets")  # nobody can look into some


def _links(
    field: str, says: str, known: Callable[[pb.LinkStats], bool] = _is_seen, **more: Any
) -> tuple[CountedField, ...]:
    """Of a link, wherever it is met."""
    ends = ("ingress", "egress")
    return tuple(
        CountedField(f"functions.paths.{end}.{field}", says, known=known, **more) for end in ends
    )


def _by(
    label: str, place: str, *values: tuple[str, str, str, str], **more: Any
) -> tuple[CountedField, ...]:
    """Fields of one message that are told apart by a label: field, label's value, help, short."""
    return tuple(
        CountedField(f"{place}.{field}", says, labels={label: value}, short=short, **more)
        for field, value, says, short in values
    )


def _sees_work(time: pb.FunctionTime) -> bool:
    """Whether somebody counts its packets, or it had no CPU to work on any."""
    return time.HasField("busy_ns") or not time.spinning_ns


def _one(
    name: str, kind: MetricKind, unit: str, path: str, says: str, labels: str = "", **more: Any
) -> Metric:
    """A metric of one field."""
    return Metric(
        name, kind, unit, says, tuple(labels.split()), (CountedField(path, says, **more),)
    )


# The states of a function's time exclude one another, and add up to the time of its threads.
TIME = Metric(
    "unis_function_cpu_seconds_total",
    _COUNTER,
    "seconds",
    "Time of the threads of a function by state; the states add up to the time that passed.",
    ("function", "state"),
    _by(
        "state",
        "functions.time",
        ("busy_ns", "busy",
         "It has a CPU, and works on packets: packets × cost, but no more than the time it has a "
         "CPU.", "busy"),
        ("spinning_ns", "spinning", "It has a CPU, and polls without packets.", "spinning"),
        known=_sees_work,
    )
    + _by(
        "state",
        "functions.time",
        ("run_delay_ns", "run_delay",
         "It could run, and has no CPU, or a signal stops it while others have their turns.",
         "run delay"),
        ("backpressured_ns", "backpressured",
         "As run delay, but an egress holds θmax packets; sampled each millisecond, under policy "
         "unis only.", "backpressured"),
        ("blocked_ns", "blocked",
         "It sleeps: UNiS put it to sleep, or it waits in a call of its own.", "blocked"),
    ),
)  # fmt: skip

_FUNCTIONS = (
    TIME,
    _one("unis_function_ran_seconds_total", _COUNTER, "seconds", "functions.cpu_time_ns",
         "CPU time of its threads, as the kernel counts it.", "function"),
    _one("unis_function_received_packets_total", _COUNTER, "packets", "functions.paths.rx_packets",
         "Packets of a chain that it took from its ports.", "function chain",
         known=lambda path: path.received_known),
    _one("unis_function_sent_packets_total", _COUNTER, "packets", "functions.paths.tx_packets",
         "Packets of a chain that it gave to its ports, and the next links took.",
         "function chain", known=lambda path: path.sent_known),
    # A link may tell this though it cannot be read.
    _one("unis_function_refused_packets_total", _COUNTER, "packets",
         "functions.paths.dropped_egress_full",
         "Packets that it sent and for which the next link had no room; they are dropped.",
         "function chain", known=lambda path: path.sent_known or path.dropped_egress_full > 0),
    _one("unis_function_kept_packets", _GAUGE, "packets", "functions.paths.taken",
         "Packets that it received and has not sent: those that it dropped, or keeps.",
         "function chain", known=lambda path: path.counted),
    _one("unis_function_turns_total", _COUNTER, "turns", "functions.switched_in",
         "Times that it got the CPU from the scheduler or another function.", "function"),
    _one("unis_function_polls_total", _COUNTER, "polls", "functions.polls",
         "Times that it polled its ports; of functions on rings only.", "function"),
    Metric(
        "unis_function_context_switches_total", _COUNTER, "switches",
        "Times that its threads lost the CPU, as the kernel counts them.", ("function", "kind"),
        _by("kind", "functions",
            ("voluntary_switches", "voluntary", "It slept.", ""),
            ("involuntary_switches", "involuntary", "It could run on: the kernel let another "
             "thread run, or it passed the CPU on.", "")),
    ),
    _one("unis_function_threads", _GAUGE, "threads", "functions.threads",
         "Number of its threads that poll and that UNiS has hold of.", "function"),
    _one("unis_function_packet_cost_seconds", _GAUGE, "seconds", "functions.cost_ns",
         "CPU time of a packet, as the scheduler uses it.", "function"),
)  # fmt: skip

_LINKS = (
    Metric("unis_link_waiting_packets", _GAUGE, "packets",
           "Packets in a link at the moment.", ("link",),
           _links("packets", "Packets in a link at the moment.")),
    Metric("unis_link_capacity_packets", _GAUGE, "packets",
           "Packets for which a link has room.", ("link",),
           _links("capacity", "Packets for which a link has room.", _is_link)),
    Metric("unis_link_occupancy_ratio", _GAUGE, "ratio",
           "How full a link is at the moment.", ("link",),
           _links("packets", "How full a link is at the moment.", of=_occupancy)),
)  # fmt: skip

_CHAINS = (
    _one("unis_chain_up", _GAUGE, "", "chains.down",
         "1 where all functions of the chain are there, so that packets come through.", "chain",
         of=lambda chain: float(not chain.down)),
    _one("unis_chain_offered_packets_total", _COUNTER, "packets", "chains.offered",
         "Packets that came for a chain: from the source, or over its wire into its first "
         "function.", "chain"),
    Metric(
        "unis_chain_packets_total", _COUNTER, "packets",
        "What became of the packets of a chain, as far as the chain knows.", ("chain", "outcome"),
        _by("outcome", "chains",
            ("delivered", "delivered",
             "Packets that reached the sink, or that the last function sent over its wire.", ""),
            ("dropped_ingress_full", "dropped_ingress_full",
             "Packets that found the first link full.", ""),
            ("dropped_down", "dropped_down",
             "Packets that were dropped because a function was not there.", "")),
    ),
    _one("unis_chain_delivered_bytes_total", _COUNTER, "bytes", "chains.delivered_bytes",
         "Bytes of delivered packets.", "chain"),
    _one("unis_chain_latency_seconds", _HISTOGRAM, "seconds", "chains.latency",
         "How long packets took from the source to the sink; only where it is asked for.",
         "chain", known=lambda chain: bool(chain.HasField("latency"))),
    _one("unis_edge_offered_packets_total", _COUNTER, "packets", "chains.edges.offered",
         "Packets that came to the edge, on their way from a function to the next one.",
         "chain from to port"),
    _one("unis_edge_dropped_packets_total", _COUNTER, "packets", "chains.edges.dropped",
         "Packets that found no room, or no function behind the edge.", "chain from to port"),
    _one("unis_edge_waiting_packets", _GAUGE, "packets", "chains.edges.waiting",
         "Packets in the links of the edge at the moment.", "chain from to port"),
)  # fmt: skip

_CPUS = (
    _one("unis_switches_total", _COUNTER, "switches", "cores.reasons.switches",
         "Times that another function got the CPU, by why the one before was left.",
         "cpu reason"),
    _one("unis_failed_switches_total", _COUNTER, "switches", "cores.failed_switches",
         "Switches that the kernel refused.", "cpu"),
    _one("unis_rests_total", _COUNTER, "rests", "cores.rests",
         "Times that the functions of this CPU stopped spinning, to sleep without packets or "
         "between packets.", "cpu"),
    _one("unis_cpu_resting", _GAUGE, "", "cores.resting",
         "1 while all functions of this CPU sleep, because no packet comes.", "cpu"),
    _one("unis_wakes_total", _COUNTER, "wakes", "cores.wakes",
         "Times that functions which sleep between packets were woken.", "cpu"),
    _one("unis_wake_delay_seconds_total", _COUNTER, "seconds", "cores.wake_delay_ns",
         "How long the first packets of these wake-ups had waited, at most.", "cpu"),
    _one("unis_cpu_turn_packets", _GAUGE, "packets", "cores.quota",
         "Packets of a turn where functions hand the CPU over, else 0.", "cpu"),
    _one("unis_cpu_switch_seconds", _GAUGE, "seconds", "cores.switch_ns",
         "From the decision until the next function takes packets, where the engine switches.",
         "cpu"),
    _one("unis_order_seen_switches_total", _COUNTER, "switches", "cores.order_seen",
         "Hand-overs that were seen, a part of all, where three functions or more take turns.",
         "cpu"),
    _one("unis_out_of_order_switches_total", _COUNTER, "switches", "cores.out_of_order",
         "Those of them that led to another function than the next of the chain.", "cpu"),
    _one("unis_order_repairs_total", _COUNTER, "repairs", "cores.order_repairs",
         "Times that functions were put back into the order of their chain.", "cpu"),
)  # fmt: skip

_ENGINE = (
    _one("unis_decisions_total", _COUNTER, "decisions", "decisions",
         "Times that the schedulers looked at their CPUs."),
    _one("unis_component_busy_seconds_total", _COUNTER, "seconds", "components.busy_ns",
         "Time in which a part of the engine handled packets or switches; the rest it polls.",
         "component"),
    _one("unis_component_handled_total", _COUNTER, "handled", "components.handled",
         "Packets that the part carried, or switches that it made.", "component"),
    _one("unis_engine_cpu_seconds_total", _COUNTER, "seconds", "engine_cpu_ns",
         "CPU time of all threads of the engine, with polling."),
    Metric(
        "unis_device_descriptors", _GAUGE, "descriptors",
        "Length of a queue of a port of source or sink.", ("device", "direction"),
        _by("direction", "devices",
            ("rx_descriptors", "receive", "Length of the receive queue.", ""),
            ("tx_descriptors", "send", "Length of the send queue.", "")),
    ),
    _one("unis_packet_buffers", _GAUGE, "buffers", "mempool_size",
         "Buffers for packets on rings."),
    _one("unis_used_packet_buffers", _GAUGE, "buffers", "mempool_in_use",
         "Buffers for packets on rings that are in use."),
    _one("unis_lead_seconds", _GAUGE, "seconds", "lead_ns",
         "How early the scheduler starts a switch."),
    Metric(
        "unis_measured_switch_seconds", _GAUGE, "seconds",
        "How long a switch took when it was measured at the start.", ("until",),
        (CountedField("switch_ns", "Until the next function runs.", {"until": "next_runs"}),
         CountedField("preempt_ns", "Until the current function stops.",
                      {"until": "current_stops"})),
    ),
)  # fmt: skip

OUTCOMES = Metric(
    "unis_packets_total",
    _COUNTER,
    "packets",
    "What became of the packets of a run.",
    ("outcome",),
    _by(
        "outcome",
        "account",
        ("delivered", "delivered",
         "They reached the sink, or the last function sent them over its wire.", ""),
        ("copies_ended", "copies_ended", "Copies that were watched, and freed.", ""),
        ("dropped_source", "dropped_source",
         "Dropped by the source's device.", "by the source's device (queue full, or a frame too "
         "long)"),
        ("dropped_ingress_full", "dropped_ingress_full",
         "The first link was full.", "first ring full"),
        ("dropped_egress_full", "dropped_egress_full", "A later link was full.", "a link full"),
        ("dropped_down", "dropped_down", "A function was not there.", "a function down"),
        ("copies_dropped_down", "copies_dropped_down",
         "Copies to a function that was not there.", "copies to a function down"),
        ("unclassified", "unclassified", "They belong to no chain.", "unclassified"),
        ("dropped_sink", "dropped_sink", "Dropped at the sink.", "at the sink"),
    ),
)  # fmt: skip
# While packets move nobody can tell them from packets on their way, so they may become fewer.
ESTIMATED = Metric(
    "unis_dropped_packets_estimate",
    _GAUGE,
    "",
    "Packets that were dropped unseen; exact only while no packet moves.",
    ("by",),
    _by(
        "by",
        "account",
        ("dropped_by_function", "functions", "By functions, on rings.", "by functions"),
        ("dropped_on_links", "links", "By the kernel, on links.", "by the kernel, on links"),
        (
            "lost_unseen",
            "unseen",
            "Always 0: packets that are lost unseen stay in unis_in_flight_packets; only the "
            "account at rest tells them apart.",
            "lost unseen",
        ),
    ),
)

_ACCOUNT = (
    _one("unis_offered_packets_total", _COUNTER, "packets", "account.offered",
         "Packets that came: from the source, or over wires into the first functions."),
    _one("unis_copied_packets_total", _COUNTER, "packets", "account.copied",
         "Copies that the engine made of packets."),
    _one("unis_refused_copies_total", _COUNTER, "copies", "account.copies_dropped",
         "Copies that were not made, because there was no room for them."),
    OUTCOMES,
    ESTIMATED,
    _one("unis_in_flight_packets", _GAUGE, "packets", "account.in_flight",
         "Packets in links and functions at the moment. Off rings also those that functions "
         "dropped, or that links lost unseen."),
    _one("unis_unaccounted_packets", _GAUGE, "packets", "account.unaccounted",
         "Packets that are missing from the account, or too many in it; 0 where it is exact."),
)  # fmt: skip

METRICS: tuple[Metric, ...] = (
    *_FUNCTIONS, *_LINKS, *_CHAINS, *_CPUS, *_ENGINE, *_ACCOUNT,
)  # fmt: skip

# Numbers of the statistics that are no metric, by why.
NO_METRIC = {
    "time_ns": "when the statistics were taken",
    "packet_mark": "a constant, for probes",
    "functions.cpu": "a setting; a label elsewhere",
    "functions.pid": "names a process",
    "functions.tid": "names a thread",
    "functions.time.elapsed_ns": "the sum of the states",
    "chains.edges.port": "a label",
    "chains.edges.taken": "offered less dropped less waiting",
    "cores.cpu": "a label",
    "cores.switches": "the sum over the reasons",
    "components.cpu": "a setting",
}

# Of those, what columns show.
_SUMS = (
    CountedField("chains.edges.taken", "Packets that the next function took."),
    CountedField("cores.switches", "How often another function got this CPU."),
)
_BY_PATH = {
    r.path: r for r in (*_SUMS, *(r for metric in METRICS for r in metric.readings)) if not r.of
}


def reading(path: str) -> CountedField:
    """The one of a field of the statistics."""
    return _BY_PATH[path]
