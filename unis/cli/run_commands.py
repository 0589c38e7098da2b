"""`unis up`, `down`, `restart` and `policy`: the life of a chain."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.numbers import between
from unis.cli.select import (
    ChainFileArgument,
    NameArgument,
    NameOption,
    choose,
    choose_running,
    runs,
)
from unis.cli.terminal import err, errors_told, fail, say, voice
from unis.engine import names
from unis.errors import EXIT_INTERRUPTED
from unis.runtime.clean_up import clean_up, forget
from unis.runtime.directory import RunDirectory
from unis.runtime.errors import InterruptedRunError
from unis.runtime.process import ProcessId, wait_gone
from unis.runtime.state import RunState

if TYPE_CHECKING:
    from unis.runtime.supervisor import Supervisor
    from unis.v1 import engine_pb2 as pb

_DOWN_SECONDS = 20.0
_MOST_SECONDS = 86400.0
_WAIT_SECONDS = 60.0  # for every chain to deliver, where the command line does not say


def _known(value: str | None, known: list[str]) -> str | None:
    if value is not None and value not in known:
        raise typer.BadParameter(f"{value} is none of {', '.join(known)}")
    return value


def policy_argument(value: str | None) -> str | None:
    """Checks the name of a policy."""
    return _known(value, names.policies())


def controller_argument(value: str | None) -> str | None:
    """Checks the name of a controller."""
    return _known(value, names.controllers())


PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        callback=policy_argument,
        help=f"Instead of the file's: {', '.join(names.policies())}.",
    ),
]
ControllerOption = Annotated[
    str | None,
    typer.Option(
        "--controller",
        callback=controller_argument,
        help=f"How functions are switched: {', '.join(names.controllers())}.",
    ),
]


def up(
    file: ChainFileArgument,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run in the background.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="In the background; return once every chain delivers.")
    ] = False,
    timeout: Annotated[
        float | None,
        between(
            0.1,
            _MOST_SECONDS,
            "Seconds after which a chain that does not run is given up; with --wait, 60.",
        ),
    ] = None,
    policy: PolicyOption = None,
    controller: ControllerOption = None,
    name: Annotated[
        str | None, typer.Option(help="Call the run so, instead of the file's name.")
    ] = None,
) -> None:
    """Run the chains of FILE until Ctrl-C.

    Starts the engine and the functions, and lets traffic and scheduler run. The scheduler finds
    what a packet costs each function, unless the file says `cost: static`: then what is not known
    is measured first. Whatever ends it, every process is ended and the machine is left as it was; a
    second Ctrl-C makes it hurry.

    Example: unis up examples/demo.yaml --policy cooperative
    """
    from unis.runtime.interrupts import interrupts
    from unis.runtime.launcher import Request, start_detached
    from unis.runtime.options import Options
    from unis.runtime.planning import look, plan_file
    from unis.runtime.supervisor import Job, supervise

    with errors_told():
        machine = look()
        plan = plan_file(file, name, machine)
        if wait and timeout is None:
            timeout = _WAIT_SECONDS
        if detach or wait:
            cpus = sorted(machine.cpus)
            request = Request(cpus, policy, controller, wait, timeout)
            raise typer.Exit(start_detached(plan, request, say))
        with interrupts() as switch:
            options = Options(policy=policy, controller=controller)
            supervise(plan, Job(options, say, switch, _show_live, timeout=timeout))


def _show_live(supervisor: Supervisor) -> None:
    try:
        _watch(supervisor)
    except InterruptedRunError:  # Ctrl-C is how it ends
        say("taking the chain down")


def _watch(supervisor: Supervisor) -> None:
    if voice.quiet:
        supervisor.wait()
    from rich.live import Live

    from unis.cli.view import Rates, live_view

    before = supervisor.run.client.stats()
    with Live(console=err, transient=True, auto_refresh=False) as live:

        def show(stats: pb.Stats) -> None:
            nonlocal before
            name, rates = supervisor.run.directory.name, Rates(before, stats)
            live.update(live_view(name, rates, live.console.width), refresh=True)
            before = stats

        supervisor.watch(show)


def down(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|FILE]", help="The run; not needed if there is one only."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every run.")] = False,
) -> None:
    """End a chain and leave the machine as it was.

    Also cleans up after a run whose launcher was killed, tries again what could not be undone, and
    forgets a run that failed. The logs are kept for a while: `unis logs`. Exit code 1 if something
    is left.

    Example: unis down --all
    """
    if everything and name is not None:
        raise typer.BadParameter(f"say {name} or --all, not both")
    found = runs(settled=True)
    if not everything:
        # The one that failed, if there is no other.
        only = len(found) == 1 and not name
        found = found if only else [choose(name)]
    problems: list[str] = []
    with errors_told():
        for run in found:
            problems += _down(*run)
    if problems:
        raise fail("\n".join(problems), code=1)


def _down(directory: RunDirectory, state: RunState) -> list[str]:
    if state.live() or state.comes_again():
        _ask_launcher(directory, state)
        left = directory.read()
        # Its launcher may have begun once more, under another id.
        if left is None or left.launcher != state.launcher:
            say(f"{state.name}: down")
            return []
        if left.problems:  # also those that nobody was there to hear
            return [f"{state.name}: {problem}" for problem in left.problems]
        state, done = left, "down"
    elif state.undone():
        done = "forgotten"
    else:
        why = "something of it is left" if state.problems else "its launcher was killed"
        say(f"{state.name}: {why}; cleaning up")
        done = "down"
    if problems := clean_up(directory, state.run_id) or forget(directory, state.run_id):
        return [f"{state.name}: {problem}" for problem in problems]
    say(f"{state.name}: {done}")
    return []


def _ask_launcher(directory: RunDirectory, state: RunState) -> None:
    def ask() -> list[ProcessId]:
        state.launcher.send(signal.SIGTERM)
        state.launcher.send(signal.SIGCONT)  # it may be stopped, by Ctrl-Z
        return wait_gone([state.launcher], _DOWN_SECONDS)

    try:
        try:
            # The log moves away with the run; a file that is open can still be read.
            with directory.event_log.open() as log:
                log.seek(0, 2)
                left = ask()
                for line in log:
                    say(f"{state.name}: {line.rstrip().partition(' ')[2]}")
        except FileNotFoundError:  # it is so young
            left = ask()
    except KeyboardInterrupt:
        told = f"interrupted; {state.name} goes down by itself: `unis ps` tells when it has"
        raise fail(told, EXIT_INTERRUPTED) from None
    if left:
        say(f"{state.name}: its launcher does not end; killing it")
        state.launcher.send(signal.SIGKILL)
        wait_gone([state.launcher], 1.0)


def restart(name: NameArgument = None) -> None:
    """Take a chain down and bring it up again from its file, in the background.

    What the file says now counts, and what the command line of `unis up` said.

    Example: unis restart demo
    """
    from unis.plan.machine import Machine
    from unis.runtime.claim import require_room
    from unis.runtime.launcher import Request, start_detached
    from unis.runtime.planning import plan_file

    machine = Machine.this()
    directory, state = choose(name)
    if state.attached:
        raise fail(f"the functions of `{state.name}` are attached: who started them restarts them")
    with errors_told():
        # No chain is ended for one that cannot run in its place.
        plan = plan_file(Path(state.chain_file), state.name, machine)
        require_room(plan, state)
        if problems := _down(directory, state):
            raise fail("\n".join(problems), code=1)
        request = Request(sorted(machine.cpus), state.policy, state.controller)
        raise typer.Exit(start_detached(plan, request, say))


def policy(
    policy_name: Annotated[
        str,
        typer.Argument(
            metavar="POLICY", callback=policy_argument, help=", ".join(names.policies())
        ),
    ],
    controller: ControllerOption = None,
    name: NameOption = None,
) -> None:
    """Change the policy, and with it the controller if one is named, of a running chain.

    It counts till the run is taken down, as if the command line of `unis up` had said it: also
    when another unisd takes over, and instead of what a file says that `unis apply` reads. Not for
    the runs of `unis bench` and `unis demo`, which set the policy themselves.

    Example: unis policy rr
    """
    from unis.runtime.requests import SupervisorClient
    from unis.v1 import engine_pb2 as pb

    directory, state = choose_running(name)
    request = pb.PolicyRequest(
        policy=names.policy(policy_name),
        controller=names.controller(controller) if controller else None,
    )
    with errors_told(), SupervisorClient(directory.requests(state.run_id)) as supervisor:
        supervisor.set_policy(request)
    say(
        f"{state.name}: policy {policy_name}" + (f", controller {controller}" if controller else "")
    )
