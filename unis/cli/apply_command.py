"""`unis apply`: a running run becomes what a file says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from unis.cli.options import ChainFileArgument, JsonOption, RunNameOption
from unis.cli.select import choose_running, runs
from unis.cli.terminal import fail, out, print_line, say, table_of, warn
from unis.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED
from unis.runtime.directory import run_directory


def apply(
    file: ChainFileArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would change and why. Change nothing.")
    ] = False,
    name: RunNameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change a run to what FILE says. Unchanged chains lose no packet.

    Adds, removes and moves chains and functions; restarts functions that have other arguments or
    links; changes costs, thresholds, policy and controller. A chain drops its packets while one of
    its functions restarts. If a step fails, UNiS undoes the steps before it. FILE names the run.
    A variable in FILE keeps the value that the run has, unless it is set here.

    Example: unis apply chain.yaml --dry-run
    """
    from unis.chain.load import load
    from unis.plan.machine import Machine
    from unis.runtime.requests import SupervisorClient
    from unis.v1 import supervisor_pb2 as pb

    machine = Machine.this()  # before we keep off the CPUs of functions
    # What is wrong with the file is told here, before anybody is asked.
    loaded = load(file, name, {**_variables_of_run(file, name), **os.environ})
    try:
        directory, state = choose_running(loaded.file.name)
    except typer.Exit:
        if name is None and any(other.live() for _, other in runs()):
            warn(f"`name` in {file} chooses the run; for another one add `--name NAME`")
        raise
    request = pb.ApplyFileRequest(
        file=str(file.resolve()),
        variables={key: value for key, value in os.environ.items() if _is_text(key + value)},
        cpus=sorted(machine.cpus),
        dry_run=dry_run,
    )
    try:
        with SupervisorClient(directory.requests(state.run_id)) as supervisor:
            result = supervisor.apply(request, say)
    except KeyboardInterrupt:
        what = "nothing was to be done" if dry_run else "the change goes on by itself"
        sentence = f"{what}: `unis logs {directory.name} unis` tells what becomes of it"
        raise fail(f"interrupted; {sentence}", EXIT_INTERRUPTED) from None
    if as_json:
        out.print_json(data=result)
        if result["difference"]["refused"]:
            raise typer.Exit(EXIT_BAD_INPUT)
        return
    _show(state.name, result)


def _variables_of_run(file: Path, name: str | None) -> dict[str, str]:
    """Those that the chain file of the run used; none if there is no such run."""
    from unis.chain.document import read_document

    data = read_document(file).data
    if name is None and isinstance(data, dict):
        name = data.get("name")
    state = run_directory(str(name)).read()
    return state.variables if state else {}


def _is_text(value: str) -> bool:
    """Whether it is Unicode, as a message has it; bytes of a file's name need not be."""
    return not any("\ud800" <= sign <= "\udfff" for sign in value)


def _show(name: str, result: dict[str, Any]) -> None:
    steps = result["difference"]
    for note in result["notes"]:
        say(note)
    if not steps["changes"] and not steps["refused"]:
        say(f"{name}: nothing to change")
        return
    if not result["applied"]:
        table = table_of("", "part", words=("name", "what", "why"), whole=("part", "name", "what"))
        for change in steps["changes"]:
            table.add_row(change["part"], change["name"], change["what"], "; ".join(change["why"]))
        out.print(table)
        if steps["down"]:
            print_line(f"down meanwhile: {', '.join(steps['down'])}")
        if steps["refused"]:
            raise fail("\n".join(f"refused: {sentence}" for sentence in steps["refused"]))
        return
    count = len(steps["changes"])
    say(f"{name}: {count} change{'s' * (count > 1)} in {result['seconds']:.2f} s")
