"""`unis up`, `ps`, `top`, `down` and `policy`: the life of a chain."""

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf import json_format
from rich.live import Live

from unis.chain.load import load
from unis.chain.machine import Machine
from unis.cli.select import choose, connect
from unis.cli.terminal import err, errors_told, fail, out, say
from unis.cli.view import Rates, account_text, live_view, processes
from unis.engine import names
from unis.engine.client import EngineClient
from unis.launch.clean_up import clean_up
from unis.launch.errors import InterruptedRunError
from unis.launch.interrupts import interrupts
from unis.launch.launcher import Options, Run, running
from unis.launch.process import wait_gone
from unis.launch.state import Phase, RunDirectory, RunState, all_runs, run_directory
from unis.launch.supervisor import start_detached
from unis.v1 import engine_pb2 as pb

_DOWN_SECONDS = 20.0

ChainFileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="The chain file.", show_default=False)
]
NameArgument = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="The run; not needed if there is one only."),
]


def policy_argument(value: str | None) -> str | None:
    """Checks the name of a policy."""
    if value is not None and value not in names.policies():
        raise typer.BadParameter(f"{value} is none of {', '.join(names.policies())}")
    return value


PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        callback=policy_argument,
        help=f"Instead of the file's: {', '.join(names.policies())}.",
    ),
]


def up(
    file: ChainFileArgument,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run in the background.")] = False,
    policy: PolicyOption = None,
    name: Annotated[
        str | None, typer.Option(help="Call the run so, instead of the file's name.")
    ] = None,
) -> None:
    """Run the chains of FILE until Ctrl-C.

    Starts the engine and the functions, measures what a packet costs each function (unless the
    file states it or it was measured before), and lets traffic and scheduler run. Whatever ends
    it, every process is ended and the machine is left as it was.

    Example: unis up examples/demo.yaml --policy cooperative
    """
    with errors_told():
        machine = Machine.this()
        chain = load(file, machine, name)
        if detach:
            raise typer.Exit(start_detached(file, name, policy, say))
        with interrupts() as switch:
            options = Options(policy=policy)
            with running(chain, machine, options, say, switch) as run:
                try:
                    _show_live(run)
                except InterruptedRunError:  # Ctrl-C is how it ends
                    say("taking the chain down")


def _show_live(run: Run) -> None:
    before = run.client.stats()
    with Live(console=err, transient=True, auto_refresh=False) as live:

        def show(stats: pb.Stats) -> None:
            nonlocal before
            live.update(live_view(run.directory.name, Rates(before, stats)), refresh=True)
            before = stats

        run.watch(show)


def ps(
    name: NameArgument = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Pause the source and drain the chains to count.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show what runs: processes, their state, and what became of every packet.

    Example: unis ps --exact
    """
    runs = [choose(name)] if name else all_runs()
    shown: list[dict[str, object]] = []
    for directory, state in runs:
        stats, account = _look(directory, state, exact)
        if as_json:
            shown.append(_as_json(state, stats, account))
            continue
        out.print(_headline(state, stats), markup=False, soft_wrap=True)
        if stats:
            out.print(processes(stats))
            out.print(account_text(account or stats.account), soft_wrap=True)
    if as_json:
        out.print_json(json.dumps(shown))
    elif not runs:
        say("no chain is running: start one with `unis up FILE`")


def _look(
    directory: RunDirectory, state: RunState, exact: bool
) -> tuple[pb.Stats | None, pb.Account | None]:
    if state.phase != Phase.RUNNING or not state.live():
        return None, None
    with errors_told(), EngineClient(directory.socket) as client:
        account = client.settle() if exact else None
        return client.stats(), account


def _headline(state: RunState, stats: pb.Stats | None) -> str:
    if state.phase == Phase.FAILED:
        forget = f"(logs in {run_directory(state.name).path}; `unis down {state.name}` forgets it)"
        return f"{state.name}: failed {forget}: {state.reason}"
    if not state.live():
        return f"{state.name}: its launcher was killed: run `unis down {state.name}`"
    policy = f" under policy {names.policy_name(stats.policy)}" if stats else ""
    return f"{state.name}: {state.phase}{policy}, {state.chain_file}"


def _as_json(
    state: RunState, stats: pb.Stats | None, account: pb.Account | None
) -> dict[str, object]:
    phase = state.phase if state.live() or state.phase == Phase.FAILED else "stale"
    result: dict[str, object] = {
        "name": state.name,
        "phase": phase,
        "reason": state.reason,
        "chain_file": state.chain_file,
        "supervisor": state.supervisor.pid,
        "unisd": state.unisd.pid if state.unisd else None,
        "nfs": {nf.name: nf.process.pid for nf in state.nfs},
    }
    if stats:
        result["policy"] = names.policy_name(stats.policy)
        result["stats"] = as_dict(stats)
        result["account"] = as_dict(account or stats.account)
    return result


def as_dict(message: pb.Stats | pb.Account) -> dict[str, object]:
    """A message with every field, 64-bit numbers as numbers and not as protobuf's texts."""
    return _numbers(
        json_format.MessageToDict(
            message, always_print_fields_with_no_presence=True, preserving_proto_field_name=True
        )
    )


def _numbers(value: dict[str, object]) -> dict[str, object]:
    def plain(item: object) -> object:
        if isinstance(item, dict):
            return {key: plain(part) for key, part in item.items()}
        if isinstance(item, list):
            return [plain(part) for part in item]
        if isinstance(item, str) and item.lstrip("-").isdigit():
            return int(item)
        return item

    return {key: plain(item) for key, item in value.items()}


def top(
    name: NameArgument = None,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    count: Annotated[int, typer.Option(min=0, help="Looks, then end; 0: until Ctrl-C.")] = 0,
) -> None:
    """Watch a chain live: CPU shares, packets, rings, switches and drops of each function.

    Busy is the time that packets needed at their cost, spinning what functions polled in vain.

    Example: unis top --interval 0.5
    """
    _, state, client = connect(name)
    with errors_told(), client:
        before = client.stats()
        looks = 0
        try:
            with Live(console=out, auto_refresh=False) as live:
                while not count or looks < count:
                    time.sleep(interval)
                    now = client.stats()
                    live.update(live_view(state.name, Rates(before, now)), refresh=True)
                    before = now
                    looks += 1
        except KeyboardInterrupt:
            return


def down(
    name: NameArgument = None,
    everything: Annotated[bool, typer.Option("--all", help="Every run.")] = False,
) -> None:
    """End a chain and leave the machine as it was.

    Also cleans up after a run whose launcher was killed, and forgets one that failed.

    Example: unis down --all
    """
    runs = all_runs()
    if not everything:
        failed_only = not name and all(state.phase == Phase.FAILED for _, state in runs)
        runs = runs[:1] if failed_only and len(runs) == 1 else [choose(name)]
    problems = [problem for run in runs for problem in _down(*run)]
    if problems:
        raise fail("\n".join(problems), code=1)


def _down(directory: RunDirectory, state: RunState) -> list[str]:
    if state.phase == Phase.FAILED:
        shutil.rmtree(directory.path, ignore_errors=True)
        say(f"{state.name}: forgotten")
        return []
    if not state.live():
        say(f"{state.name}: its launcher was killed; cleaning up")
        return clean_up(directory, state.run_id)
    # The log is gone with the run; a file that is open can still be read.
    with directory.event_log.open() as log:
        log.seek(0, 2)
        state.supervisor.send(signal.SIGTERM)
        left = wait_gone([state.supervisor], _DOWN_SECONDS)
        for line in log:
            say(f"{state.name}: {line.rstrip().partition(' ')[2]}")
    problems = clean_up(directory, state.run_id) if left else []
    say(f"{state.name}: down")
    return problems


def policy(
    policy_name: Annotated[
        str,
        typer.Argument(
            metavar="POLICY", callback=policy_argument, help=", ".join(names.policies())
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="The run; not needed if there is one only.")
    ] = None,
) -> None:
    """Change the policy of a running chain.

    Example: unis policy rr
    """
    _, state, client = connect(name)
    with errors_told(), client:
        client.set_policy(names.policy(policy_name))
    say(f"{state.name}: policy {policy_name}")
