"""`unis profile`: what a function, or a chain, is able to promise."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.options import JsonOption, between
from unis.cli.profile_chain_command import chain
from unis.cli.terminal import fail, out, say, warn, writable, write_result
from unis.errors import EXIT_FAILED
from unis.runtime.errors import InterruptedRunError, interrupted_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unis.profile.result import Profiled
    from unis.profile.session import Session
    from unis.profile.subject import Subject
    from unis.profile.windows import Ways

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")

profile = typer.Typer(
    no_args_is_help=True, help="What functions and chains can promise, and where the time goes."
)


@profile.callback()
def _profile() -> None:
    """What functions and chains can promise, and where the time of a packet goes."""


profile.command()(chain)


@profile.command()
def nf(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="FUNCTION|FILE", help="Program of a function, or chain file.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- ARGUMENT]...",
            help="Arguments of the function. UNiS' own functions have defaults.",
        ),
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Packet size in bytes with FCS, or imix, or datacenter.")
    ] = None,
    flows: Annotated[int | None, typer.Option(min=1, help="Number of distinct 5-tuples.")] = None,
    pcap: Annotated[
        Path | None,
        typer.Option(help="Replay this pcap or pcapng file instead of synthetic packets."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the profile in a workload file. Default: name of the function or chain."
        ),
    ] = None,
    ways: Annotated[
        int | None,
        typer.Option(min=1, max=32, help="Cache ways that functions may use. Default: all."),
    ] = None,
    tolerance: Annotated[str, typer.Option(help="Tolerated error of the curves, relative.")] = "1%",
    careful: Annotated[
        bool,
        typer.Option("--careful", help="Measure between points too, and loads in steps of 1 %."),
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="Number of windows per point.")] = 9,
    window: Annotated[float, between(0.01, 60, "Length of a measured window, seconds.")] = 0.1,
    again: Annotated[
        bool, typer.Option("--again", help="Measure again what was measured before.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the profile to this file as YAML.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the throughput of a function or chain by cache ways, and its latency by load.

    The function runs alone, on a CPU of its own. A chain file must have one chain, all on one CPU.
    UNiS measures few points, and more only where a straight line between them is off (ResQ, section
    5.2). It keeps each point in ~/.cache/unis/profiles, for this program, its arguments, traffic,
    machine and build: after Ctrl-C the same command continues. Prints the part of a workload file
    that `unis plan` reads. Needs root, hugepages, what `make build` builds, and two CPUs that do
    nothing else. Takes under two minutes.

    Examples: unis profile nf macswap -o macswap.yaml -- --cost heavy  |  unis profile nf chain.yaml
    """
    from unis.profile.curve import Method
    from unis.profile.session import Session, Settings

    near = _tolerance(tolerance)
    is_file = target.endswith((".yaml", ".yml"))
    if is_file and (arguments or size or flows or pcap):
        raise typer.BadParameter(
            "a chain file states arguments and traffic itself", param_hint="-- ARGUMENT"
        )
    if pcap and (size or flows):
        raise typer.BadParameter("a capture has sizes and flows of its own", param_hint="--pcap")
    if output:
        writable(output)
    subject = _subject(target, arguments, size, flows, pcap, name, is_file=is_file)
    settings = Settings(Method(near, careful), rounds, window, ways)
    with _cache_ways(min(subject.chain.file.cpus)) as of_cpu:
        # `python -m evaluation profile` is this command with a model of the cache.
        session = Session(subject, settings, of_cpu, context.obj)
        found = _profiled(session, again=again)
    if output:
        write_result(output, found.yaml())
    if as_json:
        out.print_json(found.model_dump_json())
    else:
        out.print(found.yaml(), markup=False, soft_wrap=True, end="")
    _tell(found)
    if output:
        say(str(output))


@contextmanager
def _cache_ways(cpu: int) -> Iterator[Ways | None]:
    """None where this machine cannot allocate its cache."""
    from unis.isolate.hardware import detect
    from unis.isolate.tree import KernelTree
    from unis.profile.cpu_ways import ways_of_cpu

    found = detect()
    domain = found.domain_of(cpu)
    if not found.mounted or not found.info.of_level("L3") or domain is None:
        yield None
        return
    with ways_of_cpu(KernelTree(), found.io, cpu, domain) as ways:
        yield ways


def _tolerance(text: str) -> float:
    percent = _PERCENT.fullmatch(text.strip())
    if not percent or not 0 < float(percent[1]) <= 50:
        raise typer.BadParameter(
            f"`{text}`: write a percentage above 0, at most 50, as 1%", param_hint="--tolerance"
        )
    return float(percent[1]) / 100


def _subject(
    target: str,
    arguments: list[str] | None,
    size: str | None,
    flows: int | None,
    pcap: Path | None,
    name: str | None,
    *,
    is_file: bool,
) -> Subject:
    from unis.profile import subject as of

    if is_file:
        return of.of_file(Path(target), name)
    source = of.capture(pcap) if pcap else of.synthetic(size, flows)
    return of.of_function(target, arguments, source, name)


def _profiled(session: Session, *, again: bool) -> Profiled:
    """Exits with what is missing where Ctrl-C comes first, or with why it is no profile."""
    from unis.slo.profile import ImpossibleProfileError

    try:
        return session.profiled(say, again=again)
    except (InterruptedRunError, KeyboardInterrupt) as interrupt:
        missing = ", ".join(map(str, session.missing())) or "nothing"
        warn(
            f"interrupted: at least {missing} is missing; the same call goes on there "
            f"({session.store.file})",
            "yellow",
        )
        raise typer.Exit(interrupted_code(interrupt)) from None
    except ImpossibleProfileError as error:
        raise fail(
            f"what was measured is not a profile: {error}. Try again while nothing else runs, with "
            "--again",
            EXIT_FAILED,
        ) from None


def _tell(found: Profiled) -> None:
    curves = [curve for curve in (found.throughput, found.latency) if curve]
    for told in [*found.remarks, *(doubt for curve in curves for doubt in curve.doubts)]:
        warn(told, "yellow")
    off = max(curve.may_be_off for curve in curves)
    if not all(curve.shaped for curve in curves):
        between = "what was measured is of no such shape, so between the points may be anything"
    elif off >= 1:
        between = "it varies by so much that between the points may be anything"
    else:
        between = f"between them no curve of this shape is off by more than {off:.1%}"
    say(f"{found.name}: {found.measurements} measurements; {between}")
