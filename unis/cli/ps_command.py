"""`unis ps`: what runs, from the notes on disk and one short call to each engine."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import typer

from unis.cli.select import JsonOption, NameArgument, choose, runs
from unis.cli.terminal import out, print_line, say, warn
from unis.errors import EXIT_FAILED
from unis.runtime.directory import damages
from unis.runtime.state import Phase, RunState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unis.runtime.directory import RunDirectory
    from unis.v1 import engine_pb2 as pb

_NOT_COUNTED = "– in place of packets: a function on memif or veth does not tell UNiS its counts"
_SECONDS = 1.0  # for an engine to answer: one that hangs must not hide the others


@dataclass(frozen=True)
class Row:
    """A run, and what its engine says of it."""

    state: RunState
    stats: pb.Stats | None = None
    silence: str = ""  # why the engine says nothing
    # Of each edge of chains with branches, ns.
    waits: Mapping[str, Sequence[float | None]] = field(default_factory=dict)


def ps(name: NameArgument = None, as_json: JsonOption = False) -> None:
    """Show the runs: processes, their state, and what became of every packet.

    Exit code 1 if an engine does not answer, a clean-up left something, or a state file is damaged.

    Example: unis ps --json
    """
    # A launcher that brings its run up again has no folder for an instant.
    found = [choose(name)] if name else runs() or runs(settled=True)
    rows = [look(*run) for run in found]
    damaged = {} if name else damages()
    if as_json:
        unread = [{"name": run, "phase": "damaged", "reason": why} for run, why in damaged.items()]
        out.print_json(json.dumps([*map(as_json_row, rows), *unread]))
    else:
        for row in rows:
            _print(row)
        if not rows and not damaged:
            say("no run exists; start one with `unis up FILE`")
    for damage in damaged.values():
        warn(damage)
    if damaged or any(row.silence or row.state.problems for row in rows):
        raise typer.Exit(EXIT_FAILED)


def look(directory: RunDirectory, state: RunState, *, latency: bool = False) -> Row:
    """Asks the engine of one run, if it is up; with `latency`, or of chains with goals, also for
    its histograms."""
    if state.phase != Phase.RUNNING or not state.live():
        return Row(state)
    from unis.cli.edge_waits import waits
    from unis.engine.client import EngineClient, EngineError

    latency = latency or bool(state.goals_ns)
    with EngineClient(directory.socket) as client:
        try:
            stats = client.stats(latency=latency, seconds=_SECONDS)
            return Row(state, stats, waits=waits(client, stats))
        except EngineError as error:
            return Row(state, silence=str(error))


def _print(row: Row) -> None:
    """One run, for people."""
    print_line(_headline(row))
    for problem in row.state.problems:
        print_line(f"  left: {problem}", "red")
    if row.stats:
        from unis.cli.view import (
            about_cpus,
            about_goals,
            account_text,
            counts_all,
            edges,
            lost,
            processes,
        )  # fmt: skip

        noted = {function.name: function for function in row.state.functions}
        out.print(processes(row.stats, noted))
        if found := edges(row.stats, row.waits):
            out.print(found)
        goals = about_goals(p95s(row), row.state.goals_ns)
        for line in chain(lost(row.stats, noted), goals, about_cpus(row.stats)):
            print_line(line)
        if not row.state.attached:
            counted = counts_all(row.stats)
            print_line(account_text(row.stats.account, counted=counted))
            if not counted:
                print_line(_NOT_COUNTED, "dim")


def p95s(row: Row) -> dict[str, float | None]:
    """The p95 latency of each chain with a goal, ns, since the start; None: no packet yet."""
    from unis.engine.histogram import Latency

    found: dict[str, float | None] = dict.fromkeys(row.state.goals_ns)
    for chain_stats in row.stats.chains if row.stats else ():
        if chain_stats.name in found:
            us = Latency([chain_stats.latency]).percentile_us(95)
            found[chain_stats.name] = None if us is None else us * 1000
    return found


def _headline(row: Row) -> str:
    state = row.state
    if state.comes_again():
        return (
            f"{state.name}: failed, and is brought up again (`unis down {state.name}` gives "
            f"it up): {state.reason}"
        )
    if state.phase == Phase.FAILED:
        then = "tries again" if state.problems else "forgets it"
        return (
            f"{state.name}: failed (`unis logs {state.name}` tells more, `unis down {state.name}` "
            f"{then}): {state.reason}"
        )
    if not state.live():
        return f"{state.name}: its launcher was killed: run `unis down {state.name}`"
    if row.silence:
        return f"{state.name}: {row.silence}: `unis down {state.name}` ends it"
    if row.stats is None:
        return f"{state.name}: {state.phase}, {_origin(state)}"
    from unis.engine import names

    policy = names.policy_name(row.stats.policy)
    return f"{state.name}: {state.phase} under policy {policy}, {_origin(state)}"


def _origin(state: RunState) -> str:
    return "attached" if state.attached else state.chain_file


def as_json_row(row: Row) -> dict[str, Any]:
    """One run, for programs."""
    state = row.state
    phase = state.phase if state.live() or state.phase == Phase.FAILED else "stale"
    result: dict[str, Any] = {
        "name": state.name,
        "run_id": state.run_id,
        "phase": phase,
        "reason": state.reason,
        "problems": state.problems,
        "comes_again": state.comes_again(),
        "chain_file": state.chain_file,
        "attached": state.attached,
        "cpus": state.cpus,
        "platform_cpus": state.platform_cpus,
        "launcher": state.launcher.pid,
        "unisd": state.unisd.pid if state.unisd else None,
        "functions": {
            function.name: None if function.ended else function.process.pid
            for function in state.functions
        },
        "exited": {function.name: function.ended for function in state.functions if function.ended},
        "restarts": {function.name: function.restarts for function in state.functions},
        "silence": row.silence,
    }
    if row.stats:
        from unis.cli.plain import as_dict
        from unis.engine import names

        result["policy"] = names.policy_name(row.stats.policy)
        result["stats"] = as_dict(row.stats)
        result["edge_waits_ns"] = row.waits
        result["goals"] = {
            name: {"p95_ns": p95, "goal_ns": state.goals_ns[name]}
            for name, p95 in p95s(row).items()
        }
        result["account"] = as_dict(row.stats.account)
    return result
