"""Reads machine files and profiles, or says everything that is wrong with them."""

from pathlib import Path

from pydantic import ValidationError

from unis.capacity.chain import FunctionCost
from unis.capacity.machine import API_VERSION, MachineFile
from unis.chain.document import read_document
from unis.chain.explain import explained
from unis.chain.problem import ChainFileError, Problem
from unis.slo.model import ProfilePart

_NS_AT_A_MPPS = 1e3


def load_machine(path: Path) -> MachineFile:
    """Raises ChainFileError, which has a line `file:line: key: sentence` for each problem."""
    document = read_document(path)
    if not isinstance(document.data, dict):
        begin = f"is not a machine file; begin it with apiVersion: {API_VERSION}"
        raise ChainFileError([document.located(Problem((), begin))])
    found: list[Problem] = []
    machine = None
    try:
        machine = MachineFile.model_validate(document.data)
        found = [Problem(where, told) for where, told in machine.problems()]
    except ValidationError as error:
        found = list(explained(error, document, MachineFile))
    if machine is None or found or document.problems:
        located = [*document.problems, *map(document.located, found)]
        raise ChainFileError(sorted(located, key=lambda problem: problem.line))
    return machine


def profiled_costs(path: Path) -> dict[str, FunctionCost]:
    """What functions cost that pass so much alone, by their names in `functions` of a workload file
    or of what `unis profile nf` prints. ChainFileError.
    """
    document = read_document(path)
    named = document.data.get("functions") if isinstance(document.data, dict) else None
    if not isinstance(named, dict):
        told = "has no `functions`; name what `unis profile nf` prints, or a workload file"
        raise ChainFileError([document.located(Problem((), told))])
    costs: dict[str, FunctionCost] = {}
    for name, stated in named.items():
        try:
            profile = ProfilePart.model_validate(stated)
        except ValidationError:
            told = "is no profile; take it as `unis profile nf` prints it"
            raise ChainFileError([document.located(Problem(("functions", name), told))]) from None
        if profile.solo_mpps is not None:
            told = f"passes {profile.solo_mpps:g} Mpps alone ({path.name})"
            ns = _NS_AT_A_MPPS / profile.solo_mpps
            costs[str(name)] = FunctionCost(ns, "ns", "measured", told)
    return costs
