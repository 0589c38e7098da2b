"""θmin and θmax of every link: as they are, a function could wait for ever for what never comes."""

import math
from collections.abc import Iterator

from unis import links
from unis.chain.model import ChainFile, SchedulerPart
from unis.chain.problem import Problem
from unis.chain.values import EGRESS, INGRESS
from unis.plan.wiring import Wiring


def threshold_problems(file: ChainFile, wiring: Wiring, gamma: float) -> list[Problem]:
    """Links that are too small for the thresholds, once each."""
    found: dict[str, Problem] = {}
    for name in file.chains:
        for (before, behind), passed in zip(
            file.boundaries(name), wiring.stretches[name], strict=True
        ):
            capacities = [_capacity(wiring, link) for link in passed]
            # The sink takes whatever there is.
            if behind == EGRESS:
                continue
            for sentence in _wrong(file.scheduler, gamma, before, behind, capacities):
                found.setdefault(sentence, Problem(("chains", name), sentence))
    return list(found.values())


def _wrong(
    part: SchedulerPart, gamma: float, before: str, behind: str, capacities: list[int]
) -> Iterator[str]:
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


def _capacity(wiring: Wiring, name: str) -> int:
    link = wiring.links[name]
    return links.KINDS[link.kind].capacity(link.slots)
