"""Parts of a chain file in the words of the contract; engine and simulator share them."""

import ipaddress
from pathlib import Path

from unis.chain.model import (
    NS_PER_MS,
    NS_PER_US,
    InterfaceSink,
    InterfaceSource,
    Kernel,
    Match,
    PcapSource,
    PortSink,
    PortSource,
    SchedulerPart,
    SyntheticSource,
    Traffic,
    WireSource,
)
from unis.engine import names
from unis.plan.dma import DmaChoice
from unis.v1 import common_pb2, engine_pb2, traffic_pb2

SHARED_NAP_NS = 50_000  # the longest time between two looks at functions that hand the CPU over
SIZE_MIXES = {"imix": common_pb2.SIZE_MIX_IMIX, "datacenter": common_pb2.SIZE_MIX_DATACENTER}


def scheduler_settings(
    part: SchedulerPart, gamma: float, share: bool = False
) -> common_pb2.SchedulerSettings:
    """Settings of the scheduler, times in ns; what the file leaves out stays absent.

    `share`: whether others may use what is left of the platform's CPU.
    """
    # Of a chain file the planner has resolved it; nobody else lets functions sleep.
    delay = 0.0 if part.max_delay_us == "auto" else part.max_delay_us
    return common_pb2.SchedulerSettings(
        gamma=gamma,
        theta_min=part.theta_min,
        theta_max=part.theta_max,
        interval_ns=round(part.interval_us * NS_PER_US),
        occupancy=part.occupancy,
        max_wait_ns=round(part.max_wait_us * NS_PER_US),
        online_cost=part.cost == "online",
        idle_ns=round(part.idle_us * NS_PER_US),
        max_delay_ns=round(delay * NS_PER_US),
        platform_nap_ns=min(SHARED_NAP_NS, round(delay * NS_PER_US)) if share else 0,
        lead_ns=None if part.lead_us == "auto" else round(part.lead_us * NS_PER_US),
        quota=0 if part.quota == "auto" else part.quota,
        keep_order=part.keep_order,
    )


def kernel_scheduling(kernel: Kernel) -> engine_pb2.KernelScheduling:
    """How the kernel runs a function where the kernel decides."""
    return engine_pb2.KernelScheduling(
        policy=names.policy(kernel.policy) if kernel.policy else None,
        priority=kernel.priority,
        nice=kernel.nice,
        slice_ns=None if kernel.slice_ms is None else round(kernel.slice_ms * NS_PER_MS),
    )


def fair_slice_ns(part: SchedulerPart) -> int | None:
    """The time slice of functions under the kernel's fair policies; None: the kernel's."""
    return None if part.fair_slice_ms is None else round(part.fair_slice_ms * NS_PER_MS)


def flow_match(match: Match) -> engine_pb2.FlowMatch:
    """A match; what the file leaves out stays absent, which matches everything."""
    return engine_pb2.FlowMatch(
        src=_prefix(match.src),
        dst=_prefix(match.dst),
        src_port=match.src_port,
        dst_port=match.dst_port,
        protocol=match.protocol_number,
    )


def _prefix(text: str | None) -> engine_pb2.Prefix | None:
    if text is None:
        return None
    network = ipaddress.IPv4Network(text)
    return engine_pb2.Prefix(address=int(network.network_address), length=network.prefixlen)


def traffic_config(
    traffic: Traffic, directory: Path, dma: DmaChoice | None = None
) -> traffic_pb2.TrafficConfig:
    """Source, rate, arrivals and sink; the path of a capture is made absolute. `dma` says how long
    queues of NICs are.
    """
    config = traffic_pb2.TrafficConfig(pps=traffic.pps, bps=traffic.bps)
    match traffic.source:
        case SyntheticSource(size=str(mix), flows=flows):
            config.synthetic.mix = SIZE_MIXES[mix]
            config.synthetic.flows = flows
        case SyntheticSource(size=int(size), flows=flows):
            config.synthetic.size = size
            config.synthetic.flows = flows
        case PcapSource(file=file):
            config.replay.file = str((directory / file).resolve())
        case PortSource() | InterfaceSource() as port:
            config.port.device = port.device
            if length := (dma.rx if dma else None) or port.descriptors:
                config.port.descriptors = length
        case WireSource():
            config.wire.SetInParent()
    if not traffic.from_port:
        config.arrivals = names.arrivals_kind(traffic.arrivals)
    if isinstance(traffic.sink, PortSink | InterfaceSink):
        config.sink_device = traffic.sink.device
        if length := (dma.tx if dma else None) or traffic.sink.descriptors:
            config.sink_descriptors = length
    return config
