"""Which CPUs traffic and scheduler have, and whether functions may have theirs."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from unis.chain.model import ChainFile
from unis.chain.problem import Location, Problem
from unis.plan.machine import Machine, OtherRun

_PLATFORM_PARTS = 3  # of the engine, that poll: source, sink, scheduler


def parse_cpu_list(text: str) -> frozenset[int]:
    """The kernel's `0-2,5` as {0, 1, 2, 5}; empty text is the empty set. ValueError."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        cpus.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(cpus)


def format_cpu_list(cpus: Iterable[int]) -> str:
    """The reverse."""
    parts: list[str] = []
    run: list[int] = []
    for cpu in [*sorted(cpus), -1]:
        if run and cpu != run[-1] + 1:
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
            run = []
        run.append(cpu)
    return ",".join(parts)


def clashing(
    cpus: Collection[int], packet_cpus: Collection[int], other: OtherRun
) -> frozenset[int]:
    """The CPUs, of functions and of what else carries packets, that the other run does not share.
    Two engines can share a CPU, at half the speed; nothing can share a CPU with a function of
    another run.
    """
    theirs = other.cpus | other.packet_cpus
    return frozenset(cpus) & theirs | frozenset(packet_cpus) & other.cpus


@dataclass(frozen=True)
class PlatformCpus:
    """CPUs of source, sink and scheduler, and what is wrong with all CPUs of a file."""

    cpus: tuple[int, ...]
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def assign(
    file: ChainFile, machine: Machine, others: Sequence[OtherRun], there: Sequence[int] = ()
) -> PlatformCpus:
    """CPUs of source, sink and scheduler, apart from the CPUs of functions.

    Where the file states none, the platform keeps the CPUs that are `there`, unless a function
    needs one of them.
    """
    found = _platform(file, machine, others, there)
    return replace(
        found,
        notes=(*found.notes, *_switch_notes(file, found.cpus)),
        problems=(
            *found.problems,
            *_function_problems(file, machine, others, found.cpus),
            *_switch_problems(file, machine, others),
        ),
    )


def _switch_problems(
    file: ChainFile, machine: Machine, others: Sequence[OtherRun]
) -> Iterator[Problem]:
    cpu, where = file.ovs.cpu, ("ovs", "cpu")
    if cpu is None:
        return
    if not any(link.kind == "ovs" for link in file.links):
        yield Problem(where, "applies to links of kind: ovs, and there is none; leave it out")
    elif cpu not in machine.cpus:
        here = format_cpu_list(machine.cpus)
        yield Problem(where, f"CPU {cpu} does not exist here ({here}); choose another")
    for other in others:
        if clashing([], [cpu], other):
            sentence = f"CPU {cpu} is that of functions of run `{other.name}`; choose another"
            yield Problem(where, sentence, passing=True)


def _switch_notes(file: ChainFile, platform_cpus: Sequence[int]) -> Iterator[str]:
    if file.ovs.cpu in platform_cpus and not file.platform_cpus:
        yield (
            f"traffic and scheduler share CPU {file.ovs.cpu} with Open vSwitch (ovs.cpu), because "
            "no other is free: both are slower than alone"
        )


def _function_problems(
    file: ChainFile, machine: Machine, others: Sequence[OtherRun], platform_cpus: Sequence[int]
) -> list[Problem]:
    """Reports each CPU of functions once that does not exist or is not free, with the free CPUs."""
    # Where the file does not state them it has more than one only while they are to spare.
    reserved = frozenset(platform_cpus if file.platform_cpus else platform_cpus[:1])
    found: dict[str, Problem] = {}
    for name in file.functions:
        cpu = file.function(name).cpu
        stated = file.functions[name].cpu is not None
        where: Location = ("functions", name, "cpu") if stated else ("defaults", "cpu")
        if cpu is not None and (
            problem := _function_problem(where, cpu, machine, others, reserved)
        ):
            found.setdefault(problem.sentence, problem)
    return list(found.values())


def _function_problem(
    where: Location,
    cpu: int,
    machine: Machine,
    others: Sequence[OtherRun],
    reserved: frozenset[int],
) -> Problem | None:
    if len(machine.cpus) == 1:
        return Problem(
            where,
            "this machine has one CPU, and functions need another than the scheduler; "
            "try the chain with `unis simulate`",
        )
    taken = {used for other in others for used in other.cpus | other.packet_cpus}
    free = machine.cpus - reserved - taken
    advice = f"choose from {format_cpu_list(free)}" if free else "no CPU is free"
    if cpu not in machine.cpus:
        return Problem(
            where,
            f"CPU {cpu} does not exist here ({format_cpu_list(machine.cpus)}); {advice}, or try "
            "the chain with `unis simulate`",
        )
    for other in others:
        if clashing([cpu], [], other):
            return Problem(
                where,
                f"CPU {cpu} is in use by run `{other.name}`; {advice}"
                f"{', or' if free else ';'} end that run with `unis down {other.name}`",
                passing=True,
            )
    return None


def _platform(
    file: ChainFile, machine: Machine, others: Sequence[OtherRun], there: Sequence[int]
) -> PlatformCpus:
    if file.platform_cpus:
        return _stated(file, machine, others)
    if there and file.cpus.isdisjoint(there):
        return PlatformCpus(tuple(there))
    functions = {used for other in others for used in other.cpus} | file.cpus
    platforms = {used for other in others for used in other.packet_cpus}
    free = sorted(machine.cpus - functions - platforms)
    free = [cpu for cpu in free if cpu != file.ovs.cpu] or free  # a note says so
    if free:
        # One for each where there are as many and one to spare, else they share the first.
        return PlatformCpus(tuple(free[: _PLATFORM_PARTS if len(free) > _PLATFORM_PARTS else 1]))
    shared = sorted((machine.cpus & platforms) - functions)
    if shared:
        return PlatformCpus((shared[0],), (_sharing(shared[0], others),))
    sentence = (
        f"no CPU of {format_cpu_list(machine.cpus)} is left for traffic and the scheduler; give "
        "the functions fewer, or end another run"
    )
    taken_by_others = bool(machine.cpus - file.cpus)
    return PlatformCpus((), (), (Problem(("functions",), sentence, passing=taken_by_others),))


def _stated(file: ChainFile, machine: Machine, others: Sequence[OtherRun]) -> PlatformCpus:
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
                problems.append(Problem(where, sentence, passing=True))
        if any(cpu in other.packet_cpus for other in others):
            notes.append(_sharing(cpu, others))
    return PlatformCpus(tuple(cpus), tuple(notes), tuple(problems))


def _sharing(cpu: int, others: Sequence[OtherRun]) -> str:
    names = [f"`{other.name}`" for other in others if cpu in other.packet_cpus]
    return (
        f"traffic and scheduler share CPU {cpu} with run {', '.join(names)}: both are slower than "
        "alone"
    )
