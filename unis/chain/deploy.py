"""A chain file as the engine wants it."""

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path

from unis.chain.load import LoadedChain
from unis.chain.model import (
    Chain,
    Match,
    PcapSource,
    PortSink,
    PortSource,
    SchedulerPart,
    SyntheticSource,
    Traffic,
)
from unis.engine import names
from unis.v1 import engine_pb2 as pb

NS_PER_US = 1000
_PCI_ADDRESS = re.compile(r"([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
SIZE_MIXES = {"imix": pb.SIZE_MIX_IMIX, "datacenter": pb.SIZE_MIX_DATACENTER}


def deploy_request(chain: LoadedChain, costs: Mapping[str, float]) -> pb.DeployRequest:
    """What Deploy takes; `costs` (ns a packet, by NF) stand in where the file states none."""
    file = chain.file
    return pb.DeployRequest(
        chains=[_chain_config(part, costs) for part in file.chains],
        traffic=traffic_config(file.traffic, chain.directory),
        scheduler=scheduler_settings(file.scheduler),
        controller=names.controller(file.scheduler.controller),
        rr_timeslice_ms=file.scheduler.rr_timeslice_ms or 0,
    )


def pci_addresses(traffic: Traffic) -> list[str]:
    """The NICs among source and sink, which DPDK must be let probe."""
    ends = [end for end in (traffic.source, traffic.sink) if isinstance(end, PortSource | PortSink)]
    addresses = [end.device.partition(",")[0] for end in ends]
    return list(dict.fromkeys(filter(_PCI_ADDRESS.fullmatch, addresses)))


def _chain_config(chain: Chain, costs: Mapping[str, float]) -> pb.ChainConfig:
    return pb.ChainConfig(
        name=chain.name,
        match=[flow_match(match) for match in chain.match],
        ring_size=chain.ring,
        nfs=[
            pb.NfConfig(
                name=function.name,
                cpu=function.cpu,
                cost_ns=function.mean_cost_ns or costs.get(function.name, 0.0),
                yield_every=function.yield_every,
            )
            for function in chain.ordered
        ],
    )


def scheduler_settings(part: SchedulerPart) -> pb.SchedulerSettings:
    """Settings of the scheduler, times in ns; what the file leaves out stays absent."""
    settings = pb.SchedulerSettings(
        gamma=part.gamma,
        batch=part.batch,
        theta_min=part.theta_min_packets,
        interval_ns=round(part.interval_us * NS_PER_US),
        occupancy=part.occupancy,
        max_wait_ns=round(part.max_wait_us * NS_PER_US),
    )
    if part.theta_max is not None:
        settings.theta_max = part.theta_max
    if not isinstance(part.lead_us, str):
        settings.lead_ns = round(part.lead_us * NS_PER_US)
    return settings


def flow_match(match: Match) -> pb.FlowMatch:
    """A match; what the file leaves out stays absent, which matches everything."""
    result = pb.FlowMatch()
    for text, prefix in ((match.src, result.src), (match.dst, result.dst)):
        if text is not None:
            network = ipaddress.IPv4Network(text)
            prefix.address = int(network.network_address)
            prefix.length = network.prefixlen
            prefix.SetInParent()
    if match.src_port is not None:
        result.src_port = match.src_port
    if match.dst_port is not None:
        result.dst_port = match.dst_port
    if match.protocol_number is not None:
        result.protocol = match.protocol_number
    return result


def traffic_config(traffic: Traffic, directory: Path) -> pb.TrafficConfig:
    """Source, rate and sink; the path of a capture is made absolute."""
    config = pb.TrafficConfig(pps=traffic.pps, bps=traffic.bps)
    match traffic.source:
        case SyntheticSource(size=str(mix), flows=flows):
            config.synthetic.mix = SIZE_MIXES[mix]
            config.synthetic.flows = flows
        case SyntheticSource(size=int(size), flows=flows):
            config.synthetic.size = size
            config.synthetic.flows = flows
        case PcapSource(file=file):
            config.replay.file = str((directory / file).resolve())
        case PortSource(device=device):
            config.port.device = device
    if isinstance(traffic.sink, PortSink):
        config.sink_device = traffic.sink.device
    return config
