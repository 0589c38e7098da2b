"""Tables of `--only profiler`, for people."""

from collections.abc import Iterable

from evaluation.scc.arms import DEFAULT
from evaluation.scc.chains import ChainSpec
from evaluation.scc.paper import PaperValue
from evaluation.scc.profiler.claims import missing_first, throughput
from evaluation.scc.profiler.found import LengthRow, ProfilerFound, References
from evaluation.scc.profiler.lengths import arm_name
from evaluation.scc.rows import SccRatio
from unis.cli.terminal import out, table_of, warn

_LIKE_PAPER = arm_name(ChainSpec(1), DEFAULT)  # functions that poll under the default
_RESIDUALS = (
    "The residual is the median of those of the rounds, and not of the medians beside it. The "
    "throughput has the interval of its pairs of windows in overload."
)
_PAPERS_LENGTHS = "The paper's chains poll over Open vSwitch, in overload; ours have half load."
_CONTEXTS = (
    "Overload: 1 ÷ what passes, so the time of what is slowest: source, router or switch. The "
    "paper's µs are what its profiler calculates, at 0.82 Mpps."
)


def print_profiler(found: ProfilerFound) -> None:
    """All that was measured; what misses its bound comes first."""
    if found.lengths:
        _print_lengths(found)
    if found.injected:
        _print_injected(found)
    if found.primitives:
        _print_primitives(found)
    if found.contexts:
        _print_contexts(found)
    if found.waits:
        _print_waits(found)
    for note in found.notes:
        out.print(note, markup=False, style="dim")


def _print_lengths(found: ProfilerFound) -> None:
    rows = missing_first(found.lengths)
    if missing := [row for row in rows if row.misses]:
        warn(
            f"The parts of {len(missing)} of {len(rows)} profiles do not explain the latency: they "
            "come first. Do not rely on those.",
            "bold red",
        )
    table = table_of(
        "Fig. 5: latency at half load, measured while nothing is traced, and as the sum of parts",
        "chain", ("functions", "measured µs", "explained µs", "residual", "95 %", "bound",
                  "throughput traced ÷ not"),
    )  # fmt: skip
    for row in rows:
        table.add_row(*_length_cells(row), style="red" if row.misses else None)
    out.print(table)
    out.print(_RESIDUALS, markup=False, style="dim")
    table = table_of(
        "Fig. 5: µs that each further function adds, least squares from two functions on", "chain",
        ("functions", "measured", "explained", "share", "paper, measured", "paper, explained"),
    )  # fmt: skip
    for slope in found.slopes:
        share = "–" if slope.share is None else f"{slope.share:.0%}"
        lengths = sorted(row.length for row in rows if row.arm == slope.arm and row.length > 1)
        polls = slope.arm == _LIKE_PAPER
        table.add_row(
            slope.arm, ", ".join(map(str, lengths)), f"{slope.measured_us:,.1f}",
            f"{slope.explained_us:,.1f}", share, _paper(slope.paper_measured if polls else None),
            _paper(slope.paper_explained if polls else None),
        )  # fmt: skip
    if found.slopes:
        out.print(table)
        out.print(_PAPERS_LENGTHS, markup=False, style="dim")


def _length_cells(row: LengthRow) -> Iterable[str]:
    low, high = row.profile.residual_interval
    least, most = row.profile.tracing_cost.throughput_interval
    return (
        row.arm, str(row.length), f"{row.measured_us:,.1f}", f"{row.explained_us:,.1f}",
        f"{row.profile.residual:+.1%}", f"{low:+.1%} to {high:+.1%}", f"{row.bound:.0%}",
        f"{throughput(row):.3f} ({least:.2f}–{most:.2f})",
    )  # fmt: skip


def _print_injected(found: ProfilerFound) -> None:
    table = table_of(
        "Known delays, and where they were found; µs a packet", "delay",
        ("in", "injected", "found", "share, 95 %", "most elsewhere", "share, 95 %",
         "median latency"),
    )  # fmt: skip
    for row in found.injected:
        most = row.elsewhere
        table.add_row(
            row.name, f"{row.place}: {' or '.join(row.parts)}", f"{row.injected_ns / 1e3:,.2f}",
            f"{row.found_ns / 1e3:,.2f}", _share(row.share),
            f"{most.ns / 1e3:+,.2f}, {most.place}: {most.part}" if most else "–",
            _share(row.elsewhere_share),
            "–" if row.latency_ns is None else f"{row.latency_ns / 1e3:+,.2f}",
        )  # fmt: skip
    out.print(table)
    for row in found.injected:
        told = f"{row.name}: {row.how}; the amount is {row.known_by}"
        out.print(told, markup=False, style="dim")


def _share(share: SccRatio | None) -> str:
    if share is None:
        return "–"
    return f"{share.median:.0%} ({share.lo:.0%} to {share.hi:.0%})"


def _print_primitives(found: ProfilerFound) -> None:
    out.print(f"Calibration: {found.calibrated}", markup=False, style="dim")
    table = table_of("Table 2: ns of a switch and of a call", "", ("here", "95 %", "paper"))
    for row in found.primitives:
        cells = (row.missing or "–", "–")
        if row.ns:
            cells = (f"{row.ns.median_ns:,.0f}", f"{row.ns.low_ns:,.0f}–{row.ns.high_ns:,.0f}")
        table.add_row(row.what, *cells, _paper(row.paper))
    out.print(table)
    table = table_of("Fig. 3: ns of an access, all strides, pages of 4 KiB", "", ("here", "paper"))
    for level in found.levels:
        table.add_row(level.level, f"{level.low_ns:.3g}–{level.high_ns:.3g}", _paper(level.paper))
    if found.levels:
        out.print(table)


def _print_contexts(found: ProfilerFound) -> None:
    table = table_of(
        "Fig. 4, Table 4: one router", "context",
        ("p50 µs", "parts µs", "overload, ns a packet", "95 %", "L1/L2/L3/DRAM a packet",
         "paper µs", "paper L1/L2/L3/DRAM"),
    )  # fmt: skip
    for row in found.contexts:
        spread = f"{row.interval[0]:,.0f}–{row.interval[1]:,.0f}" if row.interval else "–"
        table.add_row(
            row.context, _number(row.latency_us, 1), _number(row.parts_us, 1),
            _number(row.ns_per_packet, 0), spread, _references(row.references),
            f"{row.paper.low:g}", _references(row.paper_references),
        )  # fmt: skip
    out.print(table)
    out.print(_CONTEXTS, markup=False, style="dim")
    for row in found.contexts:
        provider = row.references.provider if row.references else "no references"
        told = f"{row.context}: {row.how}. References: {provider}; {row.no_references}"
        out.print(told, markup=False, style="dim")


def _print_waits(found: ProfilerFound) -> None:
    table = table_of(
        "Tables 5 and 8: all functions together, in overload on veth", "functions, arm",
        ("kpps", "wait ÷ run", "paper, OVS", "contention ÷ run", "paper, b2b"),
    )  # fmt: skip
    for row in found.waits:
        table.add_row(
            f"{row.length}, {row.arm}", f"{row.kpps:,.1f}", _number(row.wait, 2),
            _paper(row.paper_wait), _number(row.contention, 2), _paper(row.paper_contention),
        )  # fmt: skip
    out.print(table)


def _paper(value: PaperValue | None) -> str:
    return str(value) if value else "–"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _references(found: References | None) -> str:
    if found is None:
        return "–"
    return "/".join(f"{each:.3g}" if each < 100 else f"{each:.0f}"
                    for each in (found.l1, found.l2, found.l3, found.dram))  # fmt: skip
