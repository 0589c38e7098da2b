"""`unis admit` and `unis cluster`: promises asked of a cluster, and how they are packed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unis.cli.cluster_files import (
    BookOption,
    FileArgument,
    demand_data,
    opened_cluster,
    told,
    where_data,
)
from unis.cli.options import JsonOption
from unis.cli.terminal import fail, out, print_line, table_of, warn
from unis.errors import EXIT_FAILED

if TYPE_CHECKING:
    from unis.slo.cluster import Cluster, LatencyRequest, OnDemandPromise
    from unis.slo.online import Admitted
    from unis.slo.placement import Refusal
    from unis.slo.profile import Slo
    from unis.slo.repack import Repack

_SHOWN = 20  # promises that are told one by one
_LATEST = 1e11  # seconds since 1970


def admit(
    cluster: FileArgument,
    request: Annotated[
        Path, typer.Argument(help="Chain file with `slo`, or workload file with `slos`.")
    ],
    book: BookOption = None,
    as_json: JsonOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Answer, but do not record a promise.")
    ] = False,
) -> None:
    """Ask a cluster for promises. Prints for each promise where it is placed, or why it is refused.

    A refusal names the nearest promise that could be kept. Running instances stay where they are;
    ways of some instances may move, and the output says which. A new instance goes where it costs
    the least room for others, so that a cluster that fills up needs nearly the fewest servers. UNiS
    asks no server: CLUSTER's book keeps the promises. `unis cluster` shows, releases and repacks
    them. Exit code 1 if a promise was refused.

    Example: unis admit examples/slo/cluster.yaml examples/slo/edge.yaml
    """
    from unis.slo.cluster import requests
    from unis.slo.placement import Refusal

    with opened_cluster(cluster, book, kept=not dry_run) as opened:
        answers: list[tuple[Admitted | OnDemandPromise | Refusal, float]] = []  # ms that each took
        for promise in requests(request, opened.profiles):
            began = time.perf_counter()
            answer = _asked(opened, promise)
            answers.append((answer, (time.perf_counter() - began) * 1000))
            if opened.online.due:
                opened.online.learn()
        machines = len(opened.online.machines)
    if as_json:
        out.print_json(
            data=[{**_as_data(answer), "milliseconds": round(ms, 3)} for answer, ms in answers]
        )
    else:
        for answer, _ in answers[:_SHOWN]:
            _print_answer(answer)
        if len(answers) > _SHOWN:
            print_line(f"and {len(answers) - _SHOWN} more (--json has all)")
    refused = [answer for answer, _ in answers if isinstance(answer, Refusal)]
    if not as_json:
        slowest = max(ms for _, ms in answers)
        print_line(
            f"{len(answers) - len(refused)} admitted, {len(refused)} refused; {machines} servers "
            f"have reserved promises; the slowest answer took {slowest:.1f} ms"
            f"{'; nothing was promised (--dry-run)' if dry_run else ''}.",
            "bold",
        )
    if refused:
        raise typer.Exit(EXIT_FAILED)


def _asked(cluster: Cluster, request: Slo | LatencyRequest) -> Admitted | OnDemandPromise | Refusal:
    from unis.slo.cluster import LatencyRequest

    if isinstance(request, LatencyRequest):
        return cluster.demand(request.name, request.function, request.p95_us)
    return cluster.reserve(request)


def _as_data(answer: Admitted | OnDemandPromise | Refusal) -> dict[str, Any]:
    from unis.slo.online import Admitted
    from unis.slo.placement import Refusal

    if isinstance(answer, Refusal):
        return {
            "admitted": False, "promise": answer.slo, "why": answer.why, "tried": answer.tried,
        }  # fmt: skip
    if not isinstance(answer, Admitted):
        return {"admitted": True, **demand_data(answer)}
    return {
        "admitted": True,
        "promise": answer.slo,
        "kind": "reserved",
        "where": [where_data(where) for where in answer.where],
        "shifted": [
            {"promise": where.instance.slo, **where_data(where)} for where in answer.shifted
        ],
    }


def _print_answer(answer: Admitted | OnDemandPromise | Refusal) -> None:
    from unis.slo.online import Admitted
    from unis.slo.placement import Refusal

    if isinstance(answer, Refusal):
        warn(f"refused: {answer.why}")
    elif isinstance(answer, Admitted):
        print_line(f"{answer.slo}: admitted: {'; '.join(map(told, answer.where))}")
        for other in answer.shifted:
            line = f"  its ways are shifted for it: {other.instance.slo} on {told(other)}"
            print_line(line, "dim")
    else:
        print_line(
            f"{answer.name}: admitted on demand: {answer.server} {answer.number}, a core of those "
            "that it leases to its agent"
        )


cluster = typer.Typer(
    no_args_is_help=True,
    help="What is promised in a cluster (`unis admit`): show it, release it, pack it again.",
)


@cluster.command()
def show(
    file: FileArgument,
    book: BookOption = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help=f"List every promise. Default: {_SHOWN} of each kind (--json lists all)."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what is promised, on which servers, with which ways.

    If a profile in CLUSTER has changed, names the promises that no longer hold. Exit code 1 then.

    Example: unis cluster show examples/slo/cluster.yaml --all
    """
    with opened_cluster(file, book, kept=False) as opened:
        wrong = [*opened.problems()]
        if as_json:
            out.print_json(data=_promises(opened, wrong))
        else:
            _print_promises(opened, None if everything else _SHOWN)
    if not as_json:
        for sentence in wrong:
            warn(f"not kept: {sentence}")
    if wrong:
        raise typer.Exit(EXIT_FAILED)


def _promises(opened: Cluster, wrong: list[str]) -> dict[str, Any]:
    return {
        "reserved": [
            {
                "promise": slo.name, "kind": "reserved", "function": slo.profile.name,
                "mpps": slo.mpps, "p95_us": slo.p95_us,
                "where": [where_data(where) for where in opened.online.where(slo.name)],
            }
            for slo in opened.online.slos
        ],
        "on_demand": [demand_data(promise) for promise in opened.on_demand.values()],
        "servers": len(opened.online.machines),
        "not_kept": wrong,
    }  # fmt: skip


def _print_promises(opened: Cluster, most: int | None) -> None:
    table = table_of("", "promise", ("Mpps", "p95, µs"), ("function", "where"))
    reserved, on_demand = opened.online.slos, [*opened.on_demand.values()]
    for slo in reserved[:most]:
        where = "; ".join(map(told, opened.online.where(slo.name)))
        table.add_row(slo.name, f"{slo.mpps:.3g}", f"{slo.p95_us:g}", slo.profile.name, where)
    for demand in on_demand[:most]:
        where = f"{demand.server} {demand.number}, on demand"
        table.add_row(demand.name, "", f"{demand.p95_us:g}", demand.function, where)
    out.print(table)
    if left := sum(len(each[most:]) for each in (reserved, on_demand)) if most else 0:
        print_line(f"and {left} more (--all)")
    print_line(
        f"{len(reserved)} reserved promises on {len(opened.online.machines)} servers, "
        f"{len(on_demand)} on demand.",
        "bold",
    )


@cluster.command()
def release(
    file: FileArgument,
    names: Annotated[
        list[str], typer.Argument(help="Names of promises, as `unis cluster show` prints them.")
    ],
    book: BookOption = None,
) -> None:
    """Release promises. Their servers have room for others.

    Example: unis cluster release examples/slo/cluster.yaml edge.vpn
    """
    with opened_cluster(file, book, but=names) as opened:
        opened.online.learn()
    print_line(f"released: {', '.join(names)}")


@cluster.command("heed", hidden=True)  # its name of before
@cluster.command()
def reconcile(
    file: FileArgument,
    report: Annotated[
        Path, typer.Argument(help="Events from agents: the file of `unis agent --report`.")
    ],
    book: BookOption = None,
) -> None:
    """Place the further instances that agents ask for, of promises on demand.

    Of the events of one server about one promise only the last counts: a promise that is kept again
    needs no further instance. Each instance goes to another server that has a free core leased on
    demand. A request that was met is not met again. Exit code 1 if there is no room for one.

    Example: unis cluster reconcile examples/slo/cluster.yaml report.jsonl
    """
    from unis.slo.placement import Refusal

    with opened_cluster(file, book) as opened:
        asked = [
            event
            for event in _last(_events(report))
            if event.kind == "more-instances" and event.time > opened.reconciled.get(event.key, 0.0)
        ]
        given = []
        for event in asked:
            given.append(opened.another(event.promise))
            if not isinstance(given[-1], Refusal):  # what was refused is tried again
                opened.reconciled[event.key] = event.time
    for answer in given:
        if isinstance(answer, Refusal):
            warn(f"refused: {answer.why}")
        else:
            print_line(f"{answer.name}: on {answer.server} {answer.number}")
    if not given:
        print_line("No agent asks for another instance.")
    if any(isinstance(answer, Refusal) for answer in given):
        raise typer.Exit(EXIT_FAILED)


@dataclass(frozen=True)
class _LoggedEvent:
    time: float
    kind: str
    promise: str
    server: str

    @property
    def key(self) -> str:
        """Who asks for what."""
        return f"{self.server} {self.promise}"


def _last(events: list[_LoggedEvent]) -> list[_LoggedEvent]:
    """The last event of each server and promise that asks for an instance, or needs none."""
    last: dict[str, _LoggedEvent] = {}
    for event in sorted(events, key=lambda event: event.time):
        if event.kind in ("more-instances", "kept"):
            last[event.key] = event
    return [*last.values()]


def _events(report: Path) -> list[_LoggedEvent]:
    from pydantic import TypeAdapter

    event = TypeAdapter(_LoggedEvent)
    try:
        lines = report.read_text().splitlines()
    except OSError as error:
        raise fail(f"cannot read {report}: {error.strerror}") from None
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(event.validate_json(line))
        except ValueError:
            raise fail(f"{report}:{number} is not a line of an agent's report") from None
        if not 0 < found[-1].time < _LATEST:
            raise fail(f"{report}:{number} has an invalid time")
    return found


@cluster.command()
def repack(
    file: FileArgument,
    book: BookOption = None,
    threshold: Annotated[
        float,
        typer.Option(
            min=0,
            max=100,
            help="Repack only if at least this percentage of the servers in use becomes free.",
        ),
    ] = 5.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would change. Change nothing.")
    ] = False,
) -> None:
    """Move running instances if that frees servers, with as few moves as possible.

    Compares two plans: one moves the instances of the least used servers to the rest of the other
    servers; the other is the exact placement, matched with what runs so that most instances stay.
    Records the cheaper plan that frees enough in the book. Whoever runs the functions must move
    them.

    Example: unis cluster repack examples/slo/cluster.yaml --threshold 10
    """
    from unis.slo.repack import choose, packed

    with opened_cluster(file, book, kept=not dry_run) as opened:
        choice = choose(opened.online, threshold / 100)
        if choice.taken:
            opened.online = packed(opened.online, choice.taken)
    for way in choice.ways:
        print_line(
            f"{_HOW[way.how]}: {way.before} → {len(way.after)} servers, {len(way.moves)} moves"
            f"{' (taken)' if way is choice.taken else ''}"
        )
    if choice.taken is None:
        print_line(
            f"Nothing is moved: neither frees {threshold:g} % of the servers; none can do with "
            f"fewer than {choice.bound}.",
            "bold",
        )
        return
    _print_moves(choice.taken)
    done = "would be free" if dry_run else "are free"
    print_line(f"{choice.taken.freed} servers {done} then.", "bold")


_HOW = {"emptied": "emptying some", "exact": "the exact plan"}


def _print_moves(taken: Repack) -> None:
    for move in taken.moves[:_SHOWN]:
        origin = f"{move.origin[0]} {move.origin[1]}" if move.origin else "nowhere: it is begun"
        to = f"{move.to[0]} {move.to[1]}" if move.to else "nowhere: it is ended"
        print_line(f"  {move.slo} ({move.ways} ways): {origin} → {to}")
    if len(taken.moves) > _SHOWN:
        print_line(f"  and {len(taken.moves) - _SHOWN} more")
