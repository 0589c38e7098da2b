"""`unis up`, `down`, `restart` and `policy`: the life of a chain."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.options import (
    ChainFileArgument,
    NameArgument,
    NameOption,
    RunNameOption,
    between,
    one_of,
    policy_option,
)
from unis.cli.select import choose, choose_running, one_name, runs
from unis.cli.terminal import err, fail, say, voice
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


_POLICIES, _CONTROLLERS = names.policies(), names.controllers()
PolicyOption = Annotated[str | None, policy_option("", "as the file says")]
ControllerOption = Annotated[
    str | None,
    typer.Option(
        "--controller",
        callback=one_of("controller", _CONTROLLERS),
        help=f"How UNiS switches functions: {', '.join(_CONTROLLERS)}.",
    ),
]


def up(
    file: ChainFileArgument,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run in the background.")] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Run in the background. Return as soon as every chain delivers packets."
        ),
    ] = False,
    timeout: Annotated[
        float | None,
        between(
            0.1,
            _MOST_SECONDS,
            "Give up after this many seconds if a chain does not deliver. Default with --wait: 60.",
        ),
    ] = None,
    policy: PolicyOption = None,
    controller: ControllerOption = None,
    name: RunNameOption = None,
) -> None:
    """Run the chains of FILE until Ctrl-C.

    Starts the engine and the functions, then traffic and scheduler. The scheduler measures the cost
    of a packet while functions run. With `cost: static` in FILE, UNiS measures unknown costs first.
    However the run ends, UNiS ends every process and leaves the machine as it was. A second Ctrl-C
    makes it hurry. With `mode: profile` in FILE, measures where the time of a packet goes, as `unis
    profile chain`, and ends.

    Example: unis up examples/demo.yaml --policy cooperative
    """
    from unis.chain.load import load
    from unis.cli.profile_chain_command import profile_as_stated
    from unis.runtime.interrupts import interrupts
    from unis.runtime.launcher import start_detached
    from unis.runtime.planning import look, plan_chain
    from unis.runtime.run import Options
    from unis.runtime.supervisor import Job, supervise

    chain = load(file, name)
    if chain.file.mode == "profile":
        if detach or wait or timeout or policy or controller or name:
            raise fail(
                f"{file}: `mode: profile` takes no options of `unis up`; set them below `profile` "
                "in the file, or use `unis profile chain`"
            )
        profile_as_stated(chain)
        return
    machine = look()
    plan = plan_chain(chain, machine)
    options = Options(policy=policy, controller=controller)
    if wait and timeout is None:
        timeout = _WAIT_SECONDS
    if detach or wait:
        code = start_detached(plan, machine.cpus, options, say, wait=wait, timeout=timeout)
        raise typer.Exit(code)
    with interrupts() as switch:
        supervise(plan, Job(options, say, switch, _show_live, timeout=timeout))


def _show_live(supervisor: Supervisor) -> None:
    try:
        _watch(supervisor)
    except InterruptedRunError:  # Ctrl-C is how it ends
        say("stopping the run")


def _watch(supervisor: Supervisor) -> None:
    if voice.quiet:
        supervisor.wait()
    from rich.live import Live

    from unis.cli.view import Rates, live_view

    if err.is_terminal:
        say("Ctrl-C ends it")
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
        typer.Argument(
            metavar="[NAME|FILE]", help="Name of the run. Not needed while only one run is up."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Stop every run.")] = False,
) -> None:
    """Stop a run and leave the machine as it was.

    Also cleans up after a run whose launcher was killed, tries again what could not be undone, and
    removes a failed run from `unis ps`. `unis logs` keeps the logs for a while. Exit code 1 if
    something could not be undone.

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
        say(f"{state.name}: its launcher does not stop; killing it")
        state.launcher.send(signal.SIGKILL)
        wait_gone([state.launcher], 1.0)


def restart(name: NameArgument = None) -> None:
    """Restart a run from its chain file, in the background.

    Reads the file again. Options of `unis up` still apply.

    Example: unis restart demo
    """
    from unis.chain.load import load
    from unis.plan.machine import Machine
    from unis.runtime.claim import require_room
    from unis.runtime.launcher import start_detached
    from unis.runtime.planning import plan_chain
    from unis.runtime.run import Options

    machine = Machine.this()
    directory, state = choose(name)
    if state.attached:
        raise fail(
            f"the functions of `{state.name}` are attached; restart them where they were started"
        )
    # No chain is ended for one that cannot run in its place.
    variables = {**state.variables, **os.environ}
    plan = plan_chain(load(Path(state.chain_file), state.name, variables), machine)
    require_room(plan, state)
    if problems := _down(directory, state):
        raise fail("\n".join(problems), code=1)
    options = Options(policy=state.policy, controller=state.controller)
    raise typer.Exit(start_detached(plan, machine.cpus, options, say))


def policy(
    policy_name: Annotated[
        str,
        typer.Argument(
            metavar="POLICY",
            callback=one_of("policy", _POLICIES, "; usage: unis policy POLICY [NAME]"),
            help=", ".join(_POLICIES),
        ),
    ],
    run: NameArgument = None,
    controller: ControllerOption = None,
    name: NameOption = None,
) -> None:
    """Change the scheduling policy of a run, and the controller if you name one.

    The change holds until the run is down, like an option of `unis up`: also after a restart of
    unisd, and over the file that `unis apply` reads. Not for runs of `unis bench` and `unis demo`,
    which set the policy themselves.

    Example: unis policy rr mine
    """
    from unis.runtime.requests import SupervisorClient
    from unis.v1 import engine_pb2 as pb

    directory, state = choose_running(one_name(run, name))
    request = pb.PolicyRequest(
        policy=names.policy(policy_name),
        controller=names.controller(controller) if controller else None,
    )
    with SupervisorClient(directory.requests(state.run_id)) as supervisor:
        supervisor.set_policy(request)
    say(
        f"{state.name}: policy {policy_name}" + (f", controller {controller}" if controller else "")
    )
