"""The whole evaluation: measures case by case, saves each case, and assembles the results."""

import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation.paper import causes, conditions, density, scale, table, throughput
from evaluation.paper.case import (
    HANDOVER_FILLS,
    KERNEL,
    LOAD,
    ONLINE_COST_FILLS,
    TUNED,
    Case,
    Extent,
)
from evaluation.paper.cases import FULL, QUICK, cases
from evaluation.paper.figure import FigureAndRows, Findings
from evaluation.paper.measured import Measured, measure, seconds_of
from evaluation.paper.parts import Parts
from evaluation.paper.progress import Progress
from evaluation.paper.results import Figure, ResultRow, Results
from evaluation.paper.simulated import FIGURES as SIMULATED
from evaluation.paper.simulated import (
    agreement,
    calibration_of,
    can_calibrate,
    rows_of,
    simulate_case,
    simulate_table,
)
from evaluation.paper.source import Source
from unis.calibrate.fit import Calibrated
from unis.errors import UnisError
from unis.measure import disturbance
from unis.measure.summary import MachineSummary
from unis.plan.machine import Machine
from unis.simulate.scenario import MachineCosts

# In the order of the paper; then the test of the measurement itself, and scale.
FIGURES: dict[str, Callable[[Findings], FigureAndRows]] = {
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


# Estimates of the time that a simulation takes, seconds.
_CASE_SECONDS, _TABLE_SECONDS, _SCALE_SECONDS = 0.2, 0.5, 6.0
# Errors that spoil one figure or one simulation, but not the others.
_ERRORS = (
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
    """Measures the cases that an interrupted call left, and assembles the results.

    `keep` writes the results; the saved cases are removed only after it returns.
    """
    source = source or Source.this()
    machine = Machine.this()
    summary = MachineSummary.this(len(machine.cpus))
    extent = settings.extent
    selected = _selected(settings, machine)
    conditions = {"quick": settings.quick, "window": extent.window, "source": source.digest}
    parts = Parts(settings.directory, {**conditions, **summary.model_dump()})
    parts.make()
    done = {case.key: parts.read(case) for case in selected}
    left = [case for case in selected if done[case.key] is None]
    if resumed := parts.count:
        report(
            f"{resumed} of {len(selected)} cases are done from an interrupted call "
            f"(remove {parts.folder} to start again)"
        )
    progress = Progress(
        report, [seconds_of(case, extent) for case in left], _simulated_steps(settings, selected)
    )
    try:
        for case in left:
            progress.measuring(title_of(case), seconds_of(case, extent))
            done[case.key] = found = measure(case, extent, machine, report)
            parts.write(case, found)
        measured = {key: found for key, found in done.items() if found}
        results = assemble(settings, selected, measured, source.commit, summary, progress, report)
        results.settings["resumed"] = resumed
        keep(results)
    except BaseException:
        if parts.count:
            report(
                f"{parts.count} of {len(selected)} cases are saved in {parts.folder}; the same "
                "command continues"
            )
        else:
            parts.remove()  # the empty folder
        raise
    if problem := parts.remove():
        report(problem)
    return results


def assemble(
    settings: PaperSettings,
    selected: list[Case],
    measured: dict[str, Measured],
    commit: str,
    summary: MachineSummary,
    progress: Progress,
    report: Callable[[str], None],
) -> Results:
    """Simulates, judges each figure, and assembles the results. `summary`: of the machine."""
    by_key = {case.key: case for case in selected}
    simulated = {}
    calibrations: dict[str, Calibrated] = {}
    errors: dict[str, str] = {}  # by case or figure
    for key, case_measured in measured.items():
        case = by_key[key]
        if not can_calibrate(case):
            continue
        progress.simulating(f"{key}, with its calibration", _CASE_SECONDS)
        try:
            calibrations[key] = calibration = calibration_of(case, case_measured)
            if case.figures & {*SIMULATED} & {*settings.only}:
                simulated[key] = simulate_case(case, case_measured, calibration)
        except _ERRORS as error:
            errors[key] = _error_text(error)
    table1_mpps: Mapping[str, Mapping[str, Mapping[str, float]]] = {}
    if "table1" in settings.only:
        progress.simulating("Table 1", _TABLE_SECONDS)
        try:
            table1_mpps = simulate_table(measured, calibrations, report)
        except _ERRORS as error:
            errors["table1"] = _error_text(error)
    scale_found = None
    if "scale" in settings.only:
        progress.simulating("scale", _SCALE_SECONDS)
        try:
            scale_found = scale.simulated(
                _switching([calibration.machine for calibration in calibrations.values()]), report
            )
        except _ERRORS as error:
            errors["scale"] = _error_text(error)
    for key, why in errors.items():
        report(f"{key} could not be simulated: {why}")
    findings = Findings(by_key, measured, table1_mpps, scale_found, simulated)
    figures: list[Figure] = []
    rows: list[ResultRow] = []
    points = rows_of(by_key, measured, simulated)
    for key, of_figure in _figures(settings.only, findings, errors):
        if key in errors and not findings.chains(key):
            figures.append(_failed_figure(key, errors[key]))
            continue
        try:
            figure, its_rows = of_figure(findings)
        except _ERRORS as error:
            report(f"{key} could not be assembled: {_error_text(error)}")
            figures.append(_failed_figure(key, _error_text(error)))
            continue
        figures.append(figure)
        rows += [
            result.model_copy(update={"paper": figure.paper, "verdict": figure.verdict})
            for result in (*its_rows, *(row for row in points if row.experiment == figure.key))
        ]
    return Results(
        machine=summary,
        commit=commit,
        settings={
            "extent": "quick" if settings.quick else "full",
            "figures": "all" if {*FIGURES} <= {*settings.only} else [*settings.only],
            "window s": settings.extent.window,
            "squares of a set": settings.extent.sets,
            **({"could not be simulated": [*errors]} if errors else {}),
        },
        figures=figures,
        rows=rows,
        simulator=agreement(by_key, measured, simulated, calibrations),
        disturbed=disturbance.remark(
            case_measured.disturbed for case_measured in measured.values()
        ),
    )


def _figures(
    only: Collection[str], findings: Findings, errors: Collection[str]
) -> Iterator[tuple[str, Callable[[Findings], FigureAndRows]]]:
    for key, of_figure in FIGURES.items():
        simulated = {"table1": bool(findings.table1_mpps), "scale": findings.scale is not None}
        if key in only and (findings.chains(key) or simulated.get(key) or key in errors):
            yield key, of_figure


def _failed_figure(key: str, why: str) -> Figure:
    """A placeholder for a figure that an error prevented."""
    return Figure(
        key=key, name=key.replace("fig", "Fig. "), title="Not assembled", paper="", ours="",
        rule="", verdict="cannot be had here", why=f"An error: {why}", source=[], plots=[],
    )  # fmt: skip


def _error_text(error: Exception) -> str:
    """The message; with the type of the error unless it is a sentence of UNiS."""
    return str(error) if isinstance(error, UnisError) else f"{type(error).__name__}: {error}"


def _simulated_steps(settings: PaperSettings, selected: Collection[Case]) -> list[float]:
    """The estimated seconds of each simulation."""
    figures = {"table1": _TABLE_SECONDS, "scale": _SCALE_SECONDS}
    return [
        *(_CASE_SECONDS for case in selected if can_calibrate(case)),
        *(seconds for key, seconds in figures.items() if key in settings.only),
    ]


def _switching(machines: Collection[MachineCosts]) -> MachineCosts:
    """The machine with the median switch; the simulator's defaults if nothing was measured."""
    if not machines:
        return MachineCosts(switch_ns=14_000, switch_call_ns=8_000, kernel_switch_ns=2_500)
    machine = sorted(machines, key=lambda machine: machine.switch_ns)[len(machines) // 2]
    return replace(machine, source_ns=0, sink_ns=0, chain_factor=1)


def _selected(settings: PaperSettings, machine: Machine) -> list[Case]:
    return [
        replace(case, sets={name: case.sets[name] for name in case.sets if _needs(figures, name)})
        for case in cases(settings.extent, machine)
        if (figures := case.figures & {*settings.only})
    ]


# Window sets that only these figures need.
_ONLY_FOR = {
    LOAD: {"fig5"},
    KERNEL: {"fig4a", "fig4b"},
    TUNED: {"fig4a", "fig4b", "fig6", "fig7", "fig8", "same"},
    HANDOVER_FILLS: {"fig15"},
    ONLINE_COST_FILLS: {"fig15"},
}


def _needs(figures: Collection[str], window_set: str) -> bool:
    """Whether any of the figures uses the window set."""
    return window_set not in _ONLY_FOR or bool(_ONLY_FOR[window_set] & {*figures})


def title_of(case: Case) -> str:
    """The case in a line of progress."""
    size = f"{case.size} B" if isinstance(case.size, int) else f"sizes of the {case.size} mix"
    detail = "in one process" if case.fused else f"({', '.join(case.sets)})"
    return f"{case.key}, {size} {detail}"
