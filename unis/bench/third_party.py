"""Chains with third-party programs in them, and the chains that they are compared with.

`tools/third-party` fetches the programs. The reference is a chain of our macswap, which yields by
itself, with the same links and at as much work a packet as these programs do.
"""

import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from unis import built
from unis.chain.load import LoadedChain
from unis.chain.model import API_VERSION, ChainFile
from unis.runtime.errors import LaunchError

_SLOTS = 2048  # of each memif, each way: as many as a ring of the paper has
_TESTPMD_NS = 60.0  # a packet, as for our macswap
_DATA = Path(__file__).parent / "data"
# Of tests/data, which say more of them; rules of Suricata's fire on each.
CAPTURES = ("teams", "instagram", "quic")
EVENTS = "eve.json"  # what Suricata writes where it runs, if it is asked to
_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class ThirdPartyProgram:
    """A program as one starts it by hand, and what the scheduler is told of it."""

    program: str
    part: str  # of tools/third-party
    arguments: tuple[str, ...]
    lcores: int
    cost_ns: float  # a packet, all its threads together
    pollers: int = 1  # threads
    rings: bool = False  # some of them poll only rings inside the program
    files: tuple[str, ...] = ()  # of data/, that lie where it runs
    queues: int = 1  # of each memif
    script: str = ""  # of data/, that starts it; absent: it is started itself
    capabilities: tuple[str, ...] = ()
    offloads: tuple[str, ...] = ()

    def function(self) -> dict[str, Any]:
        """As it stands in a chain file."""
        program = _found(self)
        places = {"{root}": str(_fetched() / "root"), "{bin}": str(program.parent)}
        return {
            "command": [
                *(("sh", str(_DATA / self.script)) if self.script else (str(program),)),
                *(_filled(word, places) for word in self.arguments),
            ],
            "lcores": self.lcores,
            "queues": self.queues,
            "capabilities": list(self.capabilities),
            "offloads": list(self.offloads),
            # Each thread that polls has a slice of its own, and does its part of the work.
            "cost_ns": self.cost_ns / self.pollers,
        }


def _chains() -> dict[str, tuple[ThirdPartyProgram, ...]]:
    data = tomllib.loads((_DATA / "programs.toml").read_text())
    programs = TypeAdapter(dict[str, ThirdPartyProgram]).validate_python(data["programs"])
    return {
        name: tuple(programs[each] for each in members) for name, members in data["chains"].items()
    }


# By name: the functions of each chain, in order. The names are those of `--only`.
CHAINS = _chains()
_TESTPMD = CHAINS["testpmd"][0]
_TELLING = ("--set", "outputs.1.eve-log.enabled=yes")  # Suricata
# Others than these have synthetic traffic, and it goes anywhere.
_REPLAYED = {"suricata": CAPTURES[0]}
_ROUTED = {"l3fwd": "198.18.1.0/24"}


def _filled(word: str, places: Mapping[str, str]) -> str:
    for place, text in places.items():
        word = word.replace(place, text)
    return word


def _fetched() -> Path:
    return built.build_directory() / "third-party"


def testpmd() -> dict[str, Any] | None:
    """As it stands in a chain file; None where it was not fetched."""
    return _TESTPMD.function() if (_fetched() / "bin" / _TESTPMD.program).exists() else None


def _found(program: ThirdPartyProgram) -> Path:
    path = _fetched() / "bin" / program.program
    if not path.exists():
        raise LaunchError(f"{path} is missing: run `tools/third-party {program.part}`")
    return path


def check(name: str) -> None:
    """Raises LaunchError, which says how to get it, where a program of the chain is missing."""
    for program in CHAINS[name]:
        _found(program)


def most_pollers(name: str) -> int:
    """Threads of the function that has most: they wait for one another, so less passes."""
    return max(program.pollers for program in CHAINS[name])


def has_ring_threads(name: str) -> bool:
    """Whether a program of the chain has threads that poll only rings inside it."""
    return any(program.rings for program in CHAINS[name])


def third_party_chain(name: str, cpu: int, directory: Path, *, alone: bool = False) -> LoadedChain:
    """The chain called `name`; its programs run in `directory`. `alone`: no testpmd beside them."""
    members = [one for one in CHAINS[name] if not (alone and one.part == "testpmd")]
    functions = _functions(members, directory)
    return _chain(members, functions, f"bench-{name}", cpu, directory, **_traffic(name))


def let_openvswitch_sleep(directory: Path, us: float) -> None:
    """That of a chain in `directory`: by itself, for `us` µs at most; 0: it polls."""
    (database,) = directory.glob("ovs-*/db.sock")
    words = ["--timeout=10", f"--db=unix:{database}", "set", "Open_vSwitch", "."]  # waits for it
    setting = f"other_config:pmd-maxsleep={us:.0f}"
    subprocess.run([str(_fetched() / "bin" / "ovs-vsctl"), *words, setting], check=True)


def suricata_chain(capture: str, cpu: int, directory: Path, *, alone: bool) -> LoadedChain:
    """Suricata, which writes its EVENTS into `directory`, and a capture that comes once: with the
    neighbours that it has in its chain, or without.
    """
    before, suricata, behind = CHAINS["suricata"]
    telling = replace(suricata, arguments=(*suricata.arguments, *_TELLING))
    members = (telling,) if alone else (before, telling, behind)
    # Of a capture as a port's packets no more come when it ends; kind pcap would begin anew.
    once = {"kind": "port", "device": f"net_pcap0,rx_pcap={_capture(capture)}"}
    functions = _functions(members, directory)
    return _chain(members, functions, "bench-alerts", cpu, directory, traffic={"source": once})


def reference_chain(name: str, cpu: int, directory: Path, yield_every: int) -> LoadedChain:
    """Functions of ours in the places of the programs, which yield every `yield_every` bursts."""
    functions = [
        {
            "program": "macswap",
            "args": ["--cost", str(imitated_cycles(program.cost_ns, cpu_mhz()))],
            "cost_ns": program.cost_ns,
            "yield_every": yield_every,
        }
        for program in CHAINS[name]
    ]
    return _chain(CHAINS[name], functions, "bench-reference", cpu, directory, **_traffic(name))


def imitated_cycles(cost_ns: float, mhz: float) -> int:
    """The work that macswap adds to what it does anyhow."""
    return round(max(0.0, cost_ns - _TESTPMD_NS) * mhz / 1000)


def cpu_mhz() -> float:
    """The clock rate of the first CPU, as the kernel tells it; 0 where it does not."""
    found = re.search(r"^cpu MHz\s*: ([\d.]+)", _CPUINFO.read_text(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def _capture(name: str) -> Path:
    path = built.clone() / "tests" / "data" / f"{name}.pcap"
    if not path.exists():
        raise LaunchError(f"{path} is missing: run this from a clone of the project")
    return path


def _traffic(chain: str) -> dict[str, Any]:
    found: dict[str, Any] = {"to": _ROUTED.get(chain)}
    if capture := _REPLAYED.get(chain):
        found["traffic"] = {"source": {"kind": "pcap", "file": str(_capture(capture))}}
    return found


def _functions(members: Sequence[ThirdPartyProgram], directory: Path) -> list[dict[str, Any]]:
    for file in {file for program in members for file in program.files}:
        shutil.copy(_DATA / file, directory)
    return [program.function() for program in members]


def _chain(
    members: Sequence[ThirdPartyProgram],
    functions: Sequence[Mapping[str, Any]],
    run: str,
    cpu: int,
    directory: Path,
    *,
    traffic: Mapping[str, Any] = MappingProxyType({}),
    to: str | None = None,
) -> LoadedChain:
    path = [f"f{at}" for at in range(1, len(functions) + 1)]
    # Of two functions the one that comes first in the file is the server of their memif. A client
    # whose server has not started its port is turned away for good, so slow starters come last.
    started = sorted(range(len(path)), key=lambda at: members[at].program != _TESTPMD.program)
    data = {
        "apiVersion": API_VERSION,
        "name": run,
        "traffic": dict(traffic),
        "defaults": {"cpu": cpu},
        "functions": {path[at]: functions[at] for at in started},
        "chains": {"chain": {"path": path, **({"match": [{"dst": to}]} if to else {})}},
        "links": [
            {"from": origin, "to": to, "kind": "memif", "slots": _SLOTS}
            for origin, to in zip(["ingress", *path], [*path, "egress"], strict=True)
        ],
    }
    return LoadedChain(directory / f"{run}.yaml", ChainFile.model_validate(data))
