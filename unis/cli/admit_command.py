"""`unis admit`: promises asked of a cluster, one by one."""

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
from unis.cli.select import JsonOption
from unis.cli.terminal import out, print_line, warn
from unis.errors import EXIT_FAILED

if TYPE_CHECKING:
    from unis.slo.cluster import Cluster, OnDemand
    from unis.slo.online import Admitted
    from unis.slo.placement import Refusal
    from unis.slo.profile import Slo
    from unis.slo.request import LatencyRequest

_SHOWN = 20  # promises that are told one by one
_MS = 1000


@dataclass(frozen=True)
class _Answer:
    to: Admitted | OnDemand | Refusal
    ms: float


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
    from unis.slo.placement import Refusal
    from unis.slo.request import requests

    with opened_cluster(cluster, book, kept=not dry_run) as opened:
        answers = []
        for promise in requests(request, opened.profiles):
            began = time.perf_counter()
            to = _asked(opened, promise)
            answers.append(_Answer(to, (time.perf_counter() - began) * _MS))
            if opened.online.due:
                opened.online.learn()
        machines = len(opened.online.machines)
    if as_json:
        out.print_json(data=[_as_data(answer) for answer in answers])
    else:
        for answer in answers[:_SHOWN]:
            _print(answer)
        if len(answers) > _SHOWN:
            print_line(f"and {len(answers) - _SHOWN} more (--json has all)")
    refused = [answer for answer in answers if isinstance(answer.to, Refusal)]
    slowest = max(answer.ms for answer in answers)
    if not as_json:
        print_line(
            f"{len(answers) - len(refused)} admitted, {len(refused)} refused; {machines} servers "
            f"have reserved promises; the slowest answer took {slowest:.1f} ms"
            f"{'; nothing was promised (--dry-run)' if dry_run else ''}.",
            "bold",
        )
    if refused:
        raise typer.Exit(EXIT_FAILED)


def _asked(cluster: Cluster, request: Slo | LatencyRequest) -> Admitted | OnDemand | Refusal:
    from unis.slo.request import LatencyRequest

    if isinstance(request, LatencyRequest):
        return cluster.demand(request.name, request.function, request.p95_us)
    return cluster.reserve(request)


def _as_data(answer: _Answer) -> dict[str, Any]:
    from unis.slo.online import Admitted
    from unis.slo.placement import Refusal

    result = answer.to
    data: dict[str, Any] = {"admitted": not isinstance(result, Refusal)}
    if isinstance(result, Refusal):
        data |= {"promise": result.slo, "why": result.why, "tried": result.tried}
    elif isinstance(result, Admitted):
        data |= {
            "promise": result.slo,
            "kind": "reserved",
            "where": [where_data(where) for where in result.where],
            "shifted": [
                {"promise": where.instance.slo, **where_data(where)} for where in result.shifted
            ],
        }
    else:
        data |= demand_data(result)
    return {**data, "milliseconds": round(answer.ms, 3)}


def _print(answer: _Answer) -> None:
    from unis.slo.online import Admitted
    from unis.slo.placement import Refusal

    result = answer.to
    if isinstance(result, Refusal):
        warn(f"refused: {result.why}")
    elif isinstance(result, Admitted):
        where = "; ".join(map(told, result.where))
        print_line(f"{result.slo}: admitted: {where}")
        for other in result.shifted:
            line = f"  its ways are shifted for it: {other.instance.slo} on {told(other)}"
            print_line(line, "dim")
    else:
        print_line(
            f"{result.name}: admitted on demand: {result.server} {result.number}, a core of those "
            "that it leases to its agent"
        )
