"""A chain file as the model's chains. Reads no file but what was loaded."""

from collections.abc import Mapping
from dataclasses import replace

from unis.capacity.chain import FunctionCost, ModelChain, ModelFunction, ModelLink
from unis.capacity.demands import Setting
from unis.capacity.machine import MachineFile
from unis.chain import defaults
from unis.chain.graph import ChainGraph, Edge
from unis.chain.load import LoadedChain
from unis.chain.values import INGRESS
from unis.links import KINDS
from unis.plan.wiring import LinkPlace, link_problems, wire

_USUAL_RING = 4096  # slots of `ring: auto` under hand-over, where packets cost little
_PART_WHEN_WOKEN = 4  # a quarter of a link


def chains_of(
    chain: LoadedChain,
    costs: Mapping[str, FunctionCost],
    sizes: Mapping[int, int],
    machine: MachineFile,
) -> tuple[ModelChain, ...]:
    """The chains of a file, with the costs of its functions. ChainFileError if its links are wrong.

    `sizes`: bytes of frames with FCS, and how many have them. Their ends are the first NIC of the
    machine, if there is one.
    """
    wired = wire(chain.file, chain.graph)
    if problems := [*link_problems(chain.file, wired)]:
        raise chain.error(problems)
    nic = next(iter(machine.nics), None)
    return tuple(
        ModelChain(
            name=part.name,
            functions={
                name: ModelFunction(name, chain.file.function(name).cpu or 0, costs[name])
                for name in part.functions
            },
            links=(
                *_links(part, wired.passed[part.name]),
                *(
                    ModelLink(name, "", (place.kind,), _shares(part).get(name, 0.0))
                    for name, place in zip(
                        (each for each in part.functions if not part.out_of(each)),
                        wired.drains[part.name],
                        strict=True,
                    )
                ),
            ),
            sizes=dict(sizes),
            nic=nic,
            back=part.reverse_of is not None,
        )
        for part in chain.graph.chains.values()
    )


def setting_of(chain: LoadedChain, machine: MachineFile, base: Setting | None = None) -> Setting:
    """How the file uses a machine; `base` has what the file does not tell."""
    file = chain.file
    stated = file.platform_cpus
    source = stated[0] if stated else _free_cpu(file.cpus, int(machine.cpus.count.value))
    sink, scheduler = (stated[at] if at < len(stated) else source for at in (1, 2))
    return replace(
        base or Setting(),
        source_cpu=source,
        sink_cpu=sink,
        scheduler_cpu=scheduler,
        carrier_cpu=file.ovs.cpu,
        turn=_turn(chain),
        woken_by=_shortest(chain) / _PART_WHEN_WOKEN if _sleeps(chain) else 0.0,
        max_delay_us=file.max_delay_us if _sleeps(chain) else 0.0,
    )


def _free_cpu(taken: frozenset[int], count: int) -> int:
    return next((cpu for cpu in range(count) if cpu not in taken), 0)


def _turn(chain: LoadedChain) -> float:
    """Packets of a function's turn: its quota, and no more than γ of the shortest link holds."""
    stated = chain.file.scheduler
    quota = defaults.AUTO_QUOTA if stated.quota == "auto" else stated.quota
    gamma = defaults.PAPER_GAMMA if stated.gamma == "auto" else stated.gamma
    return min(float(quota), gamma * _shortest(chain))


def _shortest(chain: LoadedChain) -> float:
    """Packets that its shortest link holds; of rings whose length is not stated, what is usual."""
    rings = [
        _USUAL_RING if part.ring == "auto" else part.ring for part in chain.file.chains.values()
    ]
    stated = [link.slots for link in chain.file.links if link.slots]
    kinds = {link.kind for link in chain.file.links if not link.slots}
    usual = [slots for kind in kinds if (slots := KINDS[kind].default_slots)]
    return float(min(*rings, *stated, *usual, _USUAL_RING))


def _sleeps(chain: LoadedChain) -> bool:
    """Whether its functions sleep between packets."""
    stated = chain.file.scheduler
    hands_over = stated.policy == "unis" and stated.controller == "handover"
    return hands_over and chain.file.max_delay_us > 0


def _links(part: ChainGraph, passed: Mapping[Edge, tuple[LinkPlace, ...]]) -> tuple[ModelLink, ...]:
    shares = _shares(part)
    return tuple(
        ModelLink(
            edge.origin,
            edge.to,
            tuple(place.kind for place in passed[edge]),
            shares.get(edge.origin, 0.0) * _share(part, edge),
            edge.tap,
        )
        for edge in part.edges
    )


def _shares(part: ChainGraph) -> dict[str, float]:
    """How often a packet of the chain passes each function."""
    found = {INGRESS: 1.0}
    for edge in part.edges:  # in topological order
        passing = found.get(edge.origin, 0.0) * _share(part, edge)
        found[edge.to] = found.get(edge.to, 0.0) + passing
    return found


def _share(part: ChainGraph, edge: Edge) -> float:
    """Of the packets that leave by its port. What matches is not known: such edges share alike."""
    if edge.tap:
        return 1.0
    beside = [other for other in part.out_of(edge.origin) if not other.tap]
    whole = sum(other.weight or 1 for other in beside)
    return (edge.weight or 1) / whole
