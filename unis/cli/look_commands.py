"""`unis ps`, `top`, `inspect` and `account`: what runs, and what becomes of its packets."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unis.cli.options import JsonOption, NameArgument, between
from unis.cli.select import choose, connect, runs
from unis.cli.terminal import fail, out, print_line, say, warn
from unis.cli.view import (
    Rates,
    about_cpus,
    about_goals,
    about_stopped,
    account_text,
    counts_all,
    edges,
    has_branches,
    live_view,
    lost,
    mean_waits,
    processes,
    times,
)
from unis.engine import names
from unis.errors import EXIT_FAILED
from unis.runtime.asked import AskedRun, ask, has_engine
from unis.runtime.directory import damages, telemetry_sockets
from unis.runtime.state import Phase, RunState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.protobuf.message import Message

    from unis.engine.client import EngineClient
    from unis.runtime.directory import RunDirectory
    from unis.runtime.state import FunctionProcess
    from unis.v1 import engine_pb2 as pb

_NOT_COUNTED = (
    "packets of functions that are not on rings are counted by their links; – where they cannot be"
)
_EDGE_SECONDS = 0.2  # some hundred turns of functions
_PAUSE = 0.005


@dataclass(frozen=True)
class _RunRow(AskedRun):
    """With what packets wait in each edge of chains with branches, ns."""

    waits: Mapping[str, Sequence[float | None]] = field(default_factory=dict)


def ps(name: NameArgument = None, as_json: JsonOption = False) -> None:
    """Show the runs: processes, their state, and what became of every packet.

    Exit code 1 if an engine does not answer, a clean-up left something, or a state file is damaged.

    Example: unis ps --json
    """
    # A launcher that brings its run up again has no folder for an instant.
    found = [choose(name)] if name else runs() or runs(settled=True)
    rows = [_ask(*run) for run in found]
    damaged = {} if name else damages()
    if as_json:
        unread = [{"name": run, "phase": "damaged", "reason": why} for run, why in damaged.items()]
        out.print_json(data=[*map(_run_data, rows), *unread])
    else:
        for row in rows:
            _print(row)
        if not rows and not damaged:
            say("no run exists; start one with `unis up FILE`")
    for damage in damaged.values():
        warn(damage)
    if damaged or any(row.silence or row.state.problems for row in rows):
        raise typer.Exit(EXIT_FAILED)


def _ask(directory: RunDirectory, state: RunState, *, latency: bool = False) -> _RunRow:
    """Asks the engine of one run, if it is up; with `latency`, or of chains with goals, also for
    its histograms."""
    if not has_engine(state):
        return _RunRow(state)
    from unis.engine.client import EngineClient

    with EngineClient(directory.socket) as client:
        row = ask(directory, state, client, latency=latency or bool(state.goals_ns))
        waits = _edge_waits(client, row.stats) if row.stats else {}
    return _RunRow(row.state, row.stats, row.silence, waits)


def _print(row: _RunRow) -> None:
    """One run, for people."""
    print_line(_headline(row))
    for problem in row.state.problems:
        print_line(f"  left: {problem}", "red")
    if row.stats:
        noted = {function.name: function for function in row.state.functions}
        out.print(processes(row.stats, noted))
        out.print(times(row.stats))
        if found := edges(row.stats, row.waits):
            out.print(found)
        goals = about_goals(_p95s(row), row.state.goals_ns)
        stopped = about_stopped(row.stats)
        for line in chain(stopped, lost(row.stats, noted), goals, about_cpus(row.stats)):
            print_line(line)
        for name, mac in row.state.wires.items():
            print_line(f"chain {name} begins at a wire: send to {mac}")
        if row.state.ovs:
            print_line(_about_ovs(row.state.ovs))
        if not row.state.attached:
            counted = counts_all(row.stats)
            print_line(account_text(row.stats.account, counted=counted))
            if not counted:
                print_line(_NOT_COUNTED, "dim")


def _about_ovs(noted: FunctionProcess) -> str:
    from unis.runtime.ovs import observed

    told = observed(noted)
    if not told["pid"]:
        return f"Open vSwitch {told['ended'] or 'has ended'}; it is started again"
    values = ((key, told[key]) for key in ("priority", "nice", "restarts"))
    more = "".join(f", {key} {value}" for key, value in values if value)
    cpus = ",".join(map(str, told["cpus"]))
    return f"Open vSwitch: pid {told['pid']}, CPU {cpus}, class {told['policy']}{more}"


def _p95s(row: _RunRow) -> dict[str, float | None]:
    """The p95 latency of each chain with a goal, ns, since the start; None: no packet yet."""
    from unis.engine.histogram import Latency

    found: dict[str, float | None] = dict.fromkeys(row.state.goals_ns)
    for chain_stats in row.stats.chains if row.stats else ():
        if chain_stats.name in found:
            us = Latency([chain_stats.latency]).percentile_us(95)
            found[chain_stats.name] = None if us is None else us * 1000
    return found


def _headline(row: _RunRow) -> str:
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
    policy = names.policy_name(row.stats.policy)
    return f"{state.name}: {state.phase} under policy {policy}, {_origin(state)}"


def _origin(state: RunState) -> str:
    return "attached" if state.attached else state.chain_file


def _run_data(row: _RunRow) -> dict[str, Any]:
    """One run, for programs."""
    state = row.state
    result: dict[str, Any] = {
        "name": state.name,
        "run_id": state.run_id,
        "phase": row.phase(),
        "reason": state.reason,
        "problems": state.problems,
        "comes_again": state.comes_again(),
        "chain_file": state.chain_file,
        "attached": state.attached,
        "cpus": state.cpus,
        "platform_cpus": state.platform_cpus,
        "launcher": {"pid": state.launcher.pid},
        "unisd": {"pid": state.unisd.pid} if state.unisd else None,
        "functions": {
            function.name: None if function.ended else function.process.pid
            for function in state.functions
        },
        "exited": {function.name: function.ended for function in state.functions if function.ended},
        "namespaces": {
            function.name: function.namespace for function in state.functions if function.namespace
        },
        "restarts": {function.name: function.restarts for function in state.functions},
        "telemetry": telemetry_sockets(state),
        "silence": row.silence,
    }
    if state.ovs:
        from unis.runtime.ovs import observed

        result["ovs"] = observed(state.ovs)
    if row.stats:
        result["policy"] = names.policy_name(row.stats.policy)
        result["stats"] = as_dict(row.stats)
        result["edge_waits_ns"] = row.waits
        result["goals"] = {
            name: {"p95_ns": p95, "goal_ns": state.goals_ns[name]}
            for name, p95 in _p95s(row).items()
        }
        result["account"] = as_dict(row.stats.account)
    return result


def _edge_waits(client: EngineClient, first: pb.Stats) -> dict[str, list[float | None]]:
    """What packets wait in the links of each edge, ns in the mean over the next 0.2 s.

    Of chains with branches only. None: no packet was taken. Empty: the engine did not answer.
    """
    if not any(map(has_branches, first.chains)):
        return {}
    from unis.engine.client import EngineError

    snapshots = [first]
    until = time.monotonic() + _EDGE_SECONDS
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(_PAUSE, left))
        try:
            snapshots.append(client.stats(seconds=_EDGE_SECONDS))
        except EngineError:
            return {}
    return mean_waits(snapshots)


def top(
    name: NameArgument = None,
    interval: Annotated[float, between(0.1, 3600, "Seconds between two refreshes.")] = 1.0,
    count: Annotated[
        int, typer.Option(min=0, help="Number of refreshes; 0 means until Ctrl-C.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the counters as JSON, one line per refresh.")
    ] = False,
) -> None:
    """Watch a run live: CPU shares, packets, links, switches and drops of each function.

    A function is busy while packets need it at their cost, and spinning while it polls without
    packets. In run delay it could run and has no CPU; backpressured, its packets also find no room
    behind it. Else it is blocked: it sleeps. The last three need a terminal of 152 columns.

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
    row = _ask(directory, state, latency=True)
    result: dict[str, Any] = _run_data(row)
    result["directory"] = str(directory.path)
    result["logs"] = [str(log) for log in directory.logs()]
    result["groups"] = state.groups
    result["leaf"] = state.leaf
    out.print_json(data=result)
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
        out.print_json(data=as_dict(counted))
    else:
        print_line(account_text(counted))
    if not counted.exact:
        why = counted.doubt or "the chains did not drain"
        raise fail(f"{why}, so the count is not exact", code=1)
    if counted.unaccounted:
        raise typer.Exit(1)


def as_dict(message: Message) -> dict[str, Any]:
    """A message with every field but those that may be absent and are; enums by their names.

    Numbers are numbers, which in protobuf's own JSON those of 64 bits are not.
    """
    return {
        field.name: _field(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _field(field: Any, value: Any) -> Any:
    if not field.is_repeated:
        return _value(field, value)
    if field.message_type and field.message_type.GetOptions().map_entry:
        value_field = field.message_type.fields_by_name["value"]
        return {key: _value(value_field, part) for key, part in value.items()}
    return [_value(field, part) for part in value]


def _value(field: Any, value: Any) -> Any:
    if field.message_type:
        return as_dict(value)
    return field.enum_type.values_by_number[value].name if field.enum_type else value
