"""`unis bench resq`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unis.cli.bench_parts import table_of
from unis.cli.terminal import errors_told, out, say, writable
from unis.runtime.files import write_atomically


def resq(
    output: Annotated[Path, typer.Option("--out", "-o", help="Directory for results.json.")] = Path(
        "build/resq"
    ),
) -> None:
    """Placement of promises beside the ResQ paper's own numbers, and of 20,000 at once.

    The paper's three workloads by its greedy method and by the exact one, each placement checked by
    arithmetic of its own; the same with parts of cores, each core simulated under UNiS' scheduler.
    Profiles are those that the paper prints; what it does not is assumed (docs/slo.md). Needs the
    simulator that `make build` builds, no root and no server; under a minute. Writes results.json.

    Example: unis bench resq -o build/resq
    """
    from unis.bench.resq import evaluate

    with errors_told():
        file = writable(output / "results.json")
        found = evaluate(say)
        write_atomically(file, found.model_dump_json(indent=1) + "\n")
    table = table_of(
        "Servers", "workload", ("greedy", "paper", "exact", "bound", "paper's MILP", "s")
    )
    for name, of in found.placement.items():
        table.add_row(
            name, str(of.greedy), str(of.paper["greedy"]), str(of.exact), str(of.bound),
            str(of.paper["exact"]), f"{of.seconds:.2f}",
        )  # fmt: skip
    out.print(table)
    parts = table_of(
        "Cores shared, promises of 10 to 60 % of a core", "workload",
        ("a core each", "shared", "bound", "fewer", "simulated", "not kept", "p95 at most"),
    )  # fmt: skip
    for name, share in found.shared.items():
        parts.add_row(
            name, str(share.exact), str(share.shared), str(share.bound), f"{share.fewer:.1%}",
            str(share.simulated), str(share.late_or_short), f"{share.closest:.0%}",
        )  # fmt: skip
    out.print(parts)
    scale = found.scale
    out.print(
        f"{scale.slos:,} promises on {scale.servers:,} servers: {scale.machines:,} machines, "
        f"{scale.gap:.2%} above the bound, {scale.seconds:.1f} s.",
        markup=False,
    )
    wrong = scale.wrong + sum(of.wrong for of in found.placement.values())
    wrong += sum(share.late_or_short + share.wrong for share in found.shared.values())
    out.print(
        "Every promise is kept, in every placement." if not wrong else f"{wrong} are not kept!",
        style="green" if not wrong else "red",
    )
    out.print(str(file), markup=False, style="bold")
    if wrong:
        raise typer.Exit(1)
