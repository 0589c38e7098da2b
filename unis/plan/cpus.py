"""Which CPUs traffic and scheduler have, and whether functions may have theirs."""

from collections.abc import Collection, Sequence

from unis.chain.model import ChainFile
from unis.chain.problem import Location, Problem
from unis.isolate.cpu_lists import format_cpu_list
from unis.plan.machine import Machine, OtherRun

_PLATFORM_PARTS = 3  # of the engine, that poll: source, sink, scheduler


def clashing(
    cpus: Collection[int], platform_cpus: Collection[int], other: OtherRun
) -> frozenset[int]:
    """Of the CPUs of functions and platform those that the other run keeps to itself. Two engines
    can share a CPU, at half the speed; with a function on it nothing else can.
    """
    theirs = other.cpus | other.platform_cpus
    return frozenset(cpus) & theirs | frozenset(platform_cpus) & other.cpus


def function_problems(
    file: ChainFile, machine: Machine, others: Sequence[OtherRun], platform_cpus: Sequence[int]
) -> list[Problem]:
    """CPUs of functions that are not here, or not free; each said once, with those that are."""
    # Where the file does not state them it has more than one only while they are to spare.
    reserved = frozenset(platform_cpus if file.platform_cpus else platform_cpus[:1])
    found: dict[str, Problem] = {}
    for name in file.functions:
        cpu = file.function(name).cpu
        if cpu is not None and (sentence := _function_sentence(cpu, machine, others, reserved)):
            stated = file.functions[name].cpu is not None
            where: Location = ("functions", name, "cpu") if stated else ("defaults", "cpu")
            found.setdefault(sentence, Problem(where, sentence))
    return list(found.values())


def _function_sentence(
    cpu: int, machine: Machine, others: Sequence[OtherRun], reserved: frozenset[int]
) -> str | None:
    if len(machine.cpus) == 1:
        return (
            "this machine has one CPU, and functions need another than the scheduler; "
            "try the chain with `unis simulate`"
        )
    taken = {used for other in others for used in other.cpus | other.platform_cpus}
    free = machine.cpus - reserved - taken
    advice = f"choose from {format_cpu_list(free)}" if free else "none is free"
    if cpu not in machine.cpus:
        return (
            f"CPU {cpu} does not exist here ({format_cpu_list(machine.cpus)}); {advice}, or try "
            "the chain with `unis simulate`"
        )
    for other in others:
        if clashing([cpu], [], other):
            return (
                f"CPU {cpu} is in use by run `{other.name}`: run `unis down {other.name}` first; "
                f"{advice}"
            )
    return None


def platform(
    file: ChainFile, machine: Machine, others: Sequence[OtherRun], there: Sequence[int] = ()
) -> tuple[list[int], list[str], list[Problem]]:
    """The CPUs of source, sink and scheduler; what the user should know; what is wrong.

    Where the file states none they stay those that are `there`, but a function may want one.
    """
    if file.platform_cpus:
        return _stated(file, machine, others)
    if there and file.cpus.isdisjoint(there):
        return list(there), [], []
    functions = {used for other in others for used in other.cpus} | file.cpus
    platforms = {used for other in others for used in other.platform_cpus}
    free = sorted(machine.cpus - functions - platforms)
    if free:
        # One for each where there are as many and one to spare, else they share the first.
        return free[: _PLATFORM_PARTS if len(free) > _PLATFORM_PARTS else 1], [], []
    shared = sorted((machine.cpus & platforms) - functions)
    if shared:
        return shared[:1], [_sharing(shared[0], others)], []
    sentence = (
        f"no CPU of {format_cpu_list(machine.cpus)} is left for traffic and the scheduler; give "
        "the functions fewer, or end another run"
    )
    return [], [], [Problem(("functions",), sentence)]


def _stated(
    file: ChainFile, machine: Machine, others: Sequence[OtherRun]
) -> tuple[list[int], list[str], list[Problem]]:
    cpus = file.platform_cpus
    notes: list[str] = []
    problems: list[Problem] = []
    for at, cpu in enumerate(cpus):
        where: Location = ("platform", "cpus", at)
        if cpu not in machine.cpus:
            here = format_cpu_list(machine.cpus)
            problems.append(
                Problem(where, f"CPU {cpu} does not exist here ({here}); choose another")
            )
        for other in others:
            if clashing([], [cpu], other):
                sentence = f"CPU {cpu} is that of functions of run `{other.name}`; choose another"
                problems.append(Problem(where, sentence))
        if any(cpu in other.platform_cpus for other in others):
            notes.append(_sharing(cpu, others))
    return cpus, notes, problems


def _sharing(cpu: int, others: Sequence[OtherRun]) -> str:
    names = [f"`{other.name}`" for other in others if cpu in other.platform_cpus]
    return (
        f"traffic and scheduler share CPU {cpu} with run {', '.join(names)}: both are slower than "
        "alone"
    )
