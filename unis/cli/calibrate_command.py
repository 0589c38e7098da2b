"""`unis calibrate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unis.cli.options import JsonOption
from unis.cli.terminal import out, say, table_of
from unis.errors import UnisError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unis.simulate.scenario import MachineCosts

# What a switch takes is looked for from 0 to 60 µs, to 60 ns: what ends there was not found.
_LEAST_NS, _MOST_NS = 100.0, 59_900.0


def calibrate(as_json: JsonOption = False) -> None:
    """Measure what the simulator must know of this machine (20 s).

    Two short chains are brought up, of light and of medium functions. Fitted to their windows are
    what a switch by priority takes and what a packet costs a function between others by what it
    costs alone; a yield, source, sink and the scheduler's call the engine measures itself. What is
    found is printed and kept in ~/.cache/unis for `unis simulate --calibrated` by the same user. A
    machine that others share may be another in an hour. Needs root, hugepages, what `make build`
    builds and two CPUs that do nothing else.

    Example: unis calibrate && unis simulate examples/demo.yaml --calibrated
    """
    from unis.calibrate.calibration import calibrate_machine, mean_of
    from unis.plan.machine import Machine
    from unis.simulate.calibration import FILE, Calibration

    FILE.see_that_it_can_be_written()
    found = calibrate_machine(Machine.this(), say)
    mean = mean_of([*found.values()])
    if not as_json:
        _print({**found, "mean": mean})
    refuse_what_was_not_found(found)
    calibration = Calibration.of(mean)
    if as_json:
        out.print_json(calibration.model_dump_json())
    say(f"{FILE.write(calibration)}: `unis simulate --calibrated` uses it")


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
