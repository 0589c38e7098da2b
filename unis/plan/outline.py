"""A plan before its links have lengths and names: where all is, and of which kinds.

What is known of the machine is looked up by this, so a chain file is planned once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unis import links
from unis.chain.graph import Graph
from unis.chain.load import LoadedChain
from unis.chain.model import Function, PcapSource
from unis.chain.problem import Problem
from unis.plan import cpus, users
from unis.plan.arguments import loads_plugin, place_problems
from unis.plan.devices import pci_addresses
from unis.plan.link_problems import link_problems, process_problems
from unis.plan.machine import Machine, OtherRun
from unis.plan.model import Plan
from unis.plan.programs import capture_problem, find_program, is_built, program_problem
from unis.plan.subject import Subject
from unis.plan.wiring import Wiring, wire
from unis.workload.kind import OFFLOADS

# How programs are switched, by default, that do not load UNiS' plug-in.
_WITHOUT_PLUGIN = "priority"


@dataclass(frozen=True)
class Outline:
    """What a chain file is on a machine, and what is wrong with it so far."""

    chain: LoadedChain
    machine: Machine
    others: tuple[OtherRun, ...]  # runs on it
    wiring: Wiring
    platform: tuple[int, ...]  # CPUs of source, sink and scheduler
    subjects: tuple[Subject, ...]  # of the functions whose programs are there
    controller: str
    pci: tuple[str, ...]  # addresses of the NICs among source and sink
    there: Plan | None  # the run, where it is there already
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]


def outline(
    chain: LoadedChain, machine: Machine, others: Sequence[OtherRun], there: Plan | None = None
) -> Outline:
    """Of `chain` on `machine` beside `others`."""
    file, graph = chain.file, chain.graph
    wiring = wire(file, graph)
    before = there.platform_cpus if there else ()
    platform, notes, problems = cpus.platform(file, machine, others, before)
    problems += cpus.function_problems(file, machine, others, platform)
    problems += link_problems(file, wiring)
    problems += process_problems(file, wiring)
    problems += users.user_problems(file, wiring)
    problems += place_problems(file, wiring)
    problems += _file_problems(chain)
    subjects = [
        subject
        for name in graph.functions
        if (subject := _subject(chain, wiring, name)) is not None
    ]
    return Outline(
        chain,
        machine,
        tuple(others),
        wiring,
        tuple(platform),
        tuple(subjects),
        _controller(chain),
        pci_addresses(file.traffic),
        there,
        (*notes, *_idle_branches(graph, subjects)),
        tuple(problems),
    )


def _idle_branches(graph: Graph, subjects: Sequence[Subject]) -> Iterator[str]:
    """Where a function that chooses no port is to choose one."""
    for subject in subjects:
        for chain in graph.chains_of(subject.name):
            ports = {edge.out_port for edge in chain.out_of(subject.name)}
            into = {edge.in_port for edge in chain.into(subject.name)}
            if len(ports) > len(into) and is_built(subject.program):  # they pair ports
                yield (
                    f"chain {chain.name}: `{subject.name}` is to choose between {len(ports)} "
                    f"ports, but {subject.program.name} sends all packets by one; split by match "
                    "or weight, or name a program that chooses"
                )


def _subject(chain: LoadedChain, wiring: Wiring, name: str) -> Subject | None:
    function = chain.graph.functions[name]
    program = find_program(function.executable, chain.directory)
    if program is None:
        return None
    kinds = [links.KINDS[port.kind] for port in wiring.ports[name]]
    offloads = {OFFLOADS: ",".join(function.offloads)} if function.offloads else {}
    return Subject(
        name=name,
        program=program,
        words=tuple(function.args if function.command is None else function.command[1:]),
        drivers=tuple(kind.driver for kind in kinds),
        env={**function.env, **offloads},
        user=users.other(function),
        capabilities=users.capabilities(
            function, [needed for kind in kinds for needed in kind.capabilities]
        ),
        yield_every=function.yield_every or 0,
        lcores=function.lcores,
        stdin=None if function.command is None else function.stdin or "",
        terminal=function.terminal,
        cwd=chain.directory,
    )


def _controller(chain: LoadedChain) -> str:
    """The file's; by default another where nobody could hand the CPU over."""
    scheduler = chain.file.scheduler
    functions: Sequence[Function] = list(chain.graph.functions.values())
    if any(map(loads_plugin, functions)) or "controller" in scheduler.model_fields_set:
        return scheduler.controller
    return _WITHOUT_PLUGIN


def _file_problems(chain: LoadedChain) -> list[Problem]:
    found: dict[str, Problem] = {}
    for name, function in chain.file.functions.items():
        if sentence := program_problem(function.executable, chain.directory):
            key = "program" if function.program else "command"
            found.setdefault(sentence, Problem(("functions", name, key), sentence))
    source = chain.file.traffic.source
    if isinstance(source, PcapSource) and (
        sentence := capture_problem(chain.directory / source.file)
    ):
        found[sentence] = Problem(("traffic", "source", "file"), sentence)
    return list(found.values())
