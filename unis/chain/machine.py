"""What a chain file is checked against: the CPUs and files of the machine that shall run it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from unis import built

PLATFORM_PARTS = 3  # of unisd, that poll: source, sink, scheduler
PCAP_MAGIC = {
    bytes.fromhex(magic): kind
    for magic, kind in {
        "a1b2c3d4": "pcap",
        "d4c3b2a1": "pcap",
        "a1b23c4d": "pcap",  # time stamps in nanoseconds
        "4d3cb2a1": "pcap",
        "0a0d0d0a": "pcapng",
    }.items()
}


def parse_cpu_list(text: str) -> frozenset[int]:
    """`0-2,5` as the kernel writes sets of CPUs; empty text is the empty set."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def format_cpu_list(cpus: frozenset[int] | set[int]) -> str:
    """{0, 1, 2, 5} as `0-2,5`."""
    parts: list[str] = []
    run: list[int] = []
    for cpu in [*sorted(cpus), -1]:
        if run and cpu != run[-1] + 1:
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
            run = []
        run.append(cpu)
    return ",".join(parts)


@dataclass(frozen=True)
class Machine:
    """The CPUs that are online, and the one that runs the platform and the scheduler."""

    cpus: frozenset[int]

    @property
    def platform_cpu(self) -> int:
        """The CPU of unisd: the first, as the paper leaves core 0 to the system (5.1.1)."""
        return min(self.cpus)

    def platform_cpus(self, functions: frozenset[int]) -> list[int]:
        """The CPUs of unisd, where functions have those: one for each of source, sink and scheduler
        where the machine has as many and one to spare, else they share the first.
        """
        free = sorted(self.cpus - functions)
        enough = len(free) > PLATFORM_PARTS
        return free[:PLATFORM_PARTS] if enough else [self.platform_cpu]

    @classmethod
    def this(cls) -> "Machine":
        """The machine that we run on."""
        return cls(parse_cpu_list(Path("/sys/devices/system/cpu/online").read_text()))


@dataclass(frozen=True)
class Surroundings:
    """Where a chain file lies and, if it is to run and not only to be simulated, on what."""

    directory: Path
    machine: Machine | None = None


def find_program(program: str, directory: Path) -> Path | None:
    """The program of a function: beside the chain file, among the built functions, on PATH."""
    for place in (directory, built.functions_directory()):
        if found := shutil.which(str(place / program)):
            return Path(found).resolve()
    found = shutil.which(program)
    return Path(found).resolve() if found else None


def capture_problem(file: Path) -> str | None:
    """Why `file` cannot be replayed, or None."""
    try:
        with file.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        return f"cannot read {file}: {error.strerror}; name a pcap or pcapng file"
    if magic not in PCAP_MAGIC:
        return f"{file} is neither pcap nor pcapng; name a capture written by tcpdump or the like"
    return None
