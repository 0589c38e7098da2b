"""All of it: measured case by case, kept in files as it goes, and put together at the end."""

import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation.paper import causes, conditions, density, scale, table, throughput
from evaluation.paper.case import FOLLOWED, HANDED, KERNEL, LOAD, TUNED, Case, Extent
from evaluation.paper.cases import FULL, QUICK, cases
from evaluation.paper.figure import FigureFinding, FigureOf
from evaluation.paper.measured import Measured, measure, seconds_of
from evaluation.paper.parts import Parts
from evaluation.paper.progress import Progress
from evaluation.paper.results import Figure, ResultRow, Results
from evaluation.paper.simulated import FIGURES as SIMULATED
from evaluation.paper.simulated import (
    agreement,
    calibrated_by,
    can_calibrate,
    rows_of,
    simulate_case,
    simulate_table,
)
from evaluation.paper.source import Source
from unis.calibrate.fit import Calibrated
from unis.errors import UnisError
from unis.measure import disturbance
from unis.measure.machine import this_machine
from unis.measure.summary import MachineSummary
from unis.plan.machine import Machine
from unis.simulate.scenario import MachineCosts

# In the order of the paper; the instrument last.
FIGURES: dict[str, Callable[[FigureFinding], FigureOf]] = {
    "fig1": conditions.fig1,
    "fig4a": throughput.fig4a,
    "fig4b": throughput.fig4b,
    "fig5": conditions.fig5,
    "fig6": density.fig6,
    "fig7": throughput.fig7,
    "fig8": throughput.fig8,
    "table1": table.table1,
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
class PaperSettings:
    """What the command line says."""

    quick: bool
    only: tuple[str, ...]  # figures
    directory: Path

    @property
    def extent(self) -> Extent:
        """How much is measured."""
        return QUICK if self.quick else FULL


# About how long it takes to simulate them, seconds.
_CASE_SECONDS, _TABLE_SECONDS, _SCALE_SECONDS = 0.2, 0.5, 6.0
# What may be wrong with one figure, or one simulation, and right with the others.
_FAULTS = (
    ValueError, ArithmeticError, LookupError, StopIteration, OSError, UnisError,
    subprocess.SubprocessError,
)  # fmt: skip


def evaluate(
    settings: PaperSettings,
    report: Callable[[str], None],
    *,
    source: Source | None = None,
    keep: Callable[[Results], None] = lambda _: None,
) -> Results:
    """Measures what was not measured before an interruption, and puts all of it together.

    `keep` writes it: only then what was measured case by case is removed.
    """
    source = source or Source.this()
    machine = Machine.this()
    summary = this_machine(len(machine.cpus))
    extent = settings.extent
    wanted = _wanted(settings, machine)
    what = {"quick": settings.quick, "window": extent.window, "source": source.digest}
    parts = Parts(settings.directory, {**what, **summary.model_dump()})
    parts.make()
    there = {case.key: parts.read(case) for case in wanted}
    left = [case for case in wanted if there[case.key] is None]
    if resumed := parts.count:
        report(
            f"{resumed} of {len(wanted)} are there from before an interruption "
            f"(remove {parts.folder} to measure all anew)"
        )
    progress = Progress(
        report, [seconds_of(case, extent) for case in left], _simulated_steps(settings, wanted)
    )
    try:
        for case in left:
            progress.measuring(title_of(case), seconds_of(case, extent))
            there[case.key] = found = measure(case, extent, machine, report)
            parts.write(case, found)
        measured = {key: found for key, found in there.items() if found}
        results = put_together(
            settings, wanted, measured, (source.commit, summary), progress, report
        )
        results.settings["resumed"] = resumed
        keep(results)
    except BaseException:
        if parts.count:
            report(
                f"{parts.count} of {len(wanted)} are kept in {parts.folder}; the same command "
                "goes on"
            )
        else:
            parts.remove()  # the empty folder
        raise
    if problem := parts.remove():
        report(problem)
    return results


def put_together(
    settings: PaperSettings,
    wanted: list[Case],
    measured: dict[str, Measured],
    of_what: tuple[str, MachineSummary],
    progress: Progress,
    report: Callable[[str], None],
) -> Results:
    """Simulates what is simulated, and judges. `of_what`: the commit and the machine."""
    by_key = {case.key: case for case in wanted}
    simulated = {}
    known: dict[str, Calibrated] = {}
    faults: dict[str, str] = {}  # by case or figure
    for key, of in measured.items():
        case = by_key[key]
        if not can_calibrate(case):
            continue
        progress.simulating(f"{key}, and calibrated by it", _CASE_SECONDS)
        try:
            known[key] = by = calibrated_by(case, of)
            if case.figures & {*SIMULATED} & {*settings.only}:
                simulated[key] = simulate_case(case, of, by)
        except _FAULTS as error:
            faults[key] = _said(error)
    several: Mapping[str, Mapping[str, Mapping[str, float]]] = {}
    if "table1" in settings.only:
        progress.simulating("Table 1", _TABLE_SECONDS)
        try:
            several = simulate_table(measured, known, report)
        except _FAULTS as error:
            faults["table1"] = _said(error)
    of_scale = None
    if "scale" in settings.only:
        progress.simulating("scale", _SCALE_SECONDS)
        try:
            of_scale = scale.simulated(_switching([by.machine for by in known.values()]), report)
        except _FAULTS as error:
            faults["scale"] = _said(error)
    for key, why in faults.items():
        report(f"{key} could not be simulated: {why}")
    found = FigureFinding(by_key, measured, several, of_scale, simulated)
    figures: list[Figure] = []
    rows: list[ResultRow] = []
    points = rows_of(by_key, measured, simulated)
    for key, of_figure in _figures(settings.only, found, faults):
        if key in faults and not found.of(key):
            figures.append(_not_here(key, faults[key]))
            continue
        try:
            figure, its_rows = of_figure(found)
        except _FAULTS as error:
            report(f"{key} could not be put together: {_said(error)}")
            figures.append(_not_here(key, _said(error)))
            continue
        figures.append(figure)
        rows += [
            one.model_copy(update={"paper": figure.paper, "verdict": figure.verdict})
            for one in (*its_rows, *(one for one in points if one.experiment == figure.key))
        ]
    return Results(
        machine=of_what[1],
        commit=of_what[0],
        settings={
            "extent": "quick" if settings.quick else "full",
            "figures": "all" if {*FIGURES} <= {*settings.only} else [*settings.only],
            "window s": settings.extent.window,
            "squares of a set": settings.extent.sets,
            **({"could not be simulated": [*faults]} if faults else {}),
        },
        figures=figures,
        rows=rows,
        simulator=agreement(by_key, measured, simulated, known),
        disturbed=disturbance.remark(of.disturbed for of in measured.values()),
    )


def _figures(
    only: Collection[str], found: FigureFinding, faults: Collection[str]
) -> Iterator[tuple[str, Callable[[FigureFinding], FigureOf]]]:
    for key, of_figure in FIGURES.items():
        simulated = {"table1": bool(found.several), "scale": found.scale is not None}
        if key in only and (found.of(key) or simulated.get(key) or key in faults):
            yield key, of_figure


def _not_here(key: str, why: str) -> Figure:
    """Of a figure that a fault has kept from being put together."""
    return Figure(
        key=key, name=key.replace("fig", "Fig. "), title="Not put together", paper="", ours="",
        rule="", verdict="cannot be had here", why=f"A fault: {why}", source=[], plots=[],
    )  # fmt: skip


def _said(error: Exception) -> str:
    """What is wrong, and of what kind it is where it was not told as a sentence."""
    return str(error) if isinstance(error, UnisError) else f"{type(error).__name__}: {error}"


def _simulated_steps(settings: PaperSettings, wanted: Collection[Case]) -> list[float]:
    """About how many seconds each takes."""
    figures = {"table1": _TABLE_SECONDS, "scale": _SCALE_SECONDS}
    return [
        *(_CASE_SECONDS for case in wanted if can_calibrate(case)),
        *(seconds for key, seconds in figures.items() if key in settings.only),
    ]


def _switching(machines: Collection[MachineCosts]) -> MachineCosts:
    """What a switch costs here, the median, or the simulator's own where nothing was measured."""
    if not machines:
        return MachineCosts(switch_ns=14_000, switch_call_ns=8_000, kernel_switch_ns=2_500)
    of = sorted(machines, key=lambda one: one.switch_ns)[len(machines) // 2]
    return replace(of, source_ns=0, sink_ns=0, chain_factor=1)


def _wanted(settings: PaperSettings, machine: Machine) -> list[Case]:
    return [
        replace(case, sets={name: case.sets[name] for name in case.sets if _needs(figures, name)})
        for case in cases(settings.extent, machine)
        if (figures := case.figures & {*settings.only})
    ]


# Of a case's sets, those that some figures alone need.
_SETS = {
    LOAD: {"fig5"},
    KERNEL: {"fig4a", "fig4b"},
    TUNED: {"fig4a", "fig4b", "fig6", "fig7", "fig8", "same"},
    HANDED: {"fig15"},
    FOLLOWED: {"fig15"},
}


def _needs(figures: Collection[str], which: str) -> bool:
    """Whether a set of a case is measured."""
    return which not in _SETS or bool(_SETS[which] & {*figures})


def title_of(case: Case) -> str:
    """For who waits."""
    size = f"{case.size} B" if isinstance(case.size, int) else f"sizes of the {case.size} mix"
    what = "in one process" if case.fused else f"({', '.join(case.sets)})"
    return f"{case.key}, {size} {what}"
