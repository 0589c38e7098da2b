"""What links between virtual functions of NICs need of a plan: ports with room for them, VLANs that
keep tenants apart, and functions that write the address of the next one.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unis import links
from unis.chain.model import ChainFile, Function
from unis.chain.problem import Problem
from unis.errors import UnisError
from unis.links import physical
from unis.nics.layout import (
    NicPort,
    VfChoice,
    VfsFor,
    VfsWanted,
    choices,
    lay_out,
    shortages,
    vfs_to_make,
)
from unis.plan.dma import pci_drivers
from unis.plan.programs import loads_plugin
from unis.plan.wiring import LinkPlace, Wiring

_FIRST_VLAN, _LAST_VLAN = 2, 4094  # NICs and switches give 1 a meaning
_PLACE = "{{next_mac{}}}"


@dataclass(frozen=True)
class OnNics:
    """The links that are on NICs, and what is wrong with them here."""

    choices: Mapping[LinkPlace, VfChoice]
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def look_at_nics(file: ChainFile, wiring: Wiring, root: Path) -> OnNics:
    """Reads of the machine only what the file names; `root` is where sysfs is."""
    places = [place for place in wiring.places if links.KINDS[place.kind].on_nics]
    if not places:
        return OnNics({})
    problems = [
        *_rewriting(wiring),
        *_counting(wiring),
        *_users(wiring, places),
        *_same_vlan(file, places),
    ]
    if not file.sriov.nics:
        problems.append(
            Problem(
                ("sriov", "nics"),
                "names no NIC, and links are of kind sriov; write sriov: {nics: [enp1s0f0]}, with "
                "the interfaces of NICs that have SR-IOV",
            )
        )
        return OnNics({}, problems=tuple(problems))
    ports: dict[str, NicPort] = {}  # as the file calls them
    for at, name in enumerate(file.sriov.nics):
        try:
            ports[name] = physical.port_for(name, file.name, root)
        except UnisError as error:
            problems.append(Problem(("sriov", "nics", at), str(error)))
    problems += [
        Problem(
            ("traffic",),
            f"vfio-pci would take {port.interface} from the kernel, whose driver makes the virtual "
            "functions of links on it; state driver: mmsg, or name another NIC",
        )
        for port in ports.values()
        if pci_drivers(file.traffic).get(port.address)
    ]
    problems += _unknown_nics(file)
    if problems:
        return OnNics({}, problems=tuple(problems))
    distinct = list({port.address: port for port in ports.values()}.values())
    wanted = [VfsWanted(_named(place, ports), _way(place)) for place in places]
    problems += [
        Problem(("links",) if address else ("sriov", "nics"), sentence)
        for address, sentence in shortages(distinct, wanted)
    ]
    if any(_by_vfio(place) for place in places):
        for at, port in enumerate(ports.values()):
            if why := physical.vfio_hindrance(port.address, root):
                problems.append(Problem(("sriov", "nics", at), why))
    if problems:
        return OnNics({}, problems=tuple(problems))
    vlans = tenants_vlans(file, [place.chain for place in places])
    port_vfs = vfs_to_make(distinct, lay_out(distinct, wanted))
    found = {
        place: VfChoice(
            rooms=rooms,
            port_vfs=port_vfs,
            vlan=(place.of_kind.vlan if place.of_kind else None) or vlans.get(place.chain, 0),
            rate_mbps=place.of_kind.rate_mbps if place.of_kind else 0,
            spoof_check=bool(place.of_kind and place.of_kind.spoof_check),
        )
        for place, rooms in zip(places, choices(distinct, wanted), strict=True)
    }
    return OnNics(found, tuple(_told(file, vlans)))


def tenants_vlans(file: ChainFile, chains: Sequence[str]) -> dict[str, int]:
    """By chain, where the chains that are on NICs are of several tenants: each has a VLAN that the
    file does not state of any link. It depends on the tenant's name, not on who else is there,
    unless two would have the same.
    """
    tenants = {name: file.tenant_of(name) for name in chains}
    if len({*tenants.values()}) < 2:
        return {}
    used = {link.vlan for link in file.links if link.vlan}
    found: dict[str, int] = {}
    for tenant in sorted({tenant for tenant in tenants.values() if tenant}):
        count = _LAST_VLAN + 1 - _FIRST_VLAN
        start = int.from_bytes(hashlib.sha256(tenant.encode()).digest()[:4])
        free = (_FIRST_VLAN + (start + at) % count for at in range(count))
        found[tenant] = next(vlan for vlan in free if vlan not in used)
        used.add(found[tenant])
    return {chain: found[tenant] for chain, tenant in tenants.items() if tenant}


def next_hops(wiring: Wiring, function: str, macs: Mapping[str, str]) -> list[str]:
    """What a function of ours writes into packets, for each of its ports, or for the one by which
    it says that they leave; `macs` by places of commands.
    """
    leaving = _leaving(wiring, function)
    says = "--ports" in wiring.graph.functions[function].args
    ports = leaving[:1] if says else range(len(wiring.ports[function]))
    return [macs.get(f"next_mac{port}", "-") for port in ports] if leaving else []


def plugin_hops(
    wiring: Wiring, function: str, devices: Sequence[str], macs: Mapping[str, str]
) -> str:
    """What the plug-in writes into packets for a command that does not do so itself, as the
    variable NEXT_HOPS has it; empty: nothing. `devices`: values of EAL's, of each port.
    """
    stated = wiring.graph.functions[function]
    if stated.command is None:
        return ""
    return ",".join(
        f"{devices[port].partition(',')[0]}={macs[f'next_mac{port}']}"
        for port in _leaving(wiring, function)
        if not _writes(stated, port)
    )


def _leaving(wiring: Wiring, function: str) -> list[int]:
    """Its ports by which packets leave it into links on NICs."""
    found = {
        wiring.out_port(chain.name, edge)
        for chain in wiring.graph.chains_of(function)
        for edge in chain.out_of(function)
    }
    ports = wiring.ports[function]
    return [port for port in sorted(found) if links.KINDS[ports[port].kind].on_nics]


def _rewriting(wiring: Wiring) -> Iterator[Problem]:
    for name, function in wiring.graph.functions.items():
        for port in _leaving(wiring, name):
            if not (_writes(function, port) or loads_plugin(function)):
                place = _PLACE.format(port)
                yield Problem(
                    ("functions", name),
                    f"nothing writes the MAC address of the next function into what `{name}` sends "
                    f"on port {port}, so the NIC would bring each packet back to it, for ever; let "
                    f"it load UNiS's plug-in, which writes the address, or write {place} where the "
                    f"command takes it, as --eth-peer={port},{place} of dpdk-testpmd, or state "
                    "rewrites: true",
                )


def _counting(wiring: Wiring) -> Iterator[Problem]:
    """Of commands at wires whose words leave out the plug-in, though nothing states that."""
    for name, function in wiring.graph.functions.items():
        ends = [place for port in wiring.ports[name] for place in (port.rx, port.tx)]
        at_wire = any(place and place.wire for place in ends)
        if at_wire and function.plugin and not loads_plugin(function):
            yield Problem(
                ("functions", name, "command"),
                f"`{name}` is at a wire, whose packets UNiS's plug-in counts, and the command does "
                "not load the plug-in; write {eal}, or -d {plugin}, among EAL's arguments",
            )


def _writes(function: Function, port: int) -> bool:
    words = function.command
    return words is None or function.rewrites or any(_PLACE.format(port) in word for word in words)


def _named(place: LinkPlace, ports: Mapping[str, NicPort]) -> str | None:
    """The address of the port that the file names."""
    name = place.of_kind.nic if place.of_kind else None
    return ports[name].address if name else None


def _way(place: LinkPlace) -> VfsFor:
    if not place.wire:
        return VfsFor.LINK
    return VfsFor.WIRE_IN if place.to else VfsFor.WIRE_OUT


def _by_vfio(place: LinkPlace) -> bool:
    return not place.of_kind or place.of_kind.driver in (None, "vfio")


def _users(wiring: Wiring, places: Sequence[LinkPlace]) -> Iterator[Problem]:
    names = {name for place in places if _by_vfio(place) for name in place.functions}
    for name in sorted(names):
        if (user := wiring.graph.functions[name].user) not in (None, "root"):
            yield Problem(
                ("functions", name, "user"),
                f"`{user}` may not open vfio's devices, which are root's; leave the user out, or "
                "let its links of kind sriov state driver: af_packet",
            )


def _same_vlan(file: ChainFile, places: Sequence[LinkPlace]) -> Iterator[Problem]:
    first: dict[int, str | None] = {}
    for place in places:
        if place.of_kind and (vlan := place.of_kind.vlan):
            tenant = file.tenant_of(place.chain)
            if first.setdefault(vlan, tenant) != tenant:
                names = " and ".join(
                    f"`{name}`" if name else "none" for name in (first[vlan], tenant)
                )
                yield Problem(
                    ("links", file.links.index(place.of_kind), "vlan"),
                    f"VLAN {vlan} has links of tenants {names}; give each a VLAN of its own, or "
                    "leave it out",
                )


def _unknown_nics(file: ChainFile) -> Iterator[Problem]:
    for at, link in enumerate(file.links):
        if link.nic and link.nic not in file.sriov.nics:
            yield Problem(
                ("links", at, "nic"),
                f"`{link.nic}` is not under sriov.nics; add it, or name one of "
                f"{', '.join(file.sriov.nics)}",
            )


def _told(file: ChainFile, vlans: Mapping[str, int]) -> Iterator[str]:
    of_tenants = {file.tenant_of(chain): vlan for chain, vlan in vlans.items()}
    for tenant, vlan in of_tenants.items():
        yield f"tenant {tenant} has VLAN {vlan} on the NIC"
