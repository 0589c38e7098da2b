"""Sets of CPUs as the kernel writes them: `0-2,5`."""

from collections.abc import Iterable


def parse_cpu_list(text: str) -> frozenset[int]:
    """{0, 1, 2, 5} of `0-2,5`; empty text is the empty set. ValueError where it is no such list."""
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
