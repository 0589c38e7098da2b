"""`unis calibrate`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.options import JsonOption, one_of
from unis.cli.terminal import out, say, table_of, warn
from unis.errors import EXIT_BAD_INPUT, UnisError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from unis.simulate.scenario import MachineCosts

# What a switch takes is looked for from 0 to 60 µs, to 60 ns: what ends there was not found.
_LEAST_NS, _MOST_NS = 100.0, 59_900.0


_PARTS = ("simulator", "machine")


def calibrate(
    as_json: JsonOption = False,
    only: Annotated[
        str | None,
        typer.Option(
            callback=one_of("part", _PARTS),
            help="Measure this alone: simulator or machine. Default: both.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            help="Measure the machine with few samples and arrays up to 4 MiB (3 s), and keep "
            "nothing. Not for the simulator."
        ),
    ] = False,
    show: Annotated[
        bool, typer.Option(help="Print what is kept. Nothing is measured, and no right needed.")
    ] = False,
) -> None:
    """Measure this machine, and what the simulator must know of it (45 s).

    The machine (25 s): memory latency by array, stride and page, system calls, context switches by
    scheduling class, wake-ups, timers, packet sockets, and BPF programs on tracepoints: on the last
    CPU, each with samples, median and an interval of 95 %. docs/calibration.md says what each row
    means. What cannot be measured here says why.

    The simulator (20 s): two short chains are brought up, of light and of medium functions. Fitted
    to their windows are what a switch by priority takes and what a packet costs a function between
    others by what it costs alone; a yield, source, sink and the scheduler's call the engine
    measures itself.

    What is found is printed and kept in ~/.cache/unis for the same user: `unis simulate
    --calibrated` uses it, and `unis calibrate --show` prints it. A machine that others share may be
    another in an hour. Needs root, hugepages, what `make build` builds and two CPUs that do nothing
    else.

    Example: unis calibrate && unis simulate examples/demo.yaml --calibrated
    """
    parts = [only] if only else ["machine"] if quick else list(_PARTS)
    if quick and "simulator" in parts:
        raise typer.BadParameter("the simulator's part has no short version; leave out --quick")
    if show:
        _show(parts, as_json=as_json)
        return
    found: dict[str, BaseModel | None] = dict.fromkeys(_PARTS)
    try:
        if "machine" in parts:
            _measure_machine(found, as_json=as_json, quick=quick)
        if "simulator" in parts:
            _measure_simulator(found, as_json=as_json)
    finally:  # what was found is printed, even if it cannot be kept
        if as_json and any(found.values()):
            _print_json(found)


def _measure_machine(found: dict[str, BaseModel | None], *, as_json: bool, quick: bool) -> None:
    from unis.calibrate.machine import measure_primitives
    from unis.cli.primitives_tables import print_primitives
    from unis.measure.primitives import FILE
    from unis.plan.machine import Machine

    if not quick:
        FILE.see_that_it_can_be_written()
    found["machine"] = measured = measure_primitives(Machine.this(), say, quick=quick)
    if not as_json:
        print_primitives(measured)
    elif remark := measured.disturbed():
        say(remark)
    if not quick:
        say(f"{FILE.write(measured)}: `unis calibrate --show` prints it")


def _measure_simulator(found: dict[str, BaseModel | None], *, as_json: bool) -> None:
    from unis.calibrate.calibration import calibrate_machine, mean_of
    from unis.plan.machine import Machine
    from unis.simulate.calibration import FILE, Calibration

    FILE.see_that_it_can_be_written()
    by_chain = calibrate_machine(Machine.this(), say)
    mean = mean_of([*by_chain.values()])
    if not as_json:
        _print({**by_chain, "mean": mean})
    refuse_what_was_not_found(by_chain)
    found["simulator"] = calibration = Calibration.of(mean)
    say(f"{FILE.write(calibration)}: `unis simulate --calibrated` uses it")


def _show(parts: list[str], *, as_json: bool) -> None:
    """Prints what is kept; fails where nothing of it is there or can be read."""
    from unis.cli.primitives_tables import print_primitives
    from unis.measure import primitives
    from unis.simulate import calibration

    found: dict[str, BaseModel | None] = dict.fromkeys(_PARTS)
    lacking: list[UnisError] = []
    for part, file in (("machine", primitives.FILE), ("simulator", calibration.FILE)):
        if part not in parts:
            continue
        try:
            found[part] = kept = file.read()
        except UnisError as error:
            lacking.append(error)
            continue
        if isinstance(kept, primitives.Primitives) and not as_json:
            print_primitives(kept)
        elif isinstance(kept, calibration.Calibration) and not as_json:
            _print({f"{kept.cpu_model}, {kept.measured}": kept.costs})
        if remark := kept.stale() or kept.remark():
            warn(f"{file.path}: {remark}")
    if as_json:
        _print_json(found)
    for reason in lacking:
        warn(str(reason))
    if len(lacking) == len(parts):
        raise typer.Exit(EXIT_BAD_INPUT)


def _print_json(found: Mapping[str, BaseModel | None]) -> None:
    parts = {name: model and model.model_dump(mode="json") for name, model in found.items()}
    out.print_json(json.dumps(parts))


def refuse_what_was_not_found(found: Mapping[str, MachineCosts]) -> None:
    """UnisError if what a switch takes was fitted to nothing: the windows say less or more."""
    for name, costs in found.items():
        if not _LEAST_NS < costs.kernel_switch_ns < _MOST_NS:
            raise UnisError(
                f"the windows of {name} functions do not determine the cost of a switch: the fit "
                f"is {costs.kernel_switch_ns / 1e3:.1f} µs, an end of the range. Nothing is kept; "
                "try again while nothing else runs",
                bad_input=False,
            )


def _print(found: dict[str, MachineCosts]) -> None:
    table = table_of("", "", list(found))

    def line(name: str, values: list[float], digits: int) -> None:
        table.add_row(name, *(f"{value:.{digits}f}" for value in values))

    costs = found.values()
    line("a switch by priority, µs", [cost.switch_ns / 1e3 for cost in costs], 1)
    line("of which nobody runs", [cost.kernel_switch_ns / 1e3 for cost in costs], 1)
    line("of which the scheduler's call", [cost.switch_call_ns / 1e3 for cost in costs], 1)
    line("a yield, µs", [cost.yield_ns / 1e3 for cost in costs], 2)
    line("source, ns a packet", [cost.source_ns for cost in costs], 0)
    line("sink, ns a packet", [cost.sink_ns for cost in costs], 0)
    line("a packet in a chain ÷ alone", [cost.chain_factor for cost in costs], 2)
    out.print(table)
