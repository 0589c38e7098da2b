"""A bound on machines that holds for any number of instances: what promises take, by what there is.

    least    Σ machines of each kind of server
    so that  all promises together take no more cores, ways, classes of service and flows
             than these machines have.

It leaves out that an instance is on one socket. `column_generation` knows that, but only for
promises that are split into a limited number of instances.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unis.slo.program import Program
from unis.slo.sockets import Demand, SocketProblem

_NOISE = 1.0  # thousand units/s of a socket: what whole numbers may have rounded away
_FLOATING = 1e-4  # machines: by so much the program may be off, and by _EACH for each promise
_EACH = 1e-6


def machines_for_volume(problem: SocketProblem, seconds: float) -> float:
    """No placement uses fewer machines, which may be in parts; 0 if none is found in time.

    Raises InfeasibleError where all servers together have too little.
    """
    program = Program()
    width = 3 + len(problem.rooms[0].size.flows)
    have = [program.row() for _ in range(width)]  # what is left of cores, ways, classes, flows
    # Flows are in parts of the largest socket's, so that numbers are of one order.
    units = [
        max(each) + _NOISE
        for each in zip(*(room.size.flows for room in problem.rooms), strict=True)
    ]
    for server, room in zip(problem.servers, problem.rooms, strict=True):
        flows = [(most + _NOISE) / unit for most, unit in zip(room.size.flows, units, strict=True)]
        socket = [room.size.cores, room.size.ways, room.places, *flows]
        rows = dict(zip(have, (server.sockets * most for most in socket), strict=True))
        program.column(1.0, rows, server.count)
    for of in problem.demands:
        draws = tuple(tuple(np.divide(each, units).tolist()) for each in of.task.draws)
        demand = replace(of, task=replace(of.task, draws=draws))
        promises = program.row(len(demand.slos), len(demand.slos))
        for takes in _listed(demand):
            rows = {row: -take for row, take in zip(have, takes, strict=True)}
            program.column(0.0, {promises: 1.0, **rows})
        _add_unlisted(program, promises, have, demand)
    found = program.solve(seconds, relaxed=True)
    off = _FLOATING + _EACH * sum(len(of.slos) for of in problem.demands)
    return max(0.0, found.objective - off) if found else 0.0


def _listed(demand: Demand) -> list[tuple[float, ...]]:
    """Cores, ways, classes and flows of splits: the least flows of those with as many ways."""
    task = demand.task
    counts, ways = (demand.ways > 0).sum(axis=1), demand.ways.sum(axis=1)
    draws = np.array([(0.0,) * len(task.draws[0]), *task.draws])
    flows = draws[demand.ways].sum(axis=1) * (task.mpps / task.passed(demand.ways))[:, None]
    least: dict[tuple[int, int], list[float]] = {}
    for count, way, taken in zip(counts.tolist(), ways.tolist(), flows.tolist(), strict=True):
        if count <= demand.listed:
            before = least.get((count, way), taken)
            least[count, way] = [*map(min, before, taken)]
    return [(count * task.cores, way, count, *taken) for (count, way), taken in least.items()]


def _add_unlisted(program: Program, promises: int, have: Sequence[int], demand: Demand) -> None:
    """Promises that are split into more instances than are listed, which may be in parts."""
    task = demand.task
    cores, ways, classes, *flows = have
    enough, passed = program.row(), program.row(0.0, 0.0)
    program.column(0.0, {promises: 1.0, enough: -(demand.listed + 1.0), passed: -task.mpps})
    for way, (rate, draws) in enumerate(zip(task.rates, task.draws, strict=True), 1):
        load = program.row()  # what instances are able to pass, less what they do
        takes = {cores: -task.cores, ways: -way, classes: -1}
        program.column(0.0, {enough: 1.0, load: rate, **takes})
        of_a_packet = {row: -draw / rate for row, draw in zip(flows, draws, strict=True)}
        program.column(0.0, {passed: 1.0, load: -1.0, **of_a_packet})
