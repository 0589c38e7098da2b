"""`unis plan`: promises onto servers."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.bench_parts import table_of
from unis.cli.terminal import err, errors_told, fail, out
from unis.errors import EXIT_FAILED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from unis.slo.explain import Alike
    from unis.slo.placement import Placement, Refusal
    from unis.slo.profile import Workload

_SHOWN = 12  # kinds of machines
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def plan(
    file: Annotated[Path, typer.Argument(help="Servers, profiles and promises: docs/slo.md.")],
    greedy: Annotated[
        bool, typer.Option("--greedy", help="As ResQ admits promises one by one: first fit.")
    ] = False,
    share: Annotated[
        bool, typer.Option("--shared", help="Functions share cores: each takes the part it needs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The placement, for programs.")] = False,
) -> None:
    """Place promises of throughput and latency on the fewest servers, and prove it.

    Every function has a core and cache ways of its own; with --shared, for promises that need less
    than a core, those of a core pass it on in turn. Nothing is started or changed, and no server is
    asked. Says how each promise is kept: what it gets at least, and with which part of its load it
    is in time; and which cannot be, with what could. A placement is checked by arithmetic of its
    own before it is shown.

    Example: unis plan examples/slo/paper-sensitive.yaml
    """
    from unis.slo import exact, verify
    from unis.slo.explain import alike, summary
    from unis.slo.greedy import greedy as first_fit
    from unis.slo.model import load

    if share and greedy:
        raise typer.BadParameter("is for functions with a core each", param_hint="--greedy")
    with errors_told():
        workload = load(file)
    if share:
        _shared(workload, as_json=as_json)
        return
    try:
        placement = first_fit(workload) if greedy else exact.exact(workload)
    except exact.NoRoomError as error:
        raise fail(f"{file}: {error}", EXIT_FAILED) from None
    _see_that_it_holds(verify.problems(workload, placement))
    if as_json:
        out.print_json(json.dumps(asdict(placement)))
    else:
        _print(workload, placement)
        _print_machines(workload, alike(placement.machines))
        out.print(
            summary(placement, "first fit" if greedy else "exact"), markup=False, style="bold"
        )
    _tell_refused(placement.refused)


def _see_that_it_holds(problems: Iterable[str]) -> None:
    if wrong := [*problems]:  # a fault of ours
        raise fail("the placement does not hold: " + "; ".join(wrong[:3]), EXIT_FAILED)


def _tell_refused(refused: Sequence[Refusal]) -> None:
    for refusal in refused:
        err.print(f"refused: {refusal.why}", markup=False, style="red", soft_wrap=True)
    if refused:
        raise typer.Exit(EXIT_FAILED)


def _print(workload: Workload, placement: Placement) -> None:
    from unis.slo.explain import kept

    table = table_of("", "promise", ("count", "Mpps", "gets", "p95, µs", "load"))
    table.add_column("split into instances of so many ways")
    for of in kept(workload, placement):
        splits = ", ".join(
            f"{count} × {'+'.join(map(str, split))}" for split, count in of.splits.items()
        )
        table.add_row(
            of.slo.name, str(of.slo.count), f"{of.slo.mpps:.3g}", f"{of.mpps:.3g}",
            f"{of.slo.p95_us:g}", f"{of.load:.0%}", splits,
        )  # fmt: skip
    out.print(table)


def _print_machines(workload: Workload, kinds: list[Alike]) -> None:
    """A letter for each way."""
    names = list(dict.fromkeys(slo.name for slo in workload.slos))
    letters = {name: _LETTERS[at % len(_LETTERS)] for at, name in enumerate(names)}
    servers = {server.name: server for server in workload.servers}
    table = table_of("", "servers", ("count", "cores"))
    table.add_column("ways of the cache, a letter each")
    for of in kinds[:_SHOWN]:
        ways = "│".join(letters[name] * count for name, count in of.instances)
        free = servers[of.server].ways - sum(count for _, count in of.instances)
        cores = f"{len(of.instances)} of {servers[of.server].cores}"
        table.add_row(of.server, str(of.count), cores, ways + ("│" + "·" * free if free else ""))
    out.print(table)
    if len(kinds) > _SHOWN:
        more = sum(of.count for of in kinds[_SHOWN:])
        out.print(f"and {more} servers of {len(kinds) - _SHOWN} more kinds", markup=False)
    out.print(", ".join(f"{letters[name]} {name}" for name in names), markup=False, style="dim")


def _shared(workload: Workload, *, as_json: bool) -> None:
    from unis.slo.shared import shared
    from unis.slo.verify import shared_problems

    with errors_told():
        placement = shared(workload)
    _see_that_it_holds(shared_problems(workload, placement))
    count = len(placement.machines)
    if as_json:
        out.print_json(json.dumps(asdict(placement)))
    else:
        table = table_of("", "server", ("cores", "ways", "load"))
        table.add_column("functions of each core, in turn (ways)")
        for number, machine in enumerate(placement.machines[:_SHOWN]):
            cores = " │ ".join(
                " ".join(f"{part.slo}({part.ways})" for part in core.parts)
                for core in machine.cores
            )
            load = sum(core.load for core in machine.cores) / len(machine.cores)
            table.add_row(
                f"{machine.server} {number}", str(len(machine.cores)), str(machine.ways),
                f"{load:.0%}", cores,
            )  # fmt: skip
        out.print(table)
        if count > _SHOWN:
            out.print(f"and {count - _SHOWN} more servers (--json has all)", markup=False)
        if placement.bound is None:
            told = "fewer may do, for promises are cut into equal instances"
        elif count == placement.bound:
            told = "by its model no placement needs fewer"
        else:
            told = f"by its model no placement needs fewer than {placement.bound}"
        out.print(
            f"{count} servers, shared cores, {placement.seconds:.2f} s: {told}.",
            markup=False, style="bold",
        )  # fmt: skip
    _tell_refused(placement.refused)
