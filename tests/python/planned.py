"""Plans of small chain files, made for machines that are not there."""

from dataclasses import fields
from pathlib import Path

import pytest

from tests.python.strategies import Data
from unis.chain.graph import Graph
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.chain.problem import ChainFileError
from unis.links.memif import MemifPlan
from unis.plan.machine import Machine, OtherRun
from unis.plan.model import Places, Plan
from unis.plan.planner import make_plan
from unis.plan.programs import ProgramPlan
from unis.plan.wiring import Wiring, wire

FILE = Path("/somewhere/chain.yaml")
EIGHT_CPUS = Machine(frozenset(range(8)))


def places(name: str) -> Places:
    folder = Path("/run/unis") / name
    return Places(
        directory=folder, engine_socket=folder / "engine.sock",
        port_driver=folder / "driver.so", mmsg_driver=folder / "mmsg.so",
        port_plugin=folder / "plugin.so",
        folders=Path("/run/unis/functions"), hugepages=Path("/dev/hugepages"),
    )  # fmt: skip


def planned(
    data: Data,
    machine: Machine = EIGHT_CPUS,
    others: tuple[OtherRun, ...] = (),
    there: Plan | None = None,
    file: Path = FILE,
) -> Plan:
    chain = LoadedChain(file, ChainFile.model_validate(data))
    return make_plan(chain, machine, others, places, there)


def small(**parts: object) -> Data:
    """Three functions in a line."""
    return {
        "apiVersion": "unis/v1",
        "name": "x",
        "defaults": {"cpu": 1},
        "functions": {name: {"program": "sh"} for name in ("fw", "nat", "monitor")},
        "chains": {"c": {"path": ["fw", "nat", "monitor"]}},
        **parts,
    }


def told(
    data: Data, machine: Machine = EIGHT_CPUS, *others: OtherRun, file: Path = FILE
) -> list[str]:
    with pytest.raises(ChainFileError) as caught:
        planned(data, machine, others, file=file)
    return [str(row.problem.location) + " " + row.problem.sentence for row in caught.value.problems]


def program_of(plan: Plan, function: str) -> dict[str, object]:
    """What its program is started with."""
    planned = plan.function(function)
    return {field.name: getattr(planned, field.name) for field in fields(ProgramPlan)}


def wired(file: ChainFile) -> Wiring:
    """Its links and ports, before they have lengths and names."""
    return wire(file, Graph.of(file))


def path_of(file: ChainFile, chain: str) -> list[str]:
    """The functions of a chain, in order."""
    return list(Graph.of(file).chains[chain].functions)


def memifs_of(plan: Plan) -> dict[str, MemifPlan]:
    """What its memifs have beside their slots, by link."""
    details = {link.name: link.details for link in plan.links}
    return {name: part for name, part in details.items() if isinstance(part, MemifPlan)}
