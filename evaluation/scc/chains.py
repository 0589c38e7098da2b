"""The chains that are measured: functions on links of one kind, all on one CPU."""

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unis import built
from unis.bench import third_party
from unis.chain.load import LoadedChain
from unis.chain.model import API_VERSION, ChainFile

MACSWAP, TESTPMD, ROUTER = "macswap", "testpmd", "router"
# Frames of 64 B that the default buffer of a packet socket holds: as many as queues of testpmd, or
# it would be the queues that count.
SOCKET_SLOTS = 256
_LOCAL = Path(__file__).with_name("local-64.pcap")  # one frame of that type, 64 B with FCS
_QUEUES = re.compile(r"(--[rt]xd)=\d+")
# What ports are called, by link and driver.
_PORTS = {
    "mmsg": "net_mmsg", "af_packet": "net_af_packet", "af_xdp": "net_af_xdp", "memif": "net_memif",
}  # fmt: skip
_ARGUMENTS = {ROUTER: ["--routes", "routes.txt"]}


@dataclass(frozen=True)
class ChainSpec:
    """One chain, brought up once or several times."""

    length: int
    link: str = "veth"
    driver: str = "mmsg"  # empty: of rings, which have none to choose
    batch: int | None = 32  # frames of a system call, with driver mmsg
    calls: str = "vector"  # single: a system call for each frame
    size: int = 64  # of frames, bytes with FCS
    slots: int | None = None
    program: str = MACSWAP
    # local: of an EtherType for local experiments (0x88b5), 64 B, without a time stamp. Of IPv4 the
    # kernel gives a clone to the socket and the frame to its IP layer, at every device.
    frames: Literal["ipv4", "local"] = "ipv4"
    of_second: tuple[str, ...] = ()  # further arguments of the second function

    @property
    def may_wait(self) -> bool:
        """Whether its functions can wait in their receive call."""
        return self.driver == "mmsg" and self.program in (MACSWAP, ROUTER)

    @property
    def name(self) -> str:
        """For people."""
        told = [f"{self.length} {self.program}", f"{self.link} {self.driver}".strip()]
        if self.calls != "vector":
            told.append("recv/send")
        elif self.batch is not None:
            told.append(f"batch {self.batch}")
        if self.slots:
            told.append(f"{self.slots} slots")
        if self.frames == "local":
            told.append("not IP")
        if self.of_second:
            told.append(" ".join(self.of_second))
        return ", ".join([*told, f"{self.size} B"])

    def loaded(self, cpu: int) -> LoadedChain:
        """As `unis up` reads it. LaunchError: a program is missing."""
        path = [f"f{at}" for at in range(1, self.length + 1)]
        link: dict[str, Any] = {"kind": self.link}
        if self.driver in ("mmsg", "af_packet"):
            link["driver"] = self.driver
        if self.driver == "mmsg":
            link |= {"batch": self.batch, "calls": self.calls, "wait": self.may_wait}
        if self.slots:
            link["slots"] = self.slots
        data = {
            "apiVersion": API_VERSION,
            "name": "bench-scc",
            "traffic": {"source": self._source()},
            # Functions that wait are for policies of the kernel: so it begins, whatever comes.
            "scheduler": {"policy": "other", "max_delay_us": 0},
            "defaults": {"cpu": cpu},
            "functions": {name: self._function(at) for at, name in enumerate(path)},
            "chains": {"chain": {"path": path}},
            "links": [
                {"from": origin, "to": to, **link}
                for origin, to in itertools.pairwise(("ingress", *path, "egress"))
            ],
        }
        return LoadedChain(_folder() / "bench-scc.yaml", ChainFile.model_validate(data))

    def _source(self) -> dict[str, Any]:
        if self.frames == "ipv4":
            return {"kind": "synthetic", "size": self.size}
        return {"kind": "pcap", "file": str(_LOCAL)}

    def _function(self, at: int) -> dict[str, Any]:
        if self.program == TESTPMD:
            third_party.check(TESTPMD)
            function = third_party.testpmd() or {}
            command = [_QUEUES.sub(rf"\1={SOCKET_SLOTS}", word) for word in function["command"]]
            return {**function, "command": command, "capabilities": ["net_raw"]}
        # One direction, or each turn would look for packets at two ports.
        port = _PORTS.get(self.driver)
        words = ["--ports", f"{port}0,{port}1"] if port else []
        more = [*_ARGUMENTS.get(self.program, []), *(self.of_second if at == 1 else ())]
        return {"program": self.program, "args": [*words, *more]}


# Drivers of testpmd by the kind of its links.
TESTPMD_DRIVERS = {"veth": "af_packet", "xdp": "af_xdp"}


def chain_of_testpmd(link: str) -> ChainSpec:
    """Four of them."""
    driver = TESTPMD_DRIVERS[link]
    slots = SOCKET_SLOTS if driver == "af_packet" else None
    return ChainSpec(4, link, driver, batch=None, slots=slots, program=TESTPMD)


def batch_title(size: int, most: int) -> str:
    """Of a step that compares batches up to `most`."""
    return f"{size} B, batch 1 to {most}"


def _folder() -> Path:
    return built.examples_directory()
