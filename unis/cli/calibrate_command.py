"""`unis calibrate`."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from rich.table import Table

from unis.cli.select import JsonOption
from unis.cli.terminal import errors_told, out, say

if TYPE_CHECKING:
    from unis.simulate.scenario import MachineCosts


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
    from unis.bench.paper.calibration import calibrate_machine, mean_of
    from unis.plan.machine import Machine
    from unis.runtime.costs import cpu_model
    from unis.simulate.calibration import Calibration, keep

    with errors_told():
        found = calibrate_machine(Machine.this(), say)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        calibration = Calibration(
            cpu_model=cpu_model(), measured=now, costs=mean_of([*found.values()])
        )
        file = keep(calibration)
    if as_json:
        out.print_json(calibration.model_dump_json())
    else:
        _print({**found, "kept": calibration.costs})
    say(f"{file}: `unis simulate --calibrated` reckons with it")


def _print(found: dict[str, MachineCosts]) -> None:
    table = Table(box=None)
    table.add_column("")
    for name in found:
        table.add_column(name, justify="right")

    def line(name: str, of: list[float], digits: int) -> None:
        table.add_row(name, *(f"{value:.{digits}f}" for value in of))

    costs = found.values()
    line("a switch by priority, µs", [of.switch_ns / 1e3 for of in costs], 1)
    line("of which nobody runs", [of.kernel_switch_ns / 1e3 for of in costs], 1)
    line("of which the scheduler's call", [of.switch_call_ns / 1e3 for of in costs], 1)
    line("a yield, µs", [of.yield_ns / 1e3 for of in costs], 2)
    line("source, ns a packet", [of.source_ns for of in costs], 0)
    line("sink, ns a packet", [of.sink_ns for of in costs], 0)
    line("a packet in a chain ÷ alone", [of.chain_factor for of in costs], 2)
    out.print(table)
