"""Chains with third-party programs in them, and the chains that they are compared with.

`tools/third-party` fetches the programs. The reference is a chain of our macswap, which yields by
itself, with the same links and at as much work a packet as these programs do.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from unis import built
from unis.chain.load import LoadedChain
from unis.chain.model import API_VERSION, ChainFile
from unis.runtime.errors import LaunchError

_SLOTS = 2048  # of each memif, each way: as many as a ring of the paper has
_TESTPMD_NS = 60.0  # a packet: both memifs and the MAC addresses, as for our macswap
_TESTPMD_ARGUMENTS = (
    "--forward-mode=macswap",
    "--auto-start",
    "--burst=64",
    f"--rxd={_SLOTS}",
    f"--txd={_SLOTS}",
    "--total-num-mbufs=16384",
    "--no-flush-rx",
    "--no-lsc-interrupt",
)
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


_TESTPMD = ThirdPartyProgram("dpdk-testpmd", "testpmd", _TESTPMD_ARGUMENTS, 2, _TESTPMD_NS)
# Main serves the console; the others receive and distribute, work, and send. They talk over rings.
_DISTRIBUTOR = ThirdPartyProgram("distributor", "examples", ("-p", "3", "-c"), 4, 150.0, 3)
# By its built-in routes. What it cannot send it drops.
_L3FWD = ThirdPartyProgram(
    "l3fwd",
    "examples",
    ("{eal}", "--", "-p", "3", "-P", "--parse-ptype", "--config=(0,0,{lcore0}),(1,0,{lcore0})"),
    1,
    _TESTPMD_NS,
    offloads=("rx-checksum",),
)

_ETC = "{root}/etc/suricata"
_SURICATA = ThirdPartyProgram(
    "suricata",
    "suricata",
    (
        *("-c", "suricata.yaml", "--dpdk"),
        *("--set", f"classification-file={_ETC}/classification.config"),
        *("--set", f"reference-config-file={_ETC}/reference.config"),
        *("--set", f"threshold-file={_ETC}/threshold.config"),
        *("--set", "dpdk.eal-params.lcores={lcores}"),
        *("--set", "dpdk.eal-params.file-prefix={file_prefix}"),
        *("--set", "dpdk.eal-params.d={plugin}"),
        *("--set", "dpdk.eal-params.vdev.0={vdev0}"),
        *("--set", "dpdk.eal-params.vdev.1={vdev1}"),
    ),
    lcores=2,
    cost_ns=2000.0,  # on its capture, alone on a core: 0.51 Mpps
    pollers=2,  # one for each direction
    files=("suricata.yaml", "suricata.rules"),
)
_TELLING_SURICATA = replace(
    _SURICATA, arguments=(*_SURICATA.arguments, "--set", "outputs.1.eve-log.enabled=yes")
)

# It sends by a queue for each thread that polls and one for all else; so do its neighbours.
_OPENVSWITCH = ThirdPartyProgram(
    "ovs-vswitchd-dpdk",
    "openvswitch",
    (
        *("{bin}", "{root}/usr/share/openvswitch/vswitch.ovsschema"),
        *("{cpu}", "{file_prefix}", "{plugin}", "{vdev0}", "{vdev1}"),
    ),
    lcores=1,
    cost_ns=150.0,
    queues=2,
    script="openvswitch.sh",
    capabilities=("net_admin", "sys_admin"),  # its devices are in a network namespace of its own
)
_TESTPMD_OF_TWO_QUEUES = replace(
    _TESTPMD, arguments=(*_TESTPMD_ARGUMENTS, "--rxq=2", "--txq=2"), queues=2
)

# By name: the functions of each chain, in order. The names are those of `--only`.
CHAINS: dict[str, tuple[ThirdPartyProgram, ...]] = {
    "testpmd": (_TESTPMD, _TESTPMD, _TESTPMD),
    "l3fwd": (_TESTPMD, _L3FWD, _TESTPMD),
    "distributor": (_TESTPMD, _DISTRIBUTOR, _TESTPMD),
    "suricata": (_TESTPMD, _SURICATA, _TESTPMD),
    "openvswitch": (_TESTPMD_OF_TWO_QUEUES, _OPENVSWITCH, _TESTPMD_OF_TWO_QUEUES),
}
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
    members = (_TELLING_SURICATA,) if alone else (_TESTPMD, _TELLING_SURICATA, _TESTPMD)
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
