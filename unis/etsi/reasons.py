"""Why parts of a descriptor, or of a chain file, are not carried over."""

from unis.chain.problem import Location
from unis.etsi.tree import bare

_ABOUT = "describes the descriptor; a chain file has no such key"
_SCALING = "a function is one process; UNiS does not scale"
_LIFE = "UNiS starts, restarts and ends functions itself; see `restart` in the chain file"
_AFFINITY = "all functions run on this machine; state their CPUs by `cpu`"
_MACHINE = "a function uses this machine; state `cpu` and `lcores` in the chain file"
_PORTS = "a function gets the ports of its chains and no others"
_WATCHED = "UNiS has its own metrics; see `unis serve`"
_NETWORK = "the packets of a chain keep their addresses; UNiS configures no network"
_QOS = "UNiS has no such goal; the goal of a chain is `slo: {p95_latency: …}`"
_SECURITY = "UNiS filters no packets; a function such as firewall does"

# By key, without the name of its YANG module.
_DESCRIPTOR = {
    **dict.fromkeys(
        ["designer", "version", "name", "product-name", "provider", "software-version",
         "description", "invariant-id", "ext-invariant-id", "product-info-name", "vnfm-info",
         "product-info-description", "signature", "algorithm", "certificate",
         "localization-language", "default-localization-language"],
        _ABOUT,
    ),
    **dict.fromkeys(
        ["scaling-aspect", "autoscale-rule", "auto-scale", "instantiation-level",
         "ns-instantiation-level", "default-instantiation-level", "min-number-of-instances",
         "max-number-of-instances", "flavour-id", "vdu-profile", "target-vnf-scale-level-info"],
        _SCALING,
    ),
    **dict.fromkeys(
        ["lifecycle-management-script", "lcm-operations-configuration", "cloud-init",
         "cloud-init-file", "boot-data", "healing-aspect", "ns-lcm-additional-params",
         "configurable-properties", "modifiable-attributes", "config-primitive", "kdu",
         "ns-configuration"],
        _LIFE,
    ),
    **dict.fromkeys(
        ["affinity-or-anti-affinity-group", "local-affinity-or-anti-affinity-rule",
         "affinity-or-anti-affinity-group-id", "placement-groups"],
        _AFFINITY,
    ),
    **dict.fromkeys(
        ["virtual-compute-desc", "virtual-storage-desc", "boot-order", "nfvi-constraint",
         "logical-node", "request-additional-capability"],
        _MACHINE,
    ),
    **dict.fromkeys(
        ["ext-cpd", "int-cpd", "vip-cpd", "virtual-cpd", "mgmt-cp", "sapd", "trunk-port",
         "virtual-network-interface-requirement", "constituent-cpd-id",
         "virtual-link-connectivity"],
        _PORTS,
    ),
    **dict.fromkeys(
        ["monitoring-parameter", "monitored-info", "indicator", "alarm", "monitoring-parameters"],
        _WATCHED,
    ),
    **dict.fromkeys(
        ["virtual-link-protocol-data", "connectivity-type", "ip-address", "mgmt-network",
         "vim-network-name", "layer-protocol", "protocol", "int-virtual-link-desc",
         "virtual-link-desc", "virtual-link-profile"],
        _NETWORK,
    ),
    **dict.fromkeys(
        ["packet-delay-variation", "packet-loss-ratio", "priority", "service-availability-level",
         "min-bitrate-requirements", "latency", "qos"],
        _QOS,
    ),
    **dict.fromkeys(["security-group-rule", "security-group-rule-id"], _SECURITY),
    **dict.fromkeys(
        ["pnf-profile", "pnfd", "pnfd-id", "pnf-profile-id"], "UNiS runs no physical functions"
    ),
    **dict.fromkeys(
        ["ns-profile", "nested-nsd-id", "nested-ns-profile-id"], "UNiS nests no services"
    ),
    "rule": "is free text; write it as `match` of the chain",
    "vnffgd": "no nfpd in it",
    "vnf-profile": "no nfpd passes it, and a chain file has no function outside of chains",
    "vnfd": "no nfpd passes a VNF of it",
    "vdu": "a function is one process; this is not the VDU that names its program",
    "nsd": "one NSD becomes one chain file; choose it by --nsd",
    "sw-image-desc": "the VDU of the function does not use it",
    "max-bitrate-requirements": "`traffic.rate` is one rate, that of the source of a single chain",
    "constituent-base-element-id": "a chain takes its packets from `traffic.source`",
    "forwarding-behaviour": "a position is one function, which gets all packets of the chain",
    "dependencies": "UNiS starts all functions before the first packet",
    "element-group": "a chain file has no groups of functions",
    "os-container-desc": "limits of containers are not in a chain file",
    "df": "a function is one process; UNiS does not scale, and starts and ends it itself",
}  # fmt: skip
# Of a df, by what it is of.
_FLAVOURS = {
    "nsd": "is another deployment flavour; choose it by --flavour",
    "virtual-link-desc": "is a flavour of the link that no chain uses",
}
_NOTHING_LIKE = "a chain file has nothing like it"

_PLACE = "names CPUs, devices or folders of a machine; a descriptor is of none"
_CPU = "names CPUs of a machine; `unis etsi import --cpu` states one"
_SCHEDULING = "a descriptor says nothing of scheduling"
_CHAIN_FILE = {
    "cpu": _CPU,
    "defaults": "states what holds on one machine; `unis etsi import --cpu` states a CPU",
    "platform": _PLACE,
    "directory": _PLACE,
    "scheduler": _SCHEDULING,
    "kernel": _SCHEDULING,
    "yield_every": _SCHEDULING,
    "may_sleep": _SCHEDULING,
    "cost_ns": "a descriptor has no costs of packets",
    "links": "a descriptor has no kinds or lengths of links",
    "ring": "a descriptor has no kinds or lengths of links",
    "source": "a descriptor does not say where packets come from",
    "sink": "a descriptor does not say where packets go",
    "rate": "a descriptor has bits per second, for the link of one chain",
    "arrivals": "a descriptor says nothing of the gaps between packets",
    "reserved": "a descriptor has no promise of packets per second",
    "p95_latency": "a descriptor has latencies in whole ms",
}
_NO_PLACE = "SOL006 has no place for it"


def why_not_in_chain(location: Location) -> str:
    """Why a chain file does not have the part of a descriptor at `location`."""
    keys = _keys(location)
    if keys[-1:] == ["df"] and len(keys) > 1 and keys[-2] in _FLAVOURS:
        return _FLAVOURS[keys[-2]]
    return _DESCRIPTOR.get(keys[-1] if keys else "", _NOTHING_LIKE)


def why_not_in_descriptor(location: Location) -> str:
    """Why a descriptor does not have the part of a chain file at `location`."""
    keys = _keys(location)
    return _CHAIN_FILE.get(keys[-1] if keys else "", _NO_PLACE)


def _keys(location: Location) -> list[str]:
    """Its keys, without the numbers of entries."""
    return [bare(part) for part in location if isinstance(part, str)]
