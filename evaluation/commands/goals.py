"""`python -m evaluation goals`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.bench_options import one_chain_of, print_disturbed, us_text
from unis.cli.options import between
from unis.cli.terminal import out, say, table_of, writable, write_result

if TYPE_CHECKING:
    from evaluation.goals import GoalRow
    from unis.chain.values import ControllerName

_CONTROLLERS: tuple[ControllerName, ...] = ("handover", "priority", "signal")


def goals(
    goal: Annotated[
        str,
        typer.Option(help="Goals on p95 latency as in a chain file, or `none`, comma-separated."),
    ] = "50us,100us,200us,400us,none",
    cost: Annotated[
        str,
        typer.Option(
            help="Cost of a packet: light, medium, heavy, variable, or a number of cycles."
        ),
    ] = "light",
    length: Annotated[str, typer.Option(help="Number of functions in the chain.")] = "3",
    controllers: Annotated[
        str, typer.Option(help=f"Comma-separated: {', '.join(_CONTROLLERS)}.")
    ] = "handover",
    windows: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of windows per goal.")
    ] = 10,
    window: Annotated[float, between(0.02, 3600, "Length of a measured window, seconds.")] = 0.5,
    file: Annotated[
        Path | None, typer.Option("--json", help="Write the result to this file as JSON.")
    ] = None,
) -> None:
    """Measure whether a chain at full load keeps its goal on latency.

    Starts the chain once per goal, with the ring lengths that `unis up` would choose. Like `unis
    up`, refuses a goal that cannot be met.

    Example: uv run python -m evaluation goals --goal 100us,1ms,none --controllers handover,priority
    """
    from evaluation import goals as bench
    from unis.plan.machine import Machine

    one_cost, one_length = one_chain_of(cost, length)
    settings = bench.GoalSettings(
        cost=one_cost,
        length=one_length,
        goals=_goals_of(goal),
        controllers=_controllers_of(controllers),
        windows=windows,
        window=window,
    )
    rows: list[GoalRow] = []
    if file:
        writable(file)
    machine = Machine.this()
    for row in bench.measure(settings, machine, say):
        rows.append(row)
        if file:  # written after each goal, in case a later one fails
            text = bench.result(rows, settings, machine).model_dump_json(indent=2)
            write_result(file, text + "\n")
    _print(rows, f"{settings.length} {settings.cost}, windows of {window:g} s")


def _goals_of(text: str) -> tuple[str, ...]:
    from evaluation.goals import NO_GOAL
    from unis.chain.goals import Goals

    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in words:
        try:
            if word != NO_GOAL:
                Goals(p95_latency=word)
        except ValueError:
            raise typer.BadParameter(
                f"`{word}`: write none or a duration, as 100us or 1.5ms", param_hint="--goal"
            ) from None
    return words


def _controllers_of(text: str) -> tuple[ControllerName, ...]:
    words = dict.fromkeys(word.strip() for word in text.split(","))
    if unknown := [word for word in words if word not in _CONTROLLERS]:
        raise typer.BadParameter(
            f"there is no {unknown[0]!r}: {', '.join(_CONTROLLERS)}", param_hint="--controllers"
        )
    return tuple(name for name in _CONTROLLERS if name in words)


def _print(rows: list[GoalRow], title: str) -> None:
    columns = ("slots", "expected µs", "p50 µs", "p95", "windows kept", "Mpps")
    table = table_of(title, "controller, goal", columns)
    for row in rows:
        name = f"{row.controller}, {row.goal}"
        if kept := row.kept:
            windows = "–" if kept.windows_kept is None else f"{kept.windows_kept} of {kept.windows}"
            table.add_row(
                name,
                str(kept.slots),
                us_text(kept.expected_p95_us),
                *(us_text(kept.latency_us[key]) for key in ("p50", "p95")),
                windows,
                f"{kept.mpps.median:.3f}",
            )
        else:
            table.add_row(name, *["–"] * len(columns))
    out.print(table)
    for row in rows:
        if row.refused:
            line = f"{row.controller}, {row.goal}: refused: {row.refused}"
            out.print(line, markup=False, style="yellow", soft_wrap=True)
        for note in row.kept.notes if row.kept else ():
            line = f"{row.controller}, {row.goal}: {note}"
            out.print(line, markup=False, style="dim", soft_wrap=True)
    print_disturbed(row.kept.disturbed for row in rows if row.kept)
