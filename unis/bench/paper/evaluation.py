"""All of it: measured case by case, kept in files as it goes, and put together at the end."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from unis import built, version
from unis.bench.machine import this_machine
from unis.bench.paper import causes, conditions, scale, throughput
from unis.bench.paper.calibration import calibrated, can_calibrate
from unis.bench.paper.cases import (
    FULL,
    HANDED,
    LOAD,
    QUICK,
    SAME,
    TUNED,
    Case,
    Extent,
    cases,
)
from unis.bench.paper.figure import FigureOf, Found
from unis.bench.paper.measured import Measured, measure, seconds_of
from unis.bench.paper.simulated import FIGURES as SIMULATED
from unis.bench.paper.simulated import agreement, simulate_case, simulate_table
from unis.bench.paper.virtual import Calibrated
from unis.measure import disturbance
from unis.plan.machine import Machine
from unis.report.evaluation import Figure, Results, Row
from unis.runtime.files import write_atomically
from unis.simulate.scenario import MachineCosts

# In the order of the paper; the instrument last.
FIGURES: dict[str, Callable[[Found], FigureOf]] = {
    "fig1": conditions.fig1,
    "fig4a": throughput.fig4a,
    "fig4b": throughput.fig4b,
    "fig5": conditions.fig5,
    "fig6": throughput.fig6,
    "fig7": throughput.fig7,
    "fig8": throughput.fig8,
    "table1": throughput.table1,
    "fig9": causes.fig9,
    "fig10": causes.fig10,
    "fig11": causes.fig11,
    "fig12": causes.fig12,
    "fig13": causes.fig13,
    "fig14": throughput.fig14,
    "fig15": conditions.fig15,
    "same": conditions.same,
    "scale": conditions.scale,
}


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    quick: bool
    only: tuple[str, ...]  # figures
    directory: Path

    @property
    def extent(self) -> Extent:
        """How much is measured."""
        return QUICK if self.quick else FULL


class Progress:
    """Says what is next, and how long all of it will take."""

    def __init__(self, report: Callable[[str], None], seconds: float, count: int) -> None:
        self._report = report
        self._left = seconds
        self._count = count
        self._at = 0

    def next(self, title: str, seconds: float) -> None:
        """One begins that takes about so long."""
        self._at += 1
        left = f"{self._left / 60:.0f} min" if self._left > 90 else f"{self._left:.0f} s"
        self._report(f"{self._at} of {self._count}, about {left} left: {title}")
        self._left -= seconds


def evaluate(settings: Settings, report: Callable[[str], None]) -> Results:
    """Measures what was not measured before an interruption, and puts all of it together."""
    machine = Machine.this()
    wanted = _wanted(settings, machine)
    parts = _Parts(settings, machine)
    there = {case.key: parts.read(case) for case in wanted}
    left = [case for case in wanted if there[case.key] is None]
    if len(left) < len(wanted):
        report(
            f"{len(wanted) - len(left)} of {len(wanted)} are there from before an interruption "
            f"(remove {parts.folder} to measure all anew)"
        )
    extent = settings.extent
    progress = Progress(report, sum(seconds_of(case, extent) for case in left), len(left))
    for case in left:
        progress.next(title_of(case), seconds_of(case, extent))
        there[case.key] = found = measure(case, extent, machine, report)
        parts.write(case, found)
    measured = {key: found for key, found in there.items() if found}
    results = put_together(settings, wanted, measured, machine, report)
    parts.remove()
    return results


def put_together(
    settings: Settings,
    wanted: list[Case],
    measured: dict[str, Measured],
    machine: Machine,
    report: Callable[[str], None],
) -> Results:
    """Simulates what is simulated, and judges."""
    by_key = {case.key: case for case in wanted}
    simulated = {}
    known: dict[str, Calibrated] = {}
    for key, of in measured.items():
        case = by_key[key]
        if not can_calibrate(case):
            continue
        report(f"calibrating the simulator by {key}")
        known[key] = by = calibrated(case, of)
        if case.figures & {*SIMULATED} & {*settings.only}:
            simulated[key] = simulate_case(case, of, by)
    several = simulate_table(measured, known, report) if "table1" in settings.only else {}
    of_scale = None
    if "scale" in settings.only:
        of_scale = scale.simulated(_switching([by.machine for by in known.values()]), report)
    found = Found(by_key, measured, several, of_scale)
    figures: list[Figure] = []
    rows: list[Row] = []
    for _, of_figure in _figures(settings.only, found):
        figure, its_rows = of_figure(found)
        figures.append(figure)
        rows += [
            one.model_copy(update={"paper": figure.paper, "verdict": figure.verdict})
            for one in its_rows
        ]
    return Results(
        machine=this_machine(len(machine.cpus)),
        commit=commit(),
        settings={
            "extent": "quick" if settings.quick else "full",
            "window s": settings.extent.window,
            "squares of a set": settings.extent.sets,
        },
        figures=figures,
        rows=rows,
        simulator=agreement(by_key, measured, simulated, known),
        disturbed=disturbance.remark(of.disturbed for of in measured.values()),
    )


def _figures(
    only: Collection[str], found: Found
) -> Iterator[tuple[str, Callable[[Found], FigureOf]]]:
    for key, of_figure in FIGURES.items():
        simulated = {"table1": bool(found.several), "scale": found.scale is not None}
        if key in only and (found.of(key) or simulated.get(key)):
            yield key, of_figure


def _switching(machines: Collection[MachineCosts]) -> MachineCosts:
    """What a switch costs here, the median, or the simulator's own where nothing was measured."""
    if not machines:
        return MachineCosts(switch_ns=14_000, switch_call_ns=8_000, kernel_switch_ns=2_500)
    of = sorted(machines, key=lambda one: one.switch_ns)[len(machines) // 2]
    return replace(of, source_ns=0, sink_ns=0, chain_factor=1)


def _wanted(settings: Settings, machine: Machine) -> list[Case]:
    return [
        replace(case, sets={name: case.sets[name] for name in case.sets if _needs(figures, name)})
        for case in cases(settings.extent, machine)
        if (figures := case.figures & {*settings.only})
    ]


# Of a case's sets, those that some figures alone need.
_SETS = {
    SAME: {"same"},
    LOAD: {"fig5"},
    TUNED: {"fig4a", "fig4b", "fig6", "fig7", "fig8"},
    HANDED: {"fig15"},
}


def _needs(figures: Collection[str], which: str) -> bool:
    """Whether a set of a case is measured."""
    return bool(_SETS[which] & {*figures} if which in _SETS else {*figures} - {"same"})


def title_of(case: Case) -> str:
    """For who waits."""
    size = f"{case.size} B" if isinstance(case.size, int) else f"sizes of the {case.size} mix"
    what = "in one process" if case.fused else f"({', '.join(case.sets)})"
    return f"{case.key}, {size} {what}"


def commit() -> str:
    """What was measured: the commit of a clone, else the version."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=built.clone(), capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return version()
    return done.stdout.strip()


class _Parts:
    """A file for each case, which are good as long as nothing else is wanted."""

    def __init__(self, settings: Settings, machine: Machine) -> None:
        self.folder = settings.directory / "parts"
        here = this_machine(len(machine.cpus)).model_dump()
        what = {
            "quick": settings.quick,
            "commit": commit(),
            "window": settings.extent.window,
            **here,
        }
        self._identity = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]

    def read(self, case: Case) -> Measured | None:
        """None if it was not measured, or for something else."""
        try:
            return Measured.model_validate_json(self._file(case).read_text())
        except (OSError, ValidationError):
            return None

    def write(self, case: Case, measured: Measured) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file(case), measured.model_dump_json())

    def remove(self) -> None:
        """Once the results are there they are of no use."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, case: Case) -> Path:
        return self.folder / f"{case.key}.{'-'.join(case.sets)}.{self._identity}.json"
