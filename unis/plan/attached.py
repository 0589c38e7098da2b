"""A run of functions that somebody else started: only scheduled, over links that others made."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from unis.chain import defaults
from unis.chain.model import SchedulerPart, Traffic
from unis.plan.contract import scheduler_settings
from unis.plan.model import EnginePlan, Places, Plan
from unis.plan.rings import GammaChoice
from unis.v1 import engine_pb2 as pb
from unis.v1.common_pb2 import LINK_MEMIF, LINK_RING, LINK_VETH
from unis.workload import engine_prefix


@dataclass(frozen=True)
class RingEnd:
    """A function's end of a ring."""

    link: str  # its name
    ways: ClassVar[int] = 1
    number: ClassVar[int] = 0
    sockets: ClassVar[tuple["PacketSocket", ...]] = ()

    def message(self) -> pb.LinkConfig:
        """The link, as the engine has it."""
        return pb.LinkConfig(name=self.link, kind=LINK_RING)

    def direction(self, *, receives: bool) -> str:  # noqa: ARG002
        """The same for two ends of a link if one receives what the other sends."""
        return self.link


@dataclass(frozen=True)
class MemifEnd:
    """A function's end of a memif."""

    inode: int  # of the file that is its memory
    slots: int  # of each ring
    buffer_bytes: int
    client: bool  # else the server
    queues_to_server: int = 1
    queues_to_client: int = 1
    ways: ClassVar[int] = 2
    sockets: ClassVar[tuple["PacketSocket", ...]] = ()

    @property
    def number(self) -> int:
        """Of the link's two ends."""
        return int(self.client)

    @property
    def link(self) -> str:
        """What the link is called."""
        return f"memif-{self.inode}"

    def message(self) -> pb.LinkConfig:
        """The link, as the engine has it."""
        memif = pb.Memif(
            inode=self.inode,
            buffer_bytes=self.buffer_bytes,
            queues_to_server=self.queues_to_server,
            queues_to_client=self.queues_to_client,
        )
        return pb.LinkConfig(name=self.link, kind=LINK_MEMIF, slots=self.slots, memif=memif)

    def direction(self, *, receives: bool) -> str:
        """The same for two ends of a link if one receives what the other sends."""
        return f"{self.link} to {'server' if receives != self.client else 'client'}"


@dataclass(frozen=True, order=True)
class DeviceId:
    """A network interface."""

    namespace: int  # inode of its network namespace
    index: int


@dataclass(frozen=True)
class PacketSocket:
    """A packet socket, whose receive ring can be read, or one of AF_XDP."""

    inode: int
    slots: int = 0  # 0: it has no rings
    slot_bytes: int = 0
    ring_bytes: int = 0  # of both rings
    xdp: bool = False  # it tells the rest itself


@dataclass(frozen=True)
class PacketEnd:
    """A function's sockets on an interface. The link is what leads there and away."""

    device: DeviceId
    peer: DeviceId | None  # of a veth: what the interface sends the peer receives
    sockets: tuple[PacketSocket, ...]
    ways: ClassVar[int] = 2

    @property
    def _first(self) -> DeviceId:
        return min(self.device, self.peer or self.device)

    @property
    def number(self) -> int:
        """Of the link's two ends."""
        return int(self.device != self._first)

    @property
    def link(self) -> str:
        """What the link is called: the same seen from either end."""
        return f"packet-{self._first.index}-{self._first.namespace & 0xFFFFFFF:x}"

    def message(self) -> pb.LinkConfig:
        """The link, as the engine has it: the ports say what is at its ends."""
        return pb.LinkConfig(name=self.link, kind=LINK_VETH, veth=pb.Veth(queues=1))

    def direction(self, *, receives: bool) -> str:
        """The same for two ends of a link if one receives what the other sends."""
        return f"{self.link} to {self.number if receives else 1 - self.number}"


End = RingEnd | MemifEnd | PacketEnd


@dataclass(frozen=True)
class AttachedPath:
    """A way through a function."""

    ingress: End
    egress: End


@dataclass(frozen=True)
class AttachedFunction:
    """A function that somebody else started."""

    name: str
    pid: int
    cpu: int
    cost_ns: float | None  # per packet; None: not known
    paths: tuple[AttachedPath, ...]

    def ports(self) -> list[tuple[End, str]]:
        """Its ports, as the engine counts them: of rings one each way, else one both ways."""
        return list(dict.fromkeys(port for path in self.paths for port in _ports(path)))

    def message(self) -> pb.FunctionConfig:
        """Its message of the contract."""
        ports = [
            pb.PortConfig(
                name=f"{self.name}.{at}",
                rx=end.link if way in ("rx", "both") else "",
                tx=end.link if way in ("tx", "both") else "",
                end=end.number,
                sockets=[pb.PacketSocket(**vars(one)) for one in end.sockets],
            )
            for at, (end, way) in enumerate(self.ports())
        ]
        return pb.FunctionConfig(
            name=self.name,
            cpu=self.cpu,
            cost_ns=self.cost_ns or 0.0,
            group=pb.GROUP_FOREIGN,
            ports=ports,
        )

    def hop(self, path: AttachedPath) -> pb.Hop:
        """A way through it, as the engine has it."""
        ports = self.ports()
        rx, tx = _ports(path)
        return pb.Hop(function=self.name, in_port=ports.index(rx), out_port=ports.index(tx))


def _as_of_server(end: MemifEnd) -> MemifEnd:
    return replace(end, client=False)


def _ports(path: AttachedPath) -> tuple[tuple[End, str], tuple[End, str]]:
    ingress, egress = path.ingress, path.egress
    rx, tx = ("both" if end.ways == 2 else way for end, way in ((ingress, "rx"), (egress, "tx")))
    return (ingress, rx), (egress, tx)


@dataclass(frozen=True)
class AttachedPlan(Plan):
    """What is attached now. Nothing of it is made, started or ended."""

    foreign: bool = True
    attached: tuple[AttachedFunction, ...] = ()

    def with_attached(self, functions: Sequence[AttachedFunction]) -> "AttachedPlan":
        """The same run with these functions."""
        cpus = sorted({function.cpu for function in functions} or self.cpus)
        return replace(self, attached=tuple(functions), cpus=tuple(cpus))

    def disputed(self) -> set[str]:
        """Links that are not the same to the functions at their ends."""
        ends = {end for function in self.attached for end, _ in function.ports()}
        memifs = {_as_of_server(end) for end in ends if isinstance(end, MemifEnd)}
        links = [end.link for end in memifs]
        return {link for link in links if links.count(link) > 1}

    def deploy(self, costs: Mapping[str, float], run_id: str) -> pb.DeployRequest:  # noqa: ARG002
        """What Deploy and Apply take."""
        ends = [
            end
            for function in self.attached
            for path in function.paths
            for end in (path.ingress, path.egress)
        ]
        return pb.DeployRequest(
            run=self.name,
            run_id=run_id,
            links={end.link: end.message() for end in ends}.values(),
            functions=[function.message() for function in self.attached],
            chains=_chains(self.attached),
            scheduler=scheduler_settings(self.scheduler, self.gamma.value),
            foreign=True,
        )


def plan_attached(
    name: str,
    cpu: int,
    platform_cpu: int,
    places: Places,
    group: str | None,
    policy: str,
) -> AttachedPlan:
    """The plan of a run to which functions are attached one by one, on `cpu` at first.

    `group`: file prefix of the DPDK group that has their rings; None where they have none.
    """
    prefix = engine_prefix(name)
    # Programs that others started lack the plug-in by which they could hand the CPU over.
    scheduler = SchedulerPart(controller="priority")
    return AttachedPlan(
        name=name,
        chain_file=Path(),
        directory=Path("/"),
        platform_cpus=(platform_cpu,),
        cpus=(cpu,),
        engine=EnginePlan(
            argv=(
                *("--socket", str(places.engine_socket)),
                *("--file-prefix", prefix),
                *("--cpus", str(platform_cpu)),
                "--foreign",
                *(("--join", group) if group else ()),
            ),
            file_prefix=prefix,
            pci=(),
            joins=group,
        ),
        links=(),
        functions=(),
        chains=(),
        traffic=Traffic(),
        scheduler=scheduler,
        # Neither what links hold nor what packets cost is known before functions are attached.
        gamma=GammaChoice(defaults.PAPER_GAMMA, "the paper's"),
        policy=policy,
        controller=scheduler.controller,
        hugepages_mb=0,
    )


def _chains(functions: Sequence[AttachedFunction]) -> Iterator[pb.ChainConfig]:
    """Paths, joined where one begins with what another ends with: the order of the scheduler."""
    paths = [(function, path) for function in functions for path in function.paths]
    into = {path.ingress.direction(receives=True): (function, path) for function, path in paths}
    continued = {path.egress.direction(receives=False) for _, path in paths}
    # Those that nobody attached feeds; then, of circles, any.
    first = [way for way in paths if way[1].ingress.direction(receives=True) not in continued]
    seen: set[int] = set()
    chains = 0
    for start in [*first, *paths]:
        hops: list[tuple[AttachedFunction, AttachedPath]] = []
        way: tuple[AttachedFunction, AttachedPath] | None = start
        while way and id(way[1]) not in seen:
            seen.add(id(way[1]))
            hops.append(way)
            way = into.get(way[1].egress.direction(receives=False))
        if hops:
            chains += 1
            yield pb.ChainConfig(
                name=f"chain{chains}",
                ingress=hops[0][1].ingress.link,
                hops=[function.hop(path) for function, path in hops],
                egress=hops[-1][1].egress.link,
            )
