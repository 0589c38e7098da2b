"""Has `unis-calibrate` measure memory, switches, calls and probes of a CPU."""

import itertools
import subprocess
from collections.abc import Callable, Iterable, Iterator

from pydantic import ValidationError

from unis import built
from unis.errors import UnisError
from unis.measure.disturbance import others_busy
from unis.measure.primitives import Primitive, Primitives
from unis.plan.cpus import clashing
from unis.plan.machine import Machine
from unis.runtime.kept import first_error
from unis.runtime.planning import others as running

_SECONDS, _QUICK_SECONDS = 25, 3


def measure_primitives(
    machine: Machine, report: Callable[[str], None], *, quick: bool
) -> Primitives:
    """Of the CPU that functions would have. UnisError if a run has it, or the program fails."""
    cpu, other = max(machine.cpus), min(machine.cpus)
    _require_free(cpu, other)
    others = [] if cpu == other else [str(other)]
    command = [str(built.calibrator()), str(cpu), *others, *(["--quick"] if quick else [])]
    seconds = _QUICK_SECONDS if quick else _SECONDS
    report(f"measuring memory, calls, switches and probes of CPU {cpu}, about {seconds} s")
    busy = others_busy()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as program:
        try:
            rows = list(_told(parsed(program.stdout or ()), report))
            said = program.stderr.read().strip() if program.stderr else ""
            program.wait()
        except BaseException:
            program.kill()
            raise
    if program.returncode:
        raise UnisError(
            f"unis-calibrate ended with {program.returncode}{said and f': {said}'}",
            bad_input=False,
        )
    return Primitives.of(cpu, other if others else None, rows, round(busy(), 3))


def _require_free(cpu: int, other: int) -> None:
    """A function of a chain leaves nobody time, and would have to wait for us."""
    for run in running():
        if shared := clashing({cpu}, {other}, run):
            raise UnisError(
                f"CPU {min(shared)} is in use by run `{run.name}`: end it first: "
                f"`unis down {run.name}`",
                bad_input=False,
            )


def parsed(lines: Iterable[str]) -> Iterator[Primitive]:
    """Of each line that the program prints. UnisError where one is not as it should be."""
    for line in lines:
        try:
            yield Primitive.model_validate_json(line)
        except ValidationError as error:
            raise UnisError(
                f"unis-calibrate printed `{line.strip()}` ({first_error(error)}): it is of another "
                "version than this command; run `make build`",
                bad_input=False,
            ) from None


def _told(rows: Iterable[Primitive], report: Callable[[str], None]) -> Iterator[Primitive]:
    """The same, and a report after each group."""
    for group, found in itertools.groupby(rows, lambda row: row.group):
        of_group = []
        for row in found:
            of_group.append(row)
            yield row
        missing = sum(row.ns is None for row in of_group)
        report(
            f"{group.replace('_', ' ')}: {len(of_group) - missing} measured"
            + (f", {missing} not" if missing else "")
        )
