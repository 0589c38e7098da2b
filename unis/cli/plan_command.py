"""`unis plan`: promises onto servers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.options import JsonOption
from unis.cli.terminal import fail, out, print_line, say, table_of, warn, writable
from unis.errors import EXIT_FAILED
from unis.runtime.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unis.report.placement_rows import Row
    from unis.slo.cores import SharedPlacement
    from unis.slo.explain import PromiseExplanation
    from unis.slo.placement import Placement
    from unis.slo.profile import Workload

_SHOWN = 16  # kinds of machines
_PROMISES = 40  # rows of promises
_FOR_ALL = 0o644  # a plan is no secret
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def plan(
    file: Annotated[
        Path, typer.Argument(help="Workload file: servers, profiles and promises (docs/slo.md).")
    ],
    greedy: Annotated[
        bool,
        typer.Option("--greedy", help="Place promises one by one, first fit, as ResQ admits them."),
    ] = False,
    share: Annotated[
        bool,
        typer.Option(
            "--shared",
            help="Let functions share cores: each function gets the share that it needs.",
        ),
    ] = False,
    as_json: JsonOption = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write an HTML page that draws the servers.")
    ] = None,
) -> None:
    """Place promises of throughput and latency on as few servers as possible, and prove it.

    Every function gets a core and cache ways of its own. With --shared, functions that need less
    than a core take turns on one. Starts and changes nothing, and asks no server. Prints for each
    promise its minimum throughput and the fraction of its load that meets the latency; or why it
    cannot be kept, and what could be. An independent verifier checks the placement first. --report
    draws the servers.

    Example: unis plan examples/slo/paper-sensitive.yaml --report plan.html
    """
    from unis.slo.model import load
    from unis.slo.profile import only_ways_and_cores

    if share and greedy:
        raise typer.BadParameter("is for functions with a core each", param_hint="--greedy")
    workload = load(file)
    if any(server.machine for server in workload.servers):
        from unis.capacity.servers import with_nics

        workload = with_nics(workload, file)
    if share and (more := only_ways_and_cores(workload)):
        raise fail(f"{file}: --shared knows ways and cores only, and here {more}")
    if report is not None:
        writable(report)
    found = _shared(workload) if share else _alone(file, workload, greedy=greedy)
    refused = found.placement.refused
    summary = found.summary if found.rows else "nothing is placed"
    for refusal in refused:
        warn(f"refused: {refusal.why}")
    if as_json:
        out.print_json(data=asdict(found.placement))
    else:
        if found.kept:
            _print_promises(found.kept)
        if found.rows:
            _print_servers(found.rows)
        print_line(summary, "bold")
        for sentence in found.costs:
            print_line(sentence, "dim")
    if report is not None:
        from unis.report.plan import plan_page

        page = plan_page(
            workload.name, summary, found.rows, refused, found.kept, found.costs, shared=share
        )
        write_atomically(report, page, _FOR_ALL)
        say(f"written: {report}")
    if refused:
        raise typer.Exit(EXIT_FAILED)


@dataclass(frozen=True)
class _Found:
    """A placement, and what is printed of it."""

    placement: Placement | SharedPlacement
    summary: str
    rows: list[Row]
    kept: Sequence[PromiseExplanation] = ()
    costs: Iterable[str] = ()


def _see_that_it_holds(problems: Iterable[str]) -> None:
    if wrong := [*problems]:  # a fault of ours
        raise fail("the placement does not hold: " + "; ".join(wrong[:3]), EXIT_FAILED)


def _alone(file: Path, workload: Workload, *, greedy: bool) -> _Found:
    """The placement with a core for each function."""
    from unis.report.placement_rows import rows
    from unis.slo import verify
    from unis.slo.exact import exact
    from unis.slo.explain import costs, kept, summary
    from unis.slo.greedy import greedy as first_fit
    from unis.slo.placement import NoRoomError

    try:
        placement = first_fit(workload) if greedy else exact(workload)
    except NoRoomError as error:
        raise fail(f"{file}: {error}{_would_do(workload)}", EXIT_FAILED) from None
    _see_that_it_holds(verify.problems(workload, placement))
    return _Found(
        placement,
        summary(placement, "first fit" if greedy else "exact"),
        rows(workload, placement),
        kept(workload, placement),
        costs(workload, placement),
    )


def _shared(workload: Workload) -> _Found:
    """The placement with shared cores."""
    from unis.report.placement_rows import rows_of_shared
    from unis.slo.shared import shared
    from unis.slo.verify import shared_problems

    placement = shared(workload, report=say)
    _see_that_it_holds(shared_problems(workload, placement))
    count = len(placement.machines)
    if placement.bound is None:
        proof = "fewer servers may suffice, because this many promises are placed in groups"
    elif count == placement.bound:
        proof = "by its model no placement needs fewer"
    else:
        proof = f"by its model no placement needs fewer than {placement.bound}"
    return _Found(
        placement,
        f"{count} servers, shared cores, {placement.seconds:.2f} s: {proof}.",
        rows_of_shared(workload, placement),
    )


def _would_do(workload: Workload) -> str:
    """How many servers would, if there were as many of each kind as one likes."""
    from unis.slo.exact import exact
    from unis.slo.placement import NoRoomError
    from unis.slo.splits import MOST_INSTANCES

    many = sum(slo.count for slo in workload.slos) * MOST_INSTANCES
    servers = tuple(replace(server, count=many) for server in workload.servers)
    try:
        found = exact(replace(workload, servers=servers), gap=0.01)
    except NoRoomError:
        return ""
    there = sum(server.count for server in workload.servers)
    refused = "".join(f"; refused on any number of servers: {each.why}" for each in found.refused)
    others = " for the others" if refused else ""
    return f"{refused}; {len(found.machines):,} would do{others}, and there are {there:,}"


def _print_promises(every: Sequence[PromiseExplanation]) -> None:
    columns = ("count", "Mpps", "gets", "p95, µs", "load")
    table = table_of("", "promise", columns, ("split into instances of so many ways",))
    for promise in every[:_PROMISES]:
        splits = ", ".join(
            f"{count} × {'+'.join(map(str, split))}" for split, count in promise.splits.items()
        )
        table.add_row(
            promise.slo.name, str(promise.slo.count),
            f"{promise.slo.mpps:.3g}", f"{promise.mpps:.3g}",
            f"{promise.slo.p95_us:g}", f"{promise.load:.0%}", splits,
        )  # fmt: skip
    out.print(table)
    if len(every) > _PROMISES:
        print_line(f"and {len(every) - _PROMISES:,} more promises (--json has all)")


def _print_servers(every: list[Row]) -> None:
    """A row for those on which the same lies, a letter for each way; where there are more kinds
    than one looks at, of any function.
    """
    from unis.report.placement_rows import by_ways, functions_of

    kinds = by_ways(every) if len(every) > _SHOWN else every
    names = functions_of(kinds)
    letters = {name: _LETTERS[at % len(_LETTERS)] for at, name in enumerate(names)}
    loads = any(used.load is not None for row in kinds for used in row.used)
    words = ["ways of the cache, a letter each", *(["% of each core"] if loads else [])]
    table = table_of("", "servers", ("count", "cores"), words)
    for row in kinds[:_SHOWN]:
        cells = [row.server, f"{row.count:,}", f"{len(row.used)} of {row.cores}"]
        full = " ".join(f"{100 * (used.load or 0):.0f}" for used in row.used)
        table.add_row(*cells, _ways(row, letters), *([full] if loads else []))
    out.print(table)
    if rest := kinds[_SHOWN:]:
        servers = sum(row.count for row in rest)
        print_line(f"servers of other kinds: {servers:,} of {len(rest):,}")
    print_line(", ".join(f"{letters[name]} {name}" for name in names), "dim")


def _ways(row: Row, letters: Mapping[str, str]) -> str:
    classes = ["".join(letters[name] * ways for name, ways in block.ways) for block in row.blocks]
    return "│".join([*classes, "·" * row.free_ways] if row.free_ways else classes)
