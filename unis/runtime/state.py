"""What a run has done to the machine, on disk before it is done, so it can always be undone.

Names and numbers only: whoever undoes a run derives the paths, and trusts none that it reads.
"""

import json
import re
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from unis.nics.binding import Binding
from unis.runtime.process import ProcessId

VERSION = 1  # of the file; a change that old readers would take for something else raises it
RUN_MARK = "UNIS_RUN"  # environment of every process of a run: its id
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")


def is_name(text: str) -> bool:
    """Whether a run or a DPDK group may be called so."""
    return _NAME.fullmatch(text) is not None


class Phase(StrEnum):
    """How far a run is."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"  # undone as far as it could be; the reason and the logs are kept


@dataclass(frozen=True)
class FunctionProcess:
    """A network function that was started."""

    name: str
    cpu: int
    process: ProcessId
    restarts: int = 0
    ended: str = ""  # how, if it did; empty while it runs
    namespace: str | None = None  # network namespace of its own


@dataclass(frozen=True)
class RunState:
    """All that is needed to undo a run, to show it, and to start it again."""

    run_id: str
    name: str
    chain_file: str
    groups: list[str]  # file prefixes of its DPDK groups, the engine's first
    cpus: list[int]  # of the functions
    platform_cpus: list[int]  # of unisd
    hugepages_mb: int  # that it was promised
    launcher: ProcessId
    policy: str | None = None  # as the command line said
    controller: str | None = None
    attached: bool = False  # its functions are somebody else's: given back, never ended
    joined: str | None = None  # DPDK group of others of which unisd is a secondary
    phase: Phase = Phase.STARTING
    reason: str = ""
    problems: list[str] = field(default_factory=list)  # what could not be undone
    failures: int = 0  # runs till it, the first by a death, whose launcher brings them up again
    nic_buffers: int = 0  # packets that its NICs can have under way
    switch_cpus: list[int] = field(default_factory=list)  # of Open vSwitch
    interfaces: list[str] = field(default_factory=list)  # of the host: its source and sink
    goals_ns: dict[str, float] = field(default_factory=dict)  # on p95 latency, by chain
    wires: dict[str, str] = field(default_factory=dict)  # MAC addresses to which others send
    variables: dict[str, str] = field(default_factory=dict)  # that the chain file used
    digest: str = ""  # of the text of the chain file that counts
    generation: int = 1  # how many texts have counted, with that one
    made: list[tuple[str, str]] = field(default_factory=list)  # for links: their kind, its name
    nics: list[str] = field(default_factory=list)  # addresses of PCI devices that it has
    bindings: list[Binding] = field(default_factory=list)  # as they were, of those it has changed
    leaf: str | None = None  # cgroup v2, below its mount
    guard: ProcessId | None = None
    unisd: ProcessId | None = None
    functions: list[FunctionProcess] = field(default_factory=list)
    ovs: FunctionProcess | None = None  # Open vSwitch's, of links of that kind

    def __post_init__(self) -> None:
        joined = [self.joined] if self.joined else []
        made = [part for link in self.made for part in link]
        for name in (self.run_id, self.name, *self.groups, *joined, *made):
            if not is_name(name):
                raise ValueError(f"invalid name `{name}`")

    def live(self) -> bool:
        """Whether somebody still looks after it."""
        return self.phase != Phase.FAILED and self.launcher.alive()

    def comes_again(self) -> bool:
        """Whether its launcher waits to bring it up again."""
        return self.undone() and self.failures > 0 and self.launcher.alive()

    def undone(self) -> bool:
        """Whether nothing of it is left but the reason and the logs."""
        return self.phase == Phase.FAILED and not self.problems

    def function(self, name: str) -> FunctionProcess | None:
        """The process of a function that was started."""
        return next((function for function in self.functions if function.name == name), None)

    def with_function(self, changed: FunctionProcess) -> list[FunctionProcess]:
        """The functions, with this one replaced by its name or appended."""
        if self.function(changed.name) is None:
            return [*self.functions, changed]
        return [
            changed if function.name == changed.name else function for function in self.functions
        ]

    def with_changes(self, **changes: Any) -> "RunState":
        """The same run, further on."""
        return replace(self, **changes)

    def text(self) -> str:
        """As `parse` reads it."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)

    @classmethod
    def parse(cls, text: str) -> "RunState":
        """The state that was written; ValueError if it is none."""
        try:
            data: dict[str, Any] = json.loads(text)
            version = data.pop("version", 1)  # older files have none
            if version != VERSION:
                raise ValueError(f"it has version {version}, and this `unis` reads {VERSION}")
            for key in ("launcher", "guard", "unisd"):
                data[key] = _process(data[key])
            data["functions"] = [_function(part) for part in data["functions"]]
            data["ovs"] = _function(data["ovs"]) if data.get("ovs") else None
            data["phase"] = Phase(data["phase"])
            data["bindings"] = [Binding(**part) for part in data.get("bindings", [])]
            data["made"] = [(str(kind), str(name)) for kind, name in data.get("made", [])]
            return cls(**data)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None


def _function(part: Any) -> FunctionProcess:
    return FunctionProcess(
        str(part["name"]),
        int(part["cpu"]),
        _known(part["process"]),
        int(part["restarts"]),
        str(part["ended"]),
        part.get("namespace"),
    )


def _process(data: Any) -> ProcessId | None:
    return None if data is None else _known(data)


def _known(data: Any) -> ProcessId:
    return ProcessId(pid=int(data["pid"]), start_time=int(data["start_time"]))
