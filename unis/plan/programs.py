"""The programs of functions: where they are, whom they run as, what they are started with.

Needs the machine's files and users.
"""

import itertools
import os
import pwd
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from unis import built, links
from unis.chain.graph import Graph
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile, Function, PcapSource
from unis.chain.problem import Problem
from unis.container.model import ContainerPlan
from unis.plan.containers import container_plan, container_problems, program_in
from unis.plan.wiring import PortPlace, Wiring
from unis.workload import COUNTED, LCORE_USAGE, OFFLOADS, Start

ROOT = "root"
# Root without them is not what programs expect of root: it cannot read the folder of a chain file
# that is somebody's own, nor keep its memory from being paged out.
ROOTS_CAPABILITIES = ("dac_override", "ipc_lock")
NO_MACS: Mapping[str, str] = MappingProxyType({})
_EAL = "{eal}"
# EAL's arguments that UNiS writes and that EAL accepts only once.
_WRITTEN = {"--lcores", "--file-prefix", "--proc-type"}
_LCORES = re.compile(r"[0-9(][0-9,\-@()]*")
_PLUGIN = "{plugin}"
_NUMBERED = re.compile(r"\{(vdev|lcore)(\d+)\}")
_PLACE = re.compile(r"\{(vdev\d+|lcore\d+|file_prefix|cpu|lcores|plugin)\}")
_MAC = re.compile(r"\{((?:next_)?mac(\d+))\}")  # not of EAL's arguments
# pcap in both byte orders, with time stamps in µs and in ns; pcapng.
_CAPTURE_MAGIC = [
    bytes.fromhex(magic) for magic in ["a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "0a0d0d0a"]
]
# How programs are switched, by default, that do not load UNiS' plug-in.
_WITHOUT_PLUGIN = "priority"


@dataclass(frozen=True)
class ProgramPlan:
    """A function's program and all that it is started with, but for names of the run: what its cost
    depends on, beside the machine.
    """

    name: str
    program: Path
    words: tuple[str, ...]  # its arguments, as the file says them
    drivers: tuple[str, ...]  # of its ports
    env: Mapping[str, str]  # beside the launcher's own
    user: str | None  # None: root
    capabilities: tuple[str, ...]  # all that it has
    yield_every: int  # bursts; 0: it never yields
    lcore_count: int
    stdin: str | None  # said to it, and then kept open; None: it has none
    terminal: bool  # its input and output are one, into which stdin is typed
    cwd: Path
    container: ContainerPlan | None  # None: it runs in none


@dataclass(frozen=True)
class Programs:
    """The functions' programs, and what is wrong with them here."""

    found: tuple[ProgramPlan, ...]  # of the functions whose programs are there
    file: ChainFile  # with its settings resolved: a controller that these programs can have
    folders: Mapping[str, Path]  # of functions that run as another user, or in a container
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]


def look_at_programs(chain: LoadedChain, wiring: Wiring, below: Path) -> Programs:
    """The programs of a chain file; folders of functions are to be `below` a folder."""
    file, graph = chain.file, chain.graph
    planned = [_program(chain, wiring, name) for name in graph.functions]
    found = tuple(program for program in planned if program)
    places = {program.name: program.program for program in found}
    problems = [*user_problems(file, wiring)]
    problems += container_problems(file, wiring, chain.directory, places)
    for name, function in graph.functions.items():
        ports = wiring.ports[name]
        on_nics = [at for at, port in enumerate(ports) if links.KINDS[port.kind].on_nics]
        problems += _place_problems(name, function, len(ports), on_nics)
    problems += _file_problems(chain)
    scheduler = file.scheduler.model_copy(
        update={"controller": _controller(chain), "max_delay_us": file.max_delay_us}
    )
    return Programs(
        found,
        file.model_copy(update={"scheduler": scheduler}),
        user_folders(file, below),
        tuple(_idle_branches(graph, found)),
        tuple(problems),
    )


def find_program(program: str, directory: Path) -> Path | None:
    """The program of a function: with a slash a path from the chain file, else a built one, else
    one on PATH. A file that happens to lie beside the chain file never takes a name's place.
    """
    if "/" in program:
        found = shutil.which(directory / program)
    else:
        found = shutil.which(built.functions_directory() / program) or shutil.which(program)
    # Not resolved: what a program does may depend on the name that it is called by.
    return Path(found).absolute() if found else None


def program_problem(program: str, directory: Path) -> str | None:
    """Why there is no such program, and what to write; None if there is one."""
    if find_program(program, directory):
        return None
    if Path(program).parts[-3:-1] == ("third-party", "bin"):
        fetch = "tools/third-party" + (" testpmd" if program.endswith("testpmd") else "")
        return f"{Path(program).name} is not fetched yet; run `{fetch}`"
    if program == "dpdk-testpmd":
        return (
            "there is no program `dpdk-testpmd` on PATH; run `apt-get install dpdk-dev`, or run "
            "`tools/third-party testpmd` and put build/third-party/bin on PATH"
        )
    if "/" in program:
        return f"there is no program {directory / program}; name one that can be executed"
    beside = directory / program
    # is_file() alone raises for a name that is too long.
    if os.access(beside, os.F_OK) and beside.is_file():
        return (
            f"`{program}` lies beside the chain file, and is neither a built function nor on PATH; "
            f"write ./{program}"
        )
    return (
        f"there is no program `{program}` among the built functions or on PATH; name one, write a "
        f"path with a slash, or {built.cure()}"
    )


def capture_problem(file: Path) -> str | None:
    """Why `file` cannot be replayed, or None."""
    try:
        with file.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        return f"cannot read {file}: {error.strerror}; name a pcap or pcapng file"
    if magic not in _CAPTURE_MAGIC:
        return f"{file} is neither pcap nor pcapng; name a capture written by tcpdump or the like"
    return None


def other_user(function: Function) -> str | None:
    """The user that a function runs as; None if that is root."""
    return None if function.user in (None, ROOT) else function.user


def capabilities(function: Function, ports: Iterable[str] = ()) -> tuple[str, ...]:
    """All that its process has, and whatever that starts; `ports`: what its ports need."""
    roots = () if other_user(function) else ROOTS_CAPABILITIES
    return tuple(dict.fromkeys([*roots, *function.capabilities, *ports]))


def user_folders(file: ChainFile, below: Path) -> dict[str, Path]:
    """Of each function that runs as another user, the folder that only this user may enter; of one
    in a container, the folder that it sees of the run. No name of a run or function has a dot.
    """
    return {
        name: below / f"{file.name}.{name}"
        for name in file.functions
        if other_user(file.function(name)) is not None or file.function(name).container
    }


def user_problems(file: ChainFile, wiring: Wiring) -> Iterator[Problem]:
    """What is wrong with the users that the file names, as its links are."""
    for name in file.functions:
        user = other_user(file.function(name))
        if user is None:
            continue
        where = _where(file, name)
        try:
            if pwd.getpwnam(user).pw_uid == 0:
                yield Problem(where, f"`{user}` is another name of root; write `{ROOT}`")
        except KeyError:
            yield Problem(
                where,
                f"there is no user `{user}` here; name one that `getent passwd` shows, or make it: "
                f"`useradd --system {user}`",
            )
        if wiring.shares_memory(name):
            yield Problem(
                where,
                f"`{name}` is on rings, in the engine's DPDK group, which is one domain of trust: "
                f"who is in it can write all of its memory, and unisd's is root's. So `{user}` "
                f"must have a memif: add {{from: …, to: {name}, kind: memif}} to links, or leave "
                "the user out",
            )
    yield from _between_users(file, wiring)


def _where(file: ChainFile, name: str) -> tuple[str, ...]:
    return ("functions", name, "user") if file.functions[name].user else ("defaults", "user")


def _between_users(file: ChainFile, wiring: Wiring) -> Iterator[Problem]:
    for place in wiring.direct:
        if not links.KINDS[place.kind].one_user:
            continue
        before, behind = place.edge.ends
        users = [other_user(wiring.graph.functions[name]) for name in (before, behind)]
        if users[0] != users[1]:
            names = " and ".join(user or ROOT for user in users)
            yield Problem(
                _where(file, before if users[0] else behind),
                f"`{before}` and `{behind}` have a {place.kind} between them, whose socket is one "
                f"user's alone, and they run as {names}; give both the same user, or put a "
                "function on rings between them",
            )


def arguments(
    function: Function,
    eal: Sequence[str],
    start: Start,
    cpu: int,
    macs: Mapping[str, str] = NO_MACS,
    next_hops: Sequence[str] = (),
) -> list[str]:
    """EAL's arguments and the function's own, in the places that it leaves for them. `macs`: what
    stands for which; `next_hops`: what a function of ours writes into packets, for each port.
    """
    if function.command is None:
        yielding = ["--yield-every", str(function.yield_every)] if function.yield_every else []
        writing = ["--next-hop", ",".join(next_hops)] if next_hops else []
        return [*eal, "--", *function.args, *yielding, *writing]
    words = [
        _MAC.sub(lambda found: macs.get(found[1], found[0]), it) for it in function.command[1:]
    ]
    if not _has_places(words):
        if "--" not in words:
            return [*eal, "--", *words]
        at = words.index("--")
        return [*eal, *words[:at], "--", *words[at + 1 :]]
    lcores = [lcore.partition("@")[0] for lcore in start.lcores.split(",")]
    places = {
        **{f"vdev{at}": device for at, device in enumerate(start.devices)},
        **{f"lcore{at}": lcore for at, lcore in enumerate(lcores)},
        "file_prefix": start.file_prefix,
        "cpu": str(cpu),
        "lcores": start.lcores,
        "plugin": str(start.port_plugin),  # named only where it is there
    }

    def filled(word: str) -> list[str]:
        if word == _EAL:
            return list(eal)
        return [_PLACE.sub(lambda found: places.get(found[1], found[0]), word)]

    return [part for word in words for part in filled(word)]


def loads_plugin(function: Function) -> bool:
    """Whether our plug-in is among EAL's arguments in its command line."""
    words = (function.command or [])[1:]
    placed = not _has_places(words) or _EAL in words or any(_PLUGIN in word for word in words)
    return function.plugin and placed


def _has_places(words: Sequence[str]) -> bool:
    return any(_EAL in word or _PLACE.search(word) for word in words)


def in_image(function: Function) -> bool:
    """Whether its program is one of an image, not of this machine."""
    return function.container is not None and function.container.image is not None


def _place_problems(
    name: str, function: Function, ports: int, on_nics: Collection[int]
) -> Iterator[Problem]:
    """Commands that name what they do not have, or leave out what their offloads need."""
    words = (function.command or [])[1:]
    where = ("functions", name)
    for word in words:
        for kind, number in _NUMBERED.findall(word):
            there = function.lcores if kind == "lcore" else ports
            if int(number) < there:
                continue
            has = f"{{{kind}{number}}}: it has {there} {'lcore' if kind == 'lcore' else 'port'}"
            mend = f"add lcores: {int(number) + 1}" if kind == "lcore" else "they count from 0"
            yield Problem((*where, "command"), f"{has}{'s' if there > 1 else ''}; {mend}")
    if "--" in words and not _has_places(words):
        for word, value in itertools.pairwise(words[: words.index("--") + 1]):
            option = word.partition("=")[0]
            if option in _WRITTEN or (option == "-l" and _LCORES.fullmatch(value)):
                yield Problem(
                    (*where, "command"),
                    f"{option} is an argument of EAL that UNiS writes itself; remove it",
                )
    for place, number in (found for word in words for found in _MAC.findall(word)):
        if int(number) not in on_nics:
            sentence = f"{{{place}}}: port {number} is on no link of kind sriov; remove it"
            yield Problem((*where, "command"), sentence)
    named = any(_PLUGIN in word for word in words)
    if not function.plugin and named:
        yield Problem((*where, "plugin"), "the command names {plugin}; leave one of them out")
    if function.offloads and not function.plugin:
        yield Problem(
            (*where, "offloads"), "are offered by the plug-in; leave out them or plugin: false"
        )
    elif function.offloads and _has_places(words) and not named and _EAL not in words:
        yield Problem(
            (*where, "offloads"),
            "are offered by the plug-in, which the command does not load; write {eal} or "
            "`-d {plugin}` among EAL's arguments in it",
        )


def _idle_branches(graph: Graph, programs: Sequence[ProgramPlan]) -> Iterator[str]:
    """Where a function that chooses no port is to choose one."""
    for function in programs:
        for chain in graph.chains_of(function.name):
            ports = {edge.out_port for edge in chain.out_of(function.name)}
            into = {edge.in_port for edge in chain.into(function.name)}
            # UNiS' own functions pair ports.
            own = function.program.parent == built.functions_directory()
            if len(ports) > len(into) and own:
                yield (
                    f"chain {chain.name}: `{function.name}` is to choose between {len(ports)} "
                    f"ports, but {function.program.name} sends all packets by one; split by match "
                    "or weight, or name a program that chooses"
                )


def _driver(port: PortPlace) -> str:
    """A port's link, with what else its cost depends on. What is stated as it is by default changes
    nothing.
    """
    place = port.rx or port.tx
    stated = place.of_kind if place else None
    own: list[object] = []
    if stated and stated.driver == "mmsg":
        options = (f"{key}={value}" for key, value in stated.mmsg_options)
        own = [stated.driver, stated.batch, *options]
    elif stated and stated.kind == "sriov":
        own = [stated.driver]
    return ",".join([port.kind, *(str(word) for word in own if word)])


def _program(chain: LoadedChain, wiring: Wiring, name: str) -> ProgramPlan | None:
    function = chain.graph.functions[name]
    if in_image(function):
        program = program_in(function, chain.directory)
    else:
        program = find_program(function.executable, chain.directory)
    if program is None:
        return None
    kinds = [links.KINDS[port.kind] for port in wiring.ports[name]]
    offloads = {OFFLOADS: ",".join(function.offloads)} if function.offloads else {}
    wires = [
        str(at)
        for at, port in enumerate(wiring.ports[name])
        if any(place and place.wire for place in (port.rx, port.tx))
    ]
    counted = {COUNTED: ",".join(wires)} if wires else {}
    usage = {LCORE_USAGE: "1"} if function.telemetry else {}
    return ProgramPlan(
        name=name,
        program=program,
        words=tuple(function.args if function.command is None else function.command[1:]),
        drivers=tuple(map(_driver, wiring.ports[name])),
        env={**function.env, **offloads, **counted, **usage},
        user=other_user(function),
        capabilities=capabilities(
            function, [needed for kind in kinds for needed in kind.capabilities]
        ),
        yield_every=function.yield_every or 0,
        lcore_count=function.lcores,
        stdin=None if function.command is None else function.stdin or "",
        terminal=function.terminal,
        cwd=chain.directory,
        container=container_plan(function, chain.directory),
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
    if chain.file.directory and not chain.directory.is_dir():
        missing = f"there is no folder {chain.directory}; make it, or name another"
        return [Problem(("directory",), missing)]
    for name, function in chain.file.functions.items():
        if in_image(function):
            continue
        if sentence := program_problem(function.executable, chain.directory):
            key = "program" if function.program else "command"
            found.setdefault(sentence, Problem(("functions", name, key), sentence))
    source = chain.file.traffic.source
    if isinstance(source, PcapSource) and (
        sentence := capture_problem(chain.directory / source.file)
    ):
        found[sentence] = Problem(("traffic", "source", "file"), sentence)
    return list(found.values())
