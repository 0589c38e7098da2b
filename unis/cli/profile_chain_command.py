"""`unis profile chain`: where the time of a packet goes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.bench_options import print_disturbed
from unis.cli.counted_tables import print_counted, print_hot
from unis.cli.options import JsonOption, between
from unis.cli.select import connect
from unis.cli.terminal import fail, out, print_line, say, table_of, warn, writable, write_result
from unis.errors import EXIT_FAILED, UnisError

if TYPE_CHECKING:
    from unis.chain.load import LoadedChain
    from unis.engine.client import EngineClient
    from unis.parts.advised import ChainUse
    from unis.parts.profiler import PartsSettings
    from unis.parts.result import ChainParts, PlaceParts
    from unis.plan.model import Plan


def chain(
    target: Annotated[
        str, typer.Argument(metavar="FILE|RUN", help="Chain file, or a run that is up.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Write DIR/profile.json and profile.html, and advised.yaml if there is advice.",
        ),
    ] = None,
    load: Annotated[float, between(0.01, 1, "Load, as a share of the most that passes.")] = 0.5,
    rounds: Annotated[
        int,
        typer.Option(
            min=2, max=1000, help="Number of rounds. More rounds make the intervals narrower."
        ),
    ] = 8,
    window: Annotated[float, between(0.05, 60, "Length of a window in seconds.")] = 0.5,
    per_second: Annotated[
        float, between(1, 100_000, "Packets to follow a second, at most.")
    ] = 2000,
    hot: Annotated[
        bool,
        typer.Option(
            "--hot", help="Sample the code of functions with perf; -o adds hot.svg, hot.folded."
        ),
    ] = False,
    references: Annotated[
        bool,
        typer.Option("--references", help="Count cache misses of UNiS's functions in Valgrind."),
    ] = False,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply", help="Try the advice in new runs, best first, until some helps; 3 at most."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure where the time of a packet goes, function by function.

    Brings the chain of FILE up and ends it, or uses a run that is up. Follows sampled packets and
    prints a table in nanoseconds a packet: a row for each function, a column for each part of the
    time. Below it stand what was counted of each function, and advice: what to change in the chain
    file, and what that gains.

    Needs root, one chain without branches, a synthetic source, and links of any kind but ovs. Some
    windows send more than the chain can take, so a RUN drops packets. Exit code 1 if the parts do
    not add up to the measured latency.

    Examples: unis profile chain examples/kernel-chain.yaml -o build/profile
    """
    from unis.chain.load import load as load_chain
    from unis.cli.profile_advice import advised_file, followed, print_advice, write_advised
    from unis.counted.beside import BesideSettings
    from unis.parts.profiler import PartsSettings

    settings = PartsSettings(
        rounds, window, per_second, load, BesideSettings(hot, references, output)
    )
    files = [writable(output / name) for name in ("profile.json", "profile.html")] if output else []
    is_file = target.endswith((".yaml", ".yml")) or "/" in target
    if apply and not is_file:
        raise fail("--apply brings chains up of its own: name the chain file, and end the run")
    if output and is_file:
        advised_file(output, Path(target))
    chain = load_chain(Path(target)) if is_file else None
    found = _of_file(chain, settings) if chain else _of_run(target, settings)
    _write(found, files)
    if not as_json:
        print_parts(found)
    if apply and chain:  # it takes minutes: what was measured is told already
        found = followed(found, chain, window)
        _write(found, files)
    if as_json:
        out.print_json(found.model_dump_json())
    else:
        print_advice(found, chain)
    if files:
        say("  ".join(map(str, files)))
    if output and chain:
        write_advised(found, chain, output)
    if not found.is_explained:
        raise typer.Exit(EXIT_FAILED)


def _write(found: ChainParts, files: list[Path]) -> None:
    """The JSON and the page."""
    from unis.report.parts import parts_page

    if files:
        texts = (found.model_dump_json(indent=2) + "\n", parts_page(found))
        for file, text in zip(files, texts, strict=True):
            write_result(file, text)


def profile_as_stated(loaded: LoadedChain) -> None:
    """What `unis up` does with a file that has `mode: profile`."""
    from unis.chain.values import in_ns

    stated = loaded.file.profile
    chain(
        str(loaded.path.resolve()),
        output=loaded.directory / stated.output if stated.output else None,
        load=stated.load,
        rounds=stated.rounds,
        window=in_ns(stated.window) / 1e9,
        hot=stated.hot,
    )


def _of_file(chain: LoadedChain, settings: PartsSettings) -> ChainParts:
    from unis.advice.advisor import with_advice
    from unis.parts.profiler import PartsProfiler
    from unis.parts.route import check
    from unis.plan.machine import Machine
    from unis.runtime.interrupts import interrupts
    from unis.runtime.planning import plan_chain
    from unis.runtime.run import Options
    from unis.runtime.running import running

    machine = Machine.this()
    cpus = len(machine.cpus)
    plan = plan_chain(chain, machine)
    try:
        check(plan)
    except UnisError as error:
        raise fail(f"{chain.path}: {error}") from None
    with interrupts() as switch, running(plan, Options(), say, switch) as run:
        if run.unisd is None:
            raise RuntimeError("a run that is up has an engine")
        engine = run.unisd.process.pid
        profiler = PartsProfiler(run.plan, run.client, settings, engine, cpus, say, run.check)
        found = profiler.profile()
        use = _use(found, plan, run.client, settings)
    return with_advice(found, chain, plan, use, machine)


def _of_run(name: str, settings: PartsSettings) -> ChainParts:
    from unis.advice.advisor import with_advice
    from unis.chain.load import load
    from unis.parts.profiler import PartsProfiler
    from unis.plan.machine import Machine
    from unis.runtime.interrupts import interrupts
    from unis.runtime.planning import plan_anywhere

    machine = Machine.this()
    _, state, client = connect(name)
    if state.attached:
        raise fail(f"{name}: its functions were attached, and UNiS sends no packets there")
    if state.unisd is None:
        raise fail(f"{name}: it has no engine yet; try again", EXIT_FAILED)
    with interrupts(), client:
        variables = {**os.environ, **state.variables}
        chain = load(Path(state.chain_file), state.name, variables)
        plan = plan_anywhere(chain)
        profiler = PartsProfiler(plan, client, settings, state.unisd.pid, len(machine.cpus), say)
        found = profiler.profile()
        use = _use(found, plan, client, settings)
    return with_advice(found, chain, plan, use, machine)


def _use(
    found: ChainParts, plan: Plan, client: EngineClient, settings: PartsSettings
) -> ChainUse | None:
    """None: the engine does not tell, and the profile has no advice."""
    from unis.advice.observed import observed
    from unis.engine.client import EngineError

    path = [function.name for function in found.functions]
    try:
        return observed(plan, client, path, settings.window, found.load_kpps * 1000)
    except EngineError as error:
        warn(f"there is no advice: {error}")
        return None


# ------------------------------------------------------------------ for people


def print_parts(found: ChainParts) -> None:
    """The residual first where it is too large."""
    from unis.parts.accounting import PARTS
    from unis.report.parts import headline

    if not found.is_explained:
        warn(
            f"The parts add up to {found.explained_ns / 1e3:.1f} µs, the latency is "
            f"{found.median_latency_ns / 1e3:.1f} µs: the residual is {found.residual:+.0%}, more "
            f"than {found.allowed:.0%}. Do not rely on the parts; try more rounds (--rounds).",
            "bold red",
        )
    print_line(
        f"{found.chain}, policy {found.policy}, {found.load_kpps:.1f} kpps of at most "
        f"{found.most_kpps:.1f}",
        "bold",
    )
    print_line(headline(found))
    heads = [part.replace(" ", "\n") for part in PARTS]  # four functions fit into 100 columns
    table = table_of("", "ns a packet", (*heads, "sum", "share"), whole=("ns a packet",))
    for place in found.places:
        share = f"{place.ns / found.explained_ns:.0%}" if found.explained_ns > 0 else ""
        cells = (_cell(place, part) for part in PARTS)
        table.add_row(place.name, *cells, f"{place.ns:,.0f}", share)
    table.add_row("all", *(_sum(found, part) for part in PARTS), f"{found.explained_ns:,.0f}", "",
                  style="bold")  # fmt: skip
    out.print(table)
    cost = found.tracing_cost
    print_line(
        f"while packets are followed: median latency {found.traced_latency_ns / 1e3:.1f} µs, parts "
        f"{found.traced_explained_ns / 1e3:.1f} µs, of which the cost of following is "
        f"{cost.ns_per_packet / 1e3:.1f} µs; the table is without it"
    )
    print_line(
        f"following changes latency by {cost.latency - 1:+.1%}, throughput by "
        f"{cost.throughput - 1:+.1%}"
    )
    print_line(f"{found.packets:,} packets followed, {found.per_second:,.0f} a second")
    for why, count in found.left_out.items():
        print_line(f"left out: {count:,} packet{'s' * (count != 1)}, {why}")
    print_disturbed([found.disturbed])
    if found.lost_events:
        warn(f"{found.lost_events:,} events were lost; follow fewer packets with --per-second")
    if found.counted:
        print_counted(found.counted)
    if found.hot:
        print_hot(found.hot)
    for what in found.missing:
        warn(f"missing: {what}", "yellow")


def _cell(place: PlaceParts, part: str) -> str:
    time = place.parts.get(part)
    return f"{time.ns_per_packet:,.0f}" if time else ""


def _sum(found: ChainParts, part: str) -> str:
    return f"{found.part_ns(part):,.0f}"
