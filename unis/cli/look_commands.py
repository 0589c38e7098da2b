"""`unis top`, `inspect` and `account`: what one run does."""

import json
from typing import Annotated, Any

import typer

from unis.cli.numbers import between
from unis.cli.plain import as_dict
from unis.cli.ps_command import as_json_row, look
from unis.cli.select import JsonOption, NameArgument, choose, connect
from unis.cli.terminal import fail, out, print_line
from unis.cli.view import Rates, account_text, live_view
from unis.errors import EXIT_FAILED


def top(
    name: NameArgument = None,
    interval: Annotated[float, between(0.1, 3600, "Seconds between two refreshes.")] = 1.0,
    count: Annotated[int, typer.Option(min=0, help="Number of refreshes. 0: until Ctrl-C.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the counters as JSON, one line per refresh.")
    ] = False,
) -> None:
    """Watch a run live: CPU shares, packets, links, switches and drops of each function.

    Busy is the time that packets needed at their cost. Spinning is the time of polls without
    packets.

    Example: unis top --interval 0.5
    """
    _, state, client = connect(name)
    with client:
        try:
            snapshots = client.watch(interval)
            before = next(snapshots)
            for look_number, now in enumerate(snapshots, start=1):
                if as_json:
                    typer.echo(json.dumps(as_dict(now)))
                else:
                    _redraw(state.name, Rates(before, now))
                before = now
                if look_number == count:
                    break
        except (KeyboardInterrupt, StopIteration):
            return


def _redraw(name: str, rates: Rates) -> None:
    if out.is_terminal:
        out.clear()
    out.print(live_view(name, rates, out.width))


def inspect(name: NameArgument = None) -> None:
    """Print everything that is known of a run as JSON: state, processes, counters, latencies, logs.

    Exit code 1 if its engine does not answer.

    Example: unis inspect demo
    """
    directory, state = choose(name)
    row = look(directory, state, latency=True)
    result: dict[str, Any] = as_json_row(row)
    result["directory"] = str(directory.path)
    result["logs"] = [str(log) for log in directory.logs()]
    result["groups"] = state.groups
    result["leaf"] = state.leaf
    out.print_json(json.dumps(result))
    if row.silence:
        raise typer.Exit(EXIT_FAILED)


def account(
    name: NameArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Count every packet of a run: its source pauses and its chains drain meanwhile.

    Exit code 1 if packets are missing.

    Example: unis account demo
    """
    _, _, client = connect(name)
    with client:
        counted = client.settle()
    if as_json:
        out.print_json(json.dumps(as_dict(counted)))
    else:
        print_line(account_text(counted))
    if not counted.exact:
        why = counted.doubt or "the chains did not drain"
        raise fail(f"{why}, so the count is not exact", code=1)
    if counted.unaccounted:
        raise typer.Exit(1)
