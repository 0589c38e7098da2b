"""Plans of small chain files, made for machines that are not there."""

from pathlib import Path

import pytest

from tests.python.strategies import Data
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.chain.problem import ChainFileError
from unis.plan.machine import Machine, OtherRun
from unis.plan.model import Places, Plan
from unis.plan.planner import make_plan

EIGHT_CPUS = Machine(frozenset(range(8)))


def places(name: str) -> Places:
    folder = Path("/run/unis") / name
    return Places(
        directory=folder, engine_socket=folder / "engine.sock",
        port_driver=folder / "driver.so", port_plugin=folder / "plugin.so",
        folders=Path("/run/unis/functions"), hugepages=Path("/dev/hugepages"),
    )  # fmt: skip


def planned(data: Data, machine: Machine = EIGHT_CPUS, others: tuple[OtherRun, ...] = ()) -> Plan:
    chain = LoadedChain(Path("/somewhere/chain.yaml"), ChainFile.model_validate(data))
    return make_plan(chain, machine, others, places)


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


def told(data: Data, machine: Machine = EIGHT_CPUS, *others: OtherRun) -> list[str]:
    with pytest.raises(ChainFileError) as caught:
        planned(data, machine, others)
    return [str(row.problem.location) + " " + row.problem.sentence for row in caught.value.problems]
