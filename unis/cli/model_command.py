"""`unis model`: what a chain passes at most on a machine, and what the limit is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from unis.capacity.pcie import PcieMode
from unis.cli.options import ChainFileArgument, JsonOption, between, one_of
from unis.cli.terminal import fail, out, print_line, say, table_of, warn, writable, write_result
from unis.errors import EXIT_FAILED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unis.capacity.case import CapacityCase
    from unis.capacity.chain import FunctionCost
    from unis.capacity.machine import MachineFile
    from unis.capacity.questions import WhatIf
    from unis.capacity.result import Arrangement, CapacityResult, ChangeAnswer
    from unis.chain.load import LoadedChain
    from unis.simulate.scenario import CostOf

_HERE = "here"
_MODES = ("paper", "padded", "tlp")
_SHOWN_BYTES = (64, 128, 256, 512, 1024, 1518)  # about which a row of the table is
_BURST = 32  # packets
_PORT_SIZE = 64  # bytes: the heaviest traffic, where nobody knows it


def model(
    file: ChainFileArgument,
    machine: Annotated[
        str,
        typer.Option(
            "--machine",
            metavar="MACHINE.yaml|here",
            help="Machine file (docs/model.md), or `here`: this machine, as `unis calibrate` "
            "measured it.",
        ),
    ] = _HERE,
    links: Annotated[
        str | None,
        typer.Option("--links", metavar="KIND", help="Kind of all links. Default: as in FILE."),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NS", help="Cost of a packet in a function, ns."),
    ] = None,
    profiles: Annotated[
        Path | None,
        typer.Option(
            "--profiles", metavar="FILE", help="Profiles by `unis profile nf`, or a workload file."
        ),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="KEY=VALUE",
            help="Another question: cpus, ghz, pcie, line (Gbit/s), batch, turn, size, functions "
            "or link.",
        ),
    ] = None,
    tenant: Annotated[
        list[str] | None,
        typer.Option(metavar="CHAIN=TENANT", help="Whose chain it is. Default: as FILE says."),
    ] = None,
    total: Annotated[
        bool,
        typer.Option(
            "--total",
            help="Make the sum of all chains as large as can be. Default: the smallest throughput, "
            "then the next one (max–min fairness), of tenants first.",
        ),
    ] = False,
    size: Annotated[
        float | None, between(64, 1518, "Packet size, bytes with FCS. Default: as in FILE.")
    ] = None,
    load: Annotated[
        float, between(0.01, 1, "Load at which it is told how busy all is, as a share of the most.")
    ] = 0.5,
    batch: Annotated[
        float | None,
        between(1, 256, "Packets of a burst. Default: `batch` of links in FILE, or 32."),
    ] = None,
    pcie: Annotated[
        str,
        typer.Option(
            metavar="|".join(_MODES),
            callback=one_of("PCIe mode", _MODES),
            help="How the load of the PCIe bus is reckoned.",
        ),
    ] = "paper",
    ends: Annotated[
        str,
        typer.Option(
            metavar="platform|functions",
            callback=one_of("end", ("platform", "functions")),
            help="Who has the ports of the NIC with software links: UNiS's own CPU, or the first "
            "and the last function, as in the SR-IOV paper.",
        ),
    ] = "platform",
    switchings: Annotated[
        str,
        typer.Option(
            metavar="n|n+1",
            callback=one_of("number of switchings", ("n", "n+1")),
            help="How often the NIC switches a packet of n functions over SR-IOV.",
        ),
    ] = "n+1",
    driver: Annotated[
        str | None, typer.Option(help="Driver of the NIC. Default: as the machine file has it.")
    ] = None,
    vf_driver: Annotated[
        str | None, typer.Option("--vf-driver", help="Driver of virtual functions; likewise.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Write DIR/model.json and model.html."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute what the chains of FILE pass at most on a machine, and name the bottleneck.

    A model, not a measurement: a linear program over CPUs, line, NIC, PCIe and memory. Starts
    nothing. Every number of the machine has a source: published, derived, measured or assumed.
    Prints the throughput, how much of each resource is left, what a change would gain, and where
    SR-IOV and software links overtake each other.

    The cost of a function comes from the first of these that has it: --cost, --profiles, the
    machine file, FILE, what was measured on this machine. A cost that none of them has is assumed.

    Example: unis model examples/edge.yaml --machine examples/machines/xeon-x520.yaml
    """
    from unis.capacity.case import CapacityCase
    from unis.capacity.convert import chains_of, setting_of
    from unis.capacity.demands import Setting
    from unis.capacity.files import profiled_costs
    from unis.capacity.resources import CapacityError
    from unis.capacity.study import study
    from unis.chain.load import load as load_chain

    chain = load_chain(file)
    files = [writable(output / name) for name in ("model.json", "model.html")] if output else []
    of = _machine(machine, driver, vf_driver)
    setting = Setting(
        batch=batch or _batch(chain),
        pcie=cast("PcieMode", pcie),
        ends=cast("Literal['platform', 'functions']", ends),
        switchings=cast("Literal['n', 'n+1']", switchings),
    )
    sizes, remarks = _sizes(chain, int(size) if size else None)
    profiled = profiled_costs(profiles) if profiles else {}
    costs = _costs(chain, of, cost or [], profiled, here=machine == _HERE)
    case = CapacityCase(
        chains_of(chain, costs, sizes, of),
        of,
        setting_of(chain, of, setting),
        "total" if total else "max-min",
        _tenants(chain, tenant or []),
    )
    if links is not None:
        case = _asked(case, "link", links, "--links").case
    extra = [_asked(case, *_pair(words), "--what-if") for words in what_if or ()]
    told = {} if links is None else {"links": f"links of kind {links}"}
    try:
        found = study(case, chain.file.name, remarks, extra, load, **told)
    except CapacityError as error:
        raise fail(f"{file}: {error}") from None
    if output:
        from unis.report.model import model_page

        for each, text in zip(
            files, (found.model_dump_json(indent=2) + "\n", model_page(found)), strict=True
        ):
            write_result(each, text)
    if as_json:
        out.print_json(found.model_dump_json())
    else:
        _print(found)
    if files:
        say("  ".join(map(str, files)))
    if not found.main.total_mpps:
        raise typer.Exit(EXIT_FAILED)


def _batch(chain: LoadedChain) -> float:
    """The least of the file's links."""
    return min((link.batch for link in chain.file.links if link.batch), default=_BURST)


def _asked(case: CapacityCase, key: str, value: str, option: str) -> WhatIf:
    from unis.capacity.questions import asked
    from unis.capacity.resources import CapacityError

    try:
        return asked(case, key, value)
    except CapacityError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _pair(words: str) -> tuple[str, str]:
    key, is_there, value = words.partition("=")
    if not is_there:
        raise typer.BadParameter(f"`{words}`: write KEY=VALUE, as pcie=4", param_hint="--what-if")
    return key.strip(), value.strip()


def _machine(named: str, driver: str | None, vf_driver: str | None) -> MachineFile:
    from unis.capacity.files import load_machine
    from unis.capacity.here import this_machine

    machine = this_machine() if named == _HERE else load_machine(Path(named))
    for option, stated in (("--driver", driver), ("--vf-driver", vf_driver)):
        if stated is not None and stated not in machine.drivers:
            known = ", ".join(machine.drivers) or "none"
            raise typer.BadParameter(
                f"there is no driver `{stated}` in {named}: {known}", param_hint=option
            )
    chosen = {key: name for key, name in (("driver", driver), ("vf_driver", vf_driver)) if name}
    nics = {name: nic.model_copy(update=chosen) for name, nic in machine.nics.items()}
    return machine.model_copy(update={"nics": nics})


def _sizes(chain: LoadedChain, stated: int | None) -> tuple[dict[int, int], list[str]]:
    """Packet sizes, and what is to be said of them."""
    from unis.chain.model import PcapSource
    from unis.simulate.capture import mean_size

    if stated is not None:
        return {stated: 1}, []
    if shares := chain.file.traffic.size_shares:
        return shares, []
    if isinstance(chain.file.traffic.source, PcapSource):
        mean = mean_size(chain.directory / chain.file.traffic.source.file)
        return {mean: 1}, [f"packets of {mean} bytes, the mean of the capture"]
    return {_PORT_SIZE: 1}, [
        f"the sizes of packets from a port are not known: {_PORT_SIZE} bytes, the heaviest load; "
        "give --size"
    ]


def _costs(
    chain: LoadedChain,
    machine: MachineFile,
    stated: list[str],
    profiled: Mapping[str, FunctionCost],
    *,
    here: bool,
) -> dict[str, FunctionCost]:
    """Of each function, from the best source that there is."""
    from unis.capacity.chain import FunctionCost
    from unis.cli.simulate_command import (
        ASSUMED_COST_NS,
        measured_costs,
        see_that_they_are_there,
        stated_costs,
    )

    by_option = stated_costs(stated)
    see_that_they_are_there(by_option, chain, "--cost")
    measured: Mapping[str, CostOf] = measured_costs(chain)
    found = {}
    for name in chain.file.functions:
        function = chain.file.function(name)
        program = Path(function.executable).name
        known = machine.functions.get(name) or machine.functions.get(program)
        if name in by_option:
            found[name] = FunctionCost(by_option[name], "ns", "assumed", "stated by --cost")
        elif name in profiled or program in profiled:
            found[name] = profiled.get(name) or profiled[program]
        elif known is not None:
            found[name] = FunctionCost(
                known.value, "ns" if known.unit == "ns" else "cycles", known.source, known.note
            )
        elif function.cost_ns is not None:
            told = f"cost_ns in {chain.path.name}"
            found[name] = FunctionCost(function.cost_ns, "ns", "assumed", told)
        elif name in measured:
            source: Literal["measured", "assumed"] = "measured" if here else "assumed"
            told = "unis estimate" if here else "as measured on another machine: this one"
            found[name] = FunctionCost(measured[name], "ns", source, told)
        else:
            told = f"nobody measured it: unis estimate {chain.path}"
            found[name] = FunctionCost(ASSUMED_COST_NS, "ns", "assumed", told, is_guess=True)
    return found


def _tenants(chain: LoadedChain, stated: list[str]) -> dict[str, str]:
    whose = {name: chain.file.tenant_of(name) for name in chain.file.chains}
    found = {name: tenant for name, tenant in whose.items() if tenant}
    for words in stated:
        name, _, tenant = words.partition("=")
        if name not in chain.file.chains:
            known = ", ".join(chain.file.chains)
            raise typer.BadParameter(f"there is no chain `{name}`: {known}", param_hint="--tenant")
        if not tenant:
            raise typer.BadParameter(f"`{words}`: write CHAIN=TENANT", param_hint="--tenant")
        found[name] = tenant
    return found


# ------------------------------------------------------------------ for people


def _print(found: CapacityResult) -> None:
    from unis.capacity.words import at_load, headline, use_note

    print_line(f"{found.chain} on {found.machine}", "bold")
    print_line(headline(found))
    for each in found.arrangements:
        _print_resources(each)
        if each is found.main:
            print_line(at_load(found))
    print_line("")
    title = f"what a change would gain ({found.main.name})"
    _print_answers(title, "change", found.answers, several=found.is_fair)
    _print_curves(found)
    for crossing in found.crossings:
        print_line(crossing.told)
    if found.readings:
        print_line("")
        _print_answers(
            "other readings of the paper", "reading", found.readings, several=found.is_fair
        )
    print_line("")
    print_line(use_note(found), "dim")
    for remark in found.remarks:
        warn(remark, "yellow")


def _print_resources(found: Arrangement) -> None:
    from unis.capacity.words import amount, rate, taken, together

    print_line("")
    heads = ("capacity", "a packet", "used", "left", "+1 % of it")
    title = f"{found.name}: {rate(found.total_mpps)}"
    table = table_of(title, "resource", heads, ("made of",), whole=("resource",))
    for row in found.resources:
        mark = "bold" if row.name in found.bottlenecks else ""
        table.add_row(
            row.name,
            amount(row.capacity, f"{row.unit}/s"),
            taken(row),
            f"{row.used:.0%}",
            f"{row.slack:.0%}",
            f"+{row.gain_of_one_percent / 1e3:,.1f} kpps" if row.gain_of_one_percent else "–",
            ", ".join(dict.fromkeys(term for parts in row.per_packet.values() for term in parts)),
            style=mark,
        )
    out.print(table)
    if told := together(found):
        print_line(told)


def _print_answers(
    title: str, first: str, answers: Iterable[ChangeAnswer], *, several: bool
) -> None:
    from unis.capacity.words import gain, rate

    heads = ["Mpps", "smallest", "gain"] if several else ["Mpps", "gain"]
    table = table_of(title, first, heads, ("then the limit is",), whole=(first,))
    for answer in answers:
        rates = [rate(answer.total_mpps, unit="")]
        if several:
            rates.append(rate(answer.smallest_mpps, unit=""))
        table.add_row(answer.question, *rates, gain(answer.gain), ", ".join(answer.bottlenecks))
    out.print(table)


def _print_curves(found: CapacityResult) -> None:
    from unis.capacity.words import rate

    for over in dict.fromkeys(curve.over for curve in found.curves):
        curves = [curve for curve in found.curves if curve.over == over]
        at = [point.at for point in curves[0].points]
        if over == "bytes":
            at = [min(at, key=lambda size: abs(size - near)) for near in _SHOWN_BYTES]
        table = table_of("", f"Mpps by {over}", [str(value) for value in at], whole=("bytes",))
        for curve in curves:
            by = {point.at: point for point in curve.points}
            cells = (rate(by[value].total_mpps, unit="") if value in by else "–" for value in at)
            table.add_row(curve.name, *cells)
        print_line("")
        out.print(table)
