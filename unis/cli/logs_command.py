"""`unis logs`: what processes of a run said, also when it is down."""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, TextIO

import typer

from unis.cli.options import JsonOption
from unis.cli.terminal import fail, out
from unis.runtime import logs as kept
from unis.runtime.directory import RunDirectory, keep_off_functions

_LOOK_SECONDS = 0.2
_TRIES, _MOVED_SECONDS = 10, 0.02


def logs(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Name of the run. Default: the run that is up or ran last."
        ),
    ] = None,
    function: Annotated[
        str | None,
        typer.Argument(
            metavar="[FUNCTION]",
            help="Show only this function, or `unisd` (the engine), or `unis` (the launcher).",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Print new lines as they come, until the run ends."),
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the runs that have logs.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the logs of the launcher, the engine and the functions of a run.

    UNiS keeps the logs of the last runs. Of a log larger than 4 MB it keeps the last part.

    Examples: unis logs  |  unis logs demo firewall -f
    """
    keep_off_functions()
    if listing:
        _list(as_json)
        return
    directory, streams = _open(name, function)
    for log, line in _lines(directory, streams, follow):
        who = _who(log)
        if as_json:
            typer.echo(json.dumps({"who": who, "line": line}))
        else:
            typer.echo(line if len(streams) == 1 else f"{who} | {line}")


def _list(as_json: bool) -> None:
    ended = kept.ended()
    if as_json:
        out.print_json(
            data=[
                {"name": run.name, "ended": run.ended, "directory": str(run.directory.path)}
                for run in ended
            ]
        )
        return
    for run in ended:
        when = datetime.fromtimestamp(run.ended).astimezone().isoformat(sep=" ")
        typer.echo(f"{when}  {run.name}  {run.directory.path}")


def _open(name: str | None, function: str | None) -> tuple[RunDirectory, dict[Path, TextIO]]:
    """The logs of the run that is meant; looked for again when they move, as the run ends."""
    for _ in range(_TRIES):
        if (directory := kept.latest(name)) is None:
            break
        with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError):
            streams: dict[Path, TextIO] = {
                log: stack.enter_context(log.open(errors="replace"))
                for log in _chosen(directory, function)
            }
            stack.pop_all()
            return directory, streams
        time.sleep(_MOVED_SECONDS)
    raise fail("no logs are kept" + (f" of a run `{name}`" if name else ""))


def _who(log: Path) -> str:
    return log.stem.removeprefix("function.")


def _chosen(directory: RunDirectory, function: str | None) -> list[Path]:
    found = directory.logs()
    if not found:
        raise FileNotFoundError
    if function is None:
        return found
    if chosen := [log for log in found if _who(log) == function]:
        return chosen
    raise fail(f"there is no log of `{function}`; there are {', '.join(map(_who, found))}")


def _lines(
    directory: RunDirectory, streams: dict[Path, TextIO], follow: bool
) -> Iterator[tuple[Path, str]]:
    try:
        while True:
            # Looked at before reading: what is said last must not be missed.
            goes_on = follow and (state := directory.read()) is not None and state.live()
            for log, stream in streams.items():
                if os.fstat(stream.fileno()).st_size < stream.buffer.tell():  # it was shortened
                    stream.seek(0, os.SEEK_END)
                for line in stream:
                    yield log, line.rstrip("\n")
            if not goes_on:
                return
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        return
    finally:
        for stream in streams.values():
            stream.close()
