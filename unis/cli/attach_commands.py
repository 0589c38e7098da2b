"""`unis attach` and `detach`: functions that somebody else started."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.options import NameOption, between, policy_option
from unis.cli.select import choose
from unis.cli.terminal import fail, say
from unis.engine.limits import limit
from unis.runtime.directory import RunDirectory, keep_off_functions, run_directory
from unis.runtime.process import wait_gone
from unis.runtime.state import Phase

if TYPE_CHECKING:
    from unis.runtime.state import RunState

_NAME = "attached"
_ONLINE = Path("/sys/devices/system/cpu/online")
_NAME_BYTES = int(limit("FunctionConfig.name").max_bytes or 0)
_END_SECONDS = 10.0  # for a run whose last function is detached
_PID = typer.Option(min=2, help="Process ID of the function.", show_default=False)


def _ends(values: list[str] | None) -> list[str]:
    from unis.runtime.attached import END, END_FORM

    for value in values or []:
        if not END.fullmatch(value):
            raise typer.BadParameter(f"invalid link {value!r}; expected {END_FORM}")
    return values or []


def attach(
    pid: Annotated[int, _PID],
    cpu: Annotated[
        int, typer.Option(min=0, help="CPU that its polling threads run on.", show_default=False)
    ],
    ingress: Annotated[
        list[str] | None,
        typer.Option(
            callback=_ends,
            metavar="LINK",
            help="Link that it receives from: the name of an interface on which it has packet or "
            "AF_XDP sockets, memif:NUMBER or ring:NAME. Memifs of the process count from 0 in the "
            "order of its open files. If UNiS cannot detect the role, add :server or :client and "
            "the number of receive and send queues, as in memif:0:server:2,2. Without --ingress "
            "and --egress: both ways between the two interfaces or memifs that it has.",
            show_default=False,
        ),
    ] = None,
    egress: Annotated[
        list[str] | None,
        typer.Option(
            callback=_ends,
            metavar="LINK",
            help="Where it sends packets: one for each --ingress.",
            show_default=False,
        ),
    ] = None,
    function: Annotated[
        str | None, typer.Option("--as", help="Name of the function. Default: program and PID.")
    ] = None,
    cost_ns: Annotated[
        float | None,
        between(
            0.1,
            1e9,
            "What a packet costs it. Without it the scheduler assumes a cost, and follows the real "
            "one; that of a program with several polling threads it does not follow: state it.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="EAL --file-prefix of the DPDK group of its rings, if UNiS cannot detect it."
        ),
    ] = None,
    policy: Annotated[str | None, policy_option(" of a new run", "unis")] = None,
    name: Annotated[
        str, typer.Option(help="Run to add the function to. UNiS starts the run if it is not up.")
    ] = _NAME,
) -> None:
    """Schedule a function that UNiS did not start.

    Finds the threads of the function that poll, moves them to --cpu, and schedules them by the
    packets in their links, together with the other functions of the run. UNiS does not own the
    function, its links or its packets: if unisd dies, the function goes on under the kernel, until
    the next unisd starts and adopts it. `unis detach`, `unis down` and the end of the last function
    put everything back as it was. For a program that forwards both ways, repeat --ingress and
    --egress for the way back.

    Example: unis attach --pid 4711 --ingress memif:0 --egress memif:1 --cpu 1
    """
    from unis.plan.cpus import parse_cpu_list
    from unis.plan.machine import Machine
    from unis.runtime.attached import run_attached
    from unis.runtime.launcher import start_launcher
    from unis.runtime.requests import SupervisorClient
    from unis.v1 import supervisor_pb2 as pb

    # Not only those of this process, which may keep off the CPUs of functions already.
    online = _ONLINE.read_text().strip()
    if cpu not in parse_cpu_list(online):
        raise fail(f"CPU {cpu} does not exist here: give --cpu one of {online}")
    machine = Machine.this()  # before we keep off the CPUs of functions
    ways = _ways(pid, ingress or [], egress or [])
    keep_off_functions()
    request = pb.AttachProcessRequest(
        name=function or _called(pid),
        pid=pid,
        cpu=cpu,
        paths=[pb.AttachedPath(ingress=i, egress=e) for i, e in ways],
        cost_ns=cost_ns,
        group=group or "",
    )
    if sentence := _problem(name, request.name):
        raise typer.BadParameter(sentence)
    directory = run_directory(name)
    state = directory.read()
    if state is None or not state.live():
        cpus = sorted(machine.cpus)
        run = partial(run_attached, name, request, policy or "unis", cpus)
        raise typer.Exit(start_launcher(run, say))
    _require_attached(state)
    if state.phase == Phase.STOPPING:
        raise fail(f"`{name}` is stopping; try again when `unis ps` no longer shows it", code=1)
    if policy:
        raise fail(f"`{name}` is already running: `unis policy` changes its policy")
    with SupervisorClient(directory.requests(state.run_id)) as supervisor:
        supervisor.attach(request)
    say(f"{request.name} (pid {pid}) is attached on CPU {cpu}")


def _ways(pid: int, ingress: list[str], egress: list[str]) -> list[tuple[str, str]]:
    """The ways through it: those that are stated, or else found."""
    from unis.runtime.attached import ports_of

    if len(ingress) != len(egress):
        raise typer.BadParameter(
            f"{len(ingress)} --ingress and {len(egress)} --egress: each way through it has both"
        )
    if ingress:
        return list(zip(ingress, egress, strict=True))
    ports = ports_of(pid)
    if len(ports) not in (1, 2):
        if ports:
            has = f"has {', '.join(ports)}: state its ways by --ingress and --egress"
        else:
            has = (
                "has no packet or AF_XDP socket and no memif: wait till it has opened its ports, "
                "or name its rings by --ingress ring:NAME --egress ring:NAME"
            )
        raise fail(f"process {pid} {has}")
    say(f"found {' and '.join(ports)}: attaching {'both ways' if ports[1:] else 'its one port'}")
    return list(dict.fromkeys([(ports[0], ports[-1]), (ports[-1], ports[0])]))


def _called(pid: int) -> str:
    try:
        program = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        raise fail(f"there is no process {pid}") from None
    return f"{re.sub('[^a-zA-Z0-9]+', '-', program).strip('-') or 'function'}-{pid}"[:_NAME_BYTES]


def _problem(run: str, function: str) -> str:
    for what, name in (("run", run), ("function", function)):
        if not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_-]*", name) or len(name) > _NAME_BYTES:
            return f"invalid {what} {name!r}; expected up to {_NAME_BYTES} letters, digits, - and _"
    return ""


def _require_attached(state: RunState) -> None:
    if not state.attached:
        raise fail(
            f"`{state.name}` started its functions itself; attach others to another run with --name"
        )


def detach(
    function: Annotated[
        str | None, typer.Argument(help="Name of the function in `unis ps`.", show_default=False)
    ] = None,
    pid: Annotated[int | None, _PID] = None,
    name: NameOption = None,
) -> None:
    """Give back an attached function as it was: scheduling class, priority, nice value and CPUs.

    The function goes on under the kernel's scheduler. The run ends with its last function.

    Example: unis detach --pid 4711
    """
    from unis.runtime.requests import SupervisorClient

    if (function is None) == (pid is None):
        raise typer.BadParameter("name a function, or give --pid")
    directory, state = choose(name or _run_of(function, pid))
    _require_attached(state)
    called = function or _name_of(state, pid)
    with SupervisorClient(directory.requests(state.run_id)) as supervisor:
        left = supervisor.detach(called)
    say(f"{called} is detached")
    if not left:
        _wait_for_end(directory, state)


def _run_of(function: str | None, pid: int | None) -> str | None:
    """The run that has it, where it is not said."""
    from unis.runtime.directory import all_runs

    for _, state in all_runs():
        if state.attached and any(
            attached.name == function or attached.process.pid == pid for attached in state.functions
        ):
            return state.name
    return None


def _name_of(state: RunState, pid: int | None) -> str:
    for attached in state.functions:
        if attached.process.pid == pid:
            return attached.name
    raise fail(f"process {pid} is not attached to `{state.name}`")


def _wait_for_end(directory: RunDirectory, state: RunState) -> None:
    wait_gone([state.launcher], _END_SECONDS)
    left = directory.read()
    if left is not None and left.run_id == state.run_id and left.problems:
        raise fail("\n".join(left.problems), code=1)
    say(f"{state.name}: down")
