"""θmin and θmax of every link: as they are, a function could wait for ever for what never comes."""

import math
from collections.abc import Iterator, Mapping

from unis import links
from unis.chain.graph import Edge
from unis.chain.model import SchedulerPart
from unis.chain.problem import Problem
from unis.chain.values import EGRESS, INGRESS
from unis.plan.wiring import Wiring


def threshold_problems(
    part: SchedulerPart, wiring: Wiring, rings: Mapping[str, int], gamma: float
) -> list[Problem]:
    """Links that are too small for the thresholds, once each; `rings`: slots, by chain."""
    found: dict[str, Problem] = {}
    for chain, edge in wiring.graph.edges():
        if edge.to == EGRESS:  # the sink takes whatever there is
            continue
        passed = wiring.passed[chain.name][edge]
        capacities = [links.KINDS[place.kind].capacity(place.slots(rings)) for place in passed]
        for sentence in _wrong(part, gamma, edge, capacities):
            found.setdefault(sentence, Problem(("chains", chain.name), sentence))
    return list(found.values())


def _wrong(part: SchedulerPart, gamma: float, edge: Edge, capacities: list[int]) -> Iterator[str]:
    before, behind = edge.ends
    low, high = part.theta_min, part.theta_max
    link = f"the link from `{before}` to `{behind}`"
    advice = "give it more slots, or lower theta_min"
    full = math.ceil(gamma * capacities[0]) if high is None else high
    if low >= capacities[-1]:
        yield (
            f"{link} holds {capacities[-1]} packets, and θmin is {low}: `{behind}` would never "
            f"have work; {advice}"
        )
    # What a source fills knows no θmax, and what the engine carries across does not stay.
    elif before != INGRESS and len(capacities) == 1 and full <= low:
        yield (
            f"{link} is filled up to θmax, {full} packets of {capacities[0]}, and θmin is {low}: "
            f"`{behind}` would hardly ever have work; {advice}"
        )
