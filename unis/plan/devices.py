"""DPDK ports that are source or sink of a run."""

import re

from unis.chain.model import PortSink, PortSource, Traffic
from unis.plan import dma

_PCI_ADDRESS = re.compile(r"([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")


def traffic_ports(traffic: Traffic) -> list[PortSource | PortSink]:
    """The source and the sink, if they are ports."""
    return [end for end in (traffic.source, traffic.sink) if isinstance(end, PortSource | PortSink)]


def port_packets(traffic: Traffic) -> int:
    """What queues of source and sink hold at most, with the short ones of ways not used."""
    lengths = [end.descriptors or dma.QUEUE_DESCRIPTORS for end in traffic_ports(traffic)]
    return sum(length + dma.LEAST_DESCRIPTORS for length in lengths)


def nic(end: PortSource | PortSink) -> str:
    """Its PCI address; empty for devices of other kinds, which have no DMA of their own."""
    address = end.device.partition(",")[0]
    return address if _PCI_ADDRESS.fullmatch(address) else ""


def pci_addresses(traffic: Traffic) -> tuple[str, ...]:
    """The NICs among source and sink, which DPDK must be let probe."""
    return tuple(dict.fromkeys(filter(None, map(nic, traffic_ports(traffic)))))
