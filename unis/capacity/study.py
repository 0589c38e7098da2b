"""All that `unis model` tells of a case."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from unis.capacity.case import Answered, CapacityCase
from unis.capacity.chain import HARDWARE
from unis.capacity.curves import crossings, curves, sweeps
from unis.capacity.idle import busy_at
from unis.capacity.parameter import Parameter
from unis.capacity.questions import WhatIf, questions
from unis.capacity.resources import CapacityError, Objective
from unis.capacity.result import (
    MILLION,
    CapacityResult,
    ChangeAnswer,
    UsedParameter,
    arrangement,
)

SOFTWARE, SRIOV = "links of the file", "SR-IOV"


def study(
    case: CapacityCase,
    name: str,
    remarks: Sequence[str] = (),
    asked: Sequence[WhatIf] = (),
    load: float = 0.5,
    links: str = SOFTWARE,
) -> CapacityResult:
    """CapacityError if the chains have no answer on the machine.

    `asked`: what the user asks, beside the usual questions. `load`: a share of the maximum at which
    it is told how busy resources are. `links`: what to call the chains' links.
    """
    cases = arrangements(case, links)
    answers = {each: of.answered() for each, of in cases.items()}
    now = next(iter(answers.values()))
    every = list(sweeps(case))
    found = [(sweep, curves(cases, sweep)) for sweep in every]
    asking = [*asked, *questions(case)]
    return CapacityResult(
        chain=name,
        machine=case.machine.name,
        description=case.machine.description,
        objective=case.objective,
        sizes=dict(case.chains[0].sizes),
        setting=asdict(case.setting),
        remarks=[*remarks, *_remarks(case)],
        arrangements=[arrangement(each, cases[each], answers[each]) for each in cases],
        load=load,
        at_load=busy_at(case, now, load),
        answers=[_answer(each, now, case.objective) for each in asking],
        readings=list(_readings(cases, answers)),
        curves=[curve for _, of in found for curve in of],
        crossings=[each for sweep, of in found for each in crossings(cases, of, sweep)],
        parameters=_parameters(case, answers),
    )


def arrangements(case: CapacityCase, links: str = SOFTWARE) -> dict[str, CapacityCase]:
    """The case, and beside it the same over the NIC's switch, if that can be."""
    name = SRIOV if case.is_hardware else links
    found = {name: case}
    if not case.is_hardware and case.nic is not None:
        other = case.linked_by(HARDWARE)
        try:
            other.answered()
        except CapacityError:
            return found
        found[SRIOV] = other
    return found


def _answer(question: WhatIf, now: Answered, objective: Objective) -> ChangeAnswer:
    """Gains are of the total, or with max–min of the smallest throughput."""
    found = question.case.answered().found
    before, after = now.found.objective(objective), found.objective(objective)
    return ChangeAnswer(
        question=question.text,
        total_mpps=found.total / MILLION,
        smallest_mpps=min(found.throughput.values()) / MILLION,
        same_chains=question.same_chains,
        gain=after / before - 1 if before else 0.0,
        bottlenecks=list(found.bottlenecks),
    )


def _readings(
    cases: Mapping[str, CapacityCase], answers: Mapping[str, Answered]
) -> Iterator[ChangeAnswer]:
    """Where the paper can be read in two ways: the other way, with its result."""
    for name, case in cases.items():
        if case.nic is None:
            continue
        for question in _other_readings(name, case):
            yield _answer(question, answers[name], case.objective)


def _other_readings(name: str, case: CapacityCase) -> Iterator[WhatIf]:
    setting = case.setting
    for mode in ("paper", "padded", "tlp"):
        if mode != setting.pcie:
            yield WhatIf(f"{name}: PCIe reckoned as `{mode}`", case.with_setting(pcie=mode))
    if case.nic is None:
        return
    told = f"{name}: the PCIe bandwidth is that of both ways together"
    yield WhatIf(told, case.with_setting(pcie_shared=True))
    if case.is_hardware and case.nic[1].operations is not None:
        other = "n" if setting.switchings == "n+1" else "n+1"
        told = f"{name}: {other} switchings of n functions"
        yield WhatIf(told, case.with_setting(switchings=other))
    if not case.is_hardware:
        other_ends = "functions" if setting.ends == "platform" else "platform"
        who = "the functions" if other_ends == "functions" else "UNiS's own CPU"
        told = f"{name}: {who} receive from the NIC and send to it" if (
            other_ends == "functions"
        ) else f"{name}: {who} receives from the NIC and sends to it"  # fmt: skip
        yield WhatIf(told, case.with_setting(ends=other_ends))
    no_gap = case.nic[1].gap.with_value(0.0, "lr/s, as the paper's formula has it")
    yield WhatIf(
        f"{name}: a frame takes s bytes of the line, not s + 20", case.with_nic(gap=no_gap)
    )


def _remarks(case: CapacityCase) -> Iterator[str]:
    missing = sorted(
        {kind for chain in case.chains for link in chain.links for kind in link.kinds}
        - {*case.machine.links, HARDWARE}
    )
    if missing:
        yield (
            f"the machine file states no costs of links of kind {', '.join(missing)}: they are "
            "taken as free"
        )
    if case.nic is None:
        yield "packets come from UNiS's source and go to its sink: the machine file has no NIC"
    else:
        yield f"packets come in by NIC {case.nic[0]} and leave by it, whatever traffic the file has"
    if case.nic is not None and case.nic[1].operations is None:
        yield (
            f"how many packets the NIC {case.nic[0]} can switch a second is not known, so it is no "
            "limit here"
        )
    if guessed := [use.name for use in case.functions.values() if use.cost.is_guess]:
        yield (
            f"the cost of {', '.join(guessed)} is assumed: state cost_ns in the chain file or "
            "`functions` in the machine file, or measure it with `unis estimate`"
        )
    if case.setting.ends == "platform" and case.machine.platform is None and case.nic is None:
        yield "the machine file has no `platform`: UNiS's source, sink and scheduler are free"


def _parameters(case: CapacityCase, answers: Mapping[str, Answered]) -> list[UsedParameter]:
    """All numbers that an arrangement rests on, each once."""
    found: dict[str, Parameter] = {}
    for answered in answers.values():
        found.update(answered.load.used)
    if case.machine.wake is not None and case.setting.woken_by:
        found["wake"] = case.machine.wake
    return [
        UsedParameter(
            where=where, value=each.value, unit=each.unit, source=each.source, note=each.note
        )
        for where, each in found.items()
    ]
