"""Tables of what `unis calibrate` measured of memory, switches, calls and probes."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from unis.cli.terminal import out, print_line, table_of
from unis.measure.primitives import Group, MedianNs, Primitive, Primitives


@dataclass(frozen=True)
class _View:
    """A table: a line for each value of `first`, a column for each of `column`."""

    title: str
    first: tuple[str, ...]
    key: Callable[[Primitive], tuple[str, ...]]
    column: Callable[[Primitive], str]
    groups: tuple[Group, ...]
    packets: bool | None = None  # only rows with frames, or only those without; None: all

    def shows(self, row: Primitive) -> bool:
        return row.group in self.groups and self.packets in (None, "frame_bytes" in row.labels)


def _size(size: int | str) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if isinstance(size, int) and size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def _span(ns: int | str) -> str:
    return f"{ns} ns" if isinstance(ns, str) or ns % 1000 else f"{ns // 1000} µs"


def _memory_column(row: Primitive) -> str:
    if row.labels.get("part") == "tlb":
        return "random, TLB part"
    order = "random" if row.name == "random" else "in order"
    return f"{order}, {_size(row.labels.get('page_bytes', '?'))} pages"


def _packet_column(row: Primitive) -> str:
    way = "sending" if row.name.startswith("send") else "receiving"
    return f"{way}, qdisc passed" if row.labels.get("qdisc") == "passed" else way


VIEWS = (
    _View(
        "Memory: ns an access, the next one after it",
        ("array", "stride"),
        lambda row: (_size(row.labels["array_bytes"]), f"{row.labels['stride_bytes']} B"),
        _memory_column,
        ("memory",),
    ),
    _View(
        "Switches: ns until the other one has the CPU, with the calls that it takes",
        ("class", "by"),
        lambda row: (row.name, str(row.labels["by"])),
        lambda row: f"between {row.labels['between']}",
        ("switch",),
    ),
    _View("Calls: ns each", ("call",), lambda row: (row.name,), lambda _: "ns", ("call",)),
    _View(
        "Packet sockets without packets: ns a call",
        ("call",),
        lambda row: (row.name,),
        lambda _: "ns",
        ("packet",),
        packets=False,
    ),
    _View(
        "Packet sockets on veth: ns a packet",
        ("frame", "call"),
        lambda row: (
            f"{row.labels['frame_bytes']} B",
            f"a batch of {row.labels['batch']}" if "batch" in row.labels else "send, recv",
        ),
        _packet_column,
        ("packet",),
        packets=True,
    ),
    _View(
        "Wake-ups: ns from the call until the thread runs",
        ("class", "by"),
        lambda row: (row.name, str(row.labels["by"])),
        lambda row: f"from the {row.labels['from']}",
        ("wake_up",),
    ),
    _View(
        "Timers: ns slept too long",
        ("class", "slack"),
        lambda row: (row.name, str(row.labels["slack"])),
        lambda row: _span(row.labels["period_ns"]),
        ("timer",),
    ),
    _View(
        "BPF programs on tracepoints: ns each time that one runs",
        ("tracepoint",),
        lambda row: (row.name,),
        lambda row: f"{row.labels['program']} program",
        ("probe",),
    ),
)


def print_primitives(found: Primitives) -> None:
    """Each group; the interval of 95 % is behind the median."""
    print_line(f"CPU {found.cpu} of {found.cpu_model}, Linux {found.kernel}, {found.measured}")
    if remark := found.disturbed():
        print_line(remark, style="red")
    for view in VIEWS:
        if rows := [row for row in found.rows if view.shows(row)]:
            _print(view, rows)


def _print(view: _View, rows: list[Primitive]) -> None:
    columns = list(dict.fromkeys(view.column(row) for row in rows))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        lines.setdefault(view.key(row), {})[view.column(row)] = _cell(row.ns)
    table = table_of("", view.first[0], [*view.first[1:], *columns])
    for key, cells in lines.items():
        table.add_row(*key, *(cells.get(column, "") for column in columns))
    print_line("")
    print_line(view.title, style="italic")
    out.print(table)
    print_line(_source(rows), style="dim")
    for reason, times in Counter(row.missing for row in rows if row.missing).items():
        print_line(f"–: {reason}" + (f" ({times} times)" if times > 1 else ""), style="dim")


def _cell(ns: MedianNs | None) -> str:
    if ns is None:
        return "–"
    digits = 2 if abs(ns.median_ns) < 10 else 1 if abs(ns.median_ns) < 100 else 0
    low, median, high = (
        f"{value + 0.0:.{digits}f}" for value in (ns.low_ns, ns.median_ns, ns.high_ns)
    )
    return f"{median} [{low}, {high}]"


def _source(rows: Iterable[Primitive]) -> str:
    samples = sorted({row.ns.samples for row in rows if row.ns})
    counted = f"{samples[0]} to {samples[-1]}" if len(samples) > 1 else "".join(map(str, samples))
    providers = dict.fromkeys(row.provider for row in rows)
    kinds = dict.fromkeys(str(row.labels["pages"]) for row in rows if "pages" in row.labels)
    pages = f"; pages: {', '.join(kinds)}" if kinds else ""
    return f"{counted or 'no'} samples each; {'; '.join(providers)}{pages}"
