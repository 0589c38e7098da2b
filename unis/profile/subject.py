"""What is profiled: a function with its arguments, or the chain of a file, under one traffic.

The paper makes no difference between the two (section 5.1). Either is brought up as it would be,
but that packets come as fast as they are taken, for the profiler sets their rate.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from unis import built
from unis.chain import defaults
from unis.chain.load import LoadedChain, load
from unis.chain.model import API_VERSION, ChainFile
from unis.chain.problem import Problem
from unis.runtime.errors import LaunchError
from unis.runtime.planning import free_cpu

_RUN, _CHAIN = "profile", "chain"
# Of a profile: it is a key of YAML, and part of the name of a file.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_NO_NAMES = {"true", "false", "null"}  # YAML has others in mind


@dataclass(frozen=True)
class Subject:
    """What is profiled, and what it is called."""

    name: str
    chain: LoadedChain
    told: str  # function and arguments, or the chain and its file

    def on_rings(self, slots: int) -> "Subject":
        """The same on rings of that length: what was measured on others is not mixed with it."""
        file = self.chain.file
        chains = {
            name: chain.model_copy(update={"ring": slots}) for name, chain in file.chains.items()
        }
        changed = file.model_copy(update={"chains": chains})
        return replace(self, chain=replace(self.chain, file=changed))


def reference_arguments() -> dict[str, list[str]]:
    """Arguments for UNiS' own functions when they are profiled without stated arguments."""
    examples = built.examples_directory()
    return {
        "dpi": ["--rules", str(examples / "dpi.rules")],
        "firewall": ["--rules", str(examples / "firewall.rules")],
        "ipsec": ["--policy", str(examples / "ipsec.policy")],
        "macswap": ["--cost", "medium"],
        "monitor": ["--top", "0"],
        "nat": ["--public", "192.0.2.1"],
        "router": ["--routes", str(examples / "routes.txt")],
    }


# Else the latency at low rates would be that of sleep between packets.
_POLLS: dict[str, Any] = {"max_delay_us": 0.0}


def synthetic(size: str | None, flows: int | None) -> dict[str, Any]:
    """Traffic as a chain file has it; LaunchError if there is none such."""
    source: dict[str, Any] = {"kind": "synthetic", "flows": flows or defaults.DEFAULT_FLOWS}
    if size is not None:
        source["size"] = int(size) if size.isdecimal() else size
    return source


def capture(file: Path) -> dict[str, Any]:
    """The same of a capture."""
    return {"kind": "pcap", "file": str(file.resolve())}


def of_function(
    program: str, arguments: Sequence[str] | None, source: Mapping[str, Any], name: str | None
) -> Subject:
    """A function on a CPU of its own. LaunchError if it cannot be brought up so."""
    words = [*(arguments or reference_arguments().get(program, []))]
    known = str(Path(program).resolve()) if "/" in program else program
    called = _name(name) or re.sub(r"[^a-z0-9]+", "-", Path(program).name.lower()).strip("-")
    data = {
        "apiVersion": API_VERSION,
        "name": _RUN,
        "traffic": {"source": dict(source)},
        "scheduler": _POLLS,
        "functions": {"function": {"program": known, "args": words, "cpu": free_cpu()}},
        "chains": {_CHAIN: {"path": ["function"]}},
    }
    try:
        file = ChainFile.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = f"the {first['loc'][-1]}: " if first["loc"] else ""
        raise LaunchError(f"{where}{first['msg']}") from None
    told = " ".join([Path(program).name, *words])
    return Subject(called, LoadedChain(Path.cwd() / called, file), told)


def _name(given: str | None) -> str | None:
    if given is None or (_NAME.fullmatch(given) and given not in _NO_NAMES):
        return given
    raise LaunchError(
        f"`{given}` cannot name a profile: write letters, digits, - . and _, a letter first"
    )


def of_file(path: Path, name: str | None = None) -> Subject:
    """The chain of a file. ChainFileError where it has none that can be profiled."""
    loaded = load(path)
    file = loaded.file
    found: list[Problem] = []
    if len(file.chains) > 1:
        told = f"has {len(file.chains)}; a profile is of one: write a file for each"
        found.append(Problem(("chains",), told))
    if len(file.cpus) > 1:
        told = "are on several CPUs; an instance of a promise has one: give them the same cpu"
        found.append(Problem(("functions",), told))
    if file.traffic.from_port:
        told = "is a port or wire, whose rate nobody can set: name a capture, or synthetic packets"
        found.append(Problem(("traffic", "source"), told))
    if file.traffic.sink.kind != "measure":
        told = "is a port or wire, at which no latency is measured: leave it out"
        found.append(Problem(("traffic", "sink"), told))
    if found:
        raise loaded.error(found)
    traffic = file.traffic.model_copy(update={"rate": "max", "arrivals": defaults.ARRIVALS})
    scheduler = file.scheduler.model_copy(update=_POLLS)
    changed = file.model_copy(update={"traffic": traffic, "scheduler": scheduler})
    called = _name(name) or file.name
    (chain,) = loaded.graph.chains.values()
    graph = f"a graph of {', '.join(chain.functions)}"
    way = " → ".join(chain.functions) if chain.is_path else graph
    told = f"chain {called} of {path.name}: {way}"
    return Subject(called, replace(loaded, file=changed), told)
