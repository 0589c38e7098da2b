"""Counters of a running chain as tables."""

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, TypeVar

from google.protobuf.message import Message
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unis.counters import columns
from unis.counters.columns import Column
from unis.engine import names
from unis.runtime.account import account_line
from unis.runtime.state import FunctionProcess
from unis.v1 import engine_pb2 as pb

_BAR = 12  # characters
_INGRESS, _EGRESS = "ingress", "egress"  # as in unis.chain.values, which loads pydantic
_NAMES = ("function", "chain", "edge", "platform")  # columns that may be folded
_M = TypeVar("_M", bound=Message)
_MUCH_OUT_OF_ORDER = 0.01  # of the switches
_UNTITLED = Column("", "")
_WIDE = 116  # columns that tables with bars need
_WIDEST = 152  # columns that the table of functions needs with all five states


def number(value: float) -> str:
    """1234567 as 1.23M: three digits and a letter."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def bar(packets: int, capacity: int, *, wide: bool = True) -> Text:
    """How full a link is: a bar and its packets. Not `wide`: the packets alone, coloured."""
    share = min(1.0, packets / capacity) if capacity else 0.0
    filled = round(share * _BAR)
    style = "red" if share > 0.9 else "yellow" if share > 0.75 else "green"
    if not wide:
        return Text(f"{packets}", style)
    return Text("█" * filled, style) + Text("░" * (_BAR - filled), "dim") + f" {packets:>5}"


def _is_blind(link: pb.LinkStats) -> bool:
    """Whether nobody can look into it."""
    return bool(link.name) and not link.HasField("packets")


def _fill(link: pb.LinkStats, *, wide: bool) -> Text:
    if _is_blind(link):
        return Text("unknown", "dim")
    return bar(link.packets, link.capacity, wide=wide)


def parts_bar(parts: list[tuple[float, str, str]]) -> Text:
    """Shares of one whole, side by side, each of its own character and in its own colour."""
    text, width = Text(), 24
    for share, character, style in parts:
        text += Text(character * round(max(0.0, min(1.0, share)) * width), style)
    return text


@dataclass(frozen=True)
class CpuShares:
    """What became of a CPU's time."""

    busy: float
    spinning: float
    known: bool = True  # else the time that functions have worked is in `spinning`

    @property
    def idle(self) -> float:
        """The rest of the CPU: it is idle, or runs other processes."""
        return max(0.0, 1.0 - self.busy - self.spinning)


@dataclass(frozen=True)
class Rates:
    """Two snapshots, and what happened between them."""

    before: pb.Stats
    now: pb.Stats

    @property
    def seconds(self) -> float:
        """Between the two."""
        return max(1e-9, (self.now.time_ns - self.before.time_ns) / 1e9)

    def functions(self) -> Iterator[tuple[pb.FunctionStats, pb.FunctionStats]]:
        """Each function, before and now."""
        return _pairs(self.before.functions, self.now.functions, lambda function: function.name)

    def rate(self, column: Column, before: Message, now: Message) -> float:
        """By how much the counters of a column grew in a second. Those that began anew did not."""
        grown = (one.read(now) - one.read(before) for one in column.readings)
        return sum(max(0.0, growth) for growth in grown) / self.seconds

    def cell(self, column: Column, before: Message, now: Message) -> str:
        """That rate; – where the counters are not known."""
        return number(self.rate(column, before, now)) if column.known(now) else "–"

    def cpu(self, cpu: int) -> CpuShares:
        """What all functions of a CPU used of it. They spin whenever they do not work."""
        here = [(was.time, now.time) for was, now in self.functions() if now.cpu == cpu]
        known = all(state.known(now) for _, now in here for state in columns.HAS_CPU)
        busy, spinning = (
            sum(self.rate(state, was, now) for was, now in here) for state in columns.HAS_CPU
        )
        return CpuShares(busy, spinning, known)


def _pairs(
    before: Iterable[_M], now: Iterable[_M], key: Callable[[_M], Hashable]
) -> Iterator[tuple[_M, _M]]:
    """Each part of a snapshot as it was before and is now; one that is new was empty before."""
    earlier = {key(part): part for part in before}
    for part in now:
        yield earlier.get(key(part), type(part)()), part


def _table(shown: Sequence[Column], *, title: str = "", wide: bool = True) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False,
        collapse_padding=not wide,
    )  # fmt: skip
    for index, column in enumerate(shown):
        left = index == 0 or column is columns.EDGE
        justify: Literal["left", "right"] = "left" if left else "right"
        table.add_column(column.title, justify=justify, no_wrap=column.title not in _NAMES)
    return table


def _total(column: Column, now: Message) -> str:
    """The sum of the counters of a column; – where they are not known."""
    total = sum(one.read(now) for one in column.readings)
    return number(total) if column.known(now) else "–"


def live_view(name: str, rates: Rates, width: int) -> RenderableType:
    """What `unis top` and `unis up` show, on a terminal of `width` columns."""
    wide = width >= _WIDE
    now = rates.now
    title = f"{name}: policy {names.policy_name(now.policy)}"
    if now.controller:
        title += f", controller {names.controller_name(now.controller)}"
    tables = [
        _edges(rates), _functions(rates, wide, states=width >= _WIDEST), _cores(rates, wide),
        _platform(rates),
    ]  # fmt: skip
    shown = [_chains(title, rates), *(table for table in tables if table.row_count)]
    return Group(*(part for table in shown for part in (table, "")), *about_cpus(now, rates.before))


def _chains(title: str, rates: Rates) -> Table:
    table = _table((*columns.TOP_CHAINS, _UNTITLED), title=title)
    for before, now in _pairs(rates.before.chains, rates.now.chains, lambda chain: chain.name):
        table.add_row(
            now.name,
            rates.cell(columns.OFFERED_RATE, before, now),
            rates.cell(columns.DELIVERED_RATE, before, now),
            f"{rates.rate(columns.BIT_RATE, before, now) * 8 / 1e9:.2f}",
            rates.cell(columns.REFUSED_RATE, before, now),
            Text(f"down: {now.down} is not there", "red") if now.down else "",
        )
    return table


def _edges(rates: Rates) -> Table:
    """The edges of chains with branches; without such chains the table is empty."""
    table = _table(columns.TOP_EDGES)
    for before, now in _pairs(rates.before.chains, rates.now.chains, lambda chain: chain.name):
        if not has_branches(now):
            continue
        for at, (was, edge) in enumerate(_pairs(before.edges, now.edges, ends_of)):
            origin = _origin(edge)
            dropped = rates.cell(columns.DROPPED_RATE, was, edge)
            table.add_row(
                now.name if at == 0 else "",
                f"{origin or _INGRESS} → {edge.to or _EGRESS}",
                rates.cell(columns.TAKEN_RATE, was, edge),
                Text(dropped, "" if dropped == "0" else "red"),
                _total(columns.EDGE_WAITING, edge),
            )
    return table


def _functions(rates: Rates, wide: bool, *, states: bool) -> Table:
    table = _table(columns.top_functions(states=states), wide=wide)
    for before, now in rates.functions():
        running = now.state == pb.FUNCTION_STATE_RUNNING
        own = [
            Text(now.name, "bold" if running else ""),
            str(now.cpu),
            *_shares(before.time, now.time, columns.STATES if states else columns.HAS_CPU),
        ]
        switches = rates.cell(columns.TURN_RATE, before, now)
        paths = _pairs(before.paths, now.paths, lambda path: path.chain)
        for row, (was, path) in enumerate(paths):
            drops = rates.cell(columns.DROP_RATE, was, path)
            first = own if row == 0 else [""] * len(own)
            table.add_row(
                *first,
                path.chain,
                rates.cell(columns.PACKET_RATE, was, path),
                _fill(path.ingress, wide=wide),
                _fill(path.egress, wide=wide),
                switches if row == 0 else "",
                Text(drops, "" if drops in ("0", "–") else "red"),
            )
    return table


def _cores(rates: Rates, wide: bool) -> Table:
    table = _table((*columns.TOP_CPUS, _UNTITLED), wide=wide)
    for before, core in _pairs(rates.before.cores, rates.now.cores, lambda core: core.cpu):
        shares = rates.cpu(core.cpu)
        table.add_row(
            str(core.cpu),
            f"{shares.busy:.0%}" if shares.known else "unknown",
            f"{shares.spinning:.0%}" if shares.known else "unknown",
            f"{shares.idle:.0%}",
            rates.cell(columns.SWITCH_RATE, before, core),
            rates.cell(columns.REST_RATE, before, core),
            rates.cell(columns.WAKE_RATE, before, core),
            parts_bar(
                [
                    (shares.busy, "█", "green"),
                    (shares.spinning, "▒" if shares.known else "?", "yellow"),
                    (shares.idle, "·", "bright_black"),
                ]
            ),
        )
    return table


def _platform(rates: Rates) -> Table:
    """The engine's own parts: where the CPU of the platform limits the chains, busy nears 100 %."""
    table = _table(columns.TOP_PLATFORM)
    parts = _pairs(rates.before.components, rates.now.components, lambda part: part.name)
    for before, now in parts:
        unit = "switches" if now.name.startswith("scheduler") else "packets"
        table.add_row(
            now.name,
            str(now.cpu),
            f"{rates.rate(columns.BUSY_PART, before, now):.0%}",
            f"{rates.cell(columns.HANDLED_RATE, before, now)} {unit}",
        )
    used = rates.rate(columns.ENGINE_CPU, rates.before, rates.now)
    table.add_row("all, with polling", "", f"{used:.0%}", "")
    return table


def _shares(before: pb.FunctionTime, now: pb.FunctionTime, shown: Sequence[Column]) -> list[str]:
    """What of the time of its threads, from `before` to `now`, a function was in each state."""
    grown = {
        state.title: state.readings[0].read(now) - state.readings[0].read(before)
        for state in columns.STATES
    }
    elapsed = sum(grown.values())
    known = elapsed > 0 and min(grown.values()) >= 0  # else they began anew
    return [
        (f"{grown[state.title] / elapsed:.0%}" if known else "–") if state.known(now) else "unknown"
        for state in shown
    ]


def _cost(function: pb.FunctionStats) -> str:
    assumed = function.cost_source == pb.COST_SOURCE_ASSUMED
    return f"{function.cost_ns:.1f}{' assumed' if assumed else ''}"


def processes(stats: pb.Stats, noted: Mapping[str, FunctionProcess]) -> Table:
    """Processes, their state and what became of their packets; `noted` by the launcher."""
    table = _table(columns.PS_FUNCTIONS)
    for function in stats.functions:
        note = noted.get(function.name)
        ended = note is not None and bool(note.ended)
        own = [
            function.name,
            "–" if ended else str(function.pid),
            "–" if ended else str(function.threads),
            str(function.cpu),
            Text("exited", "red") if ended else names.state_name(function.state),
            str(note.restarts if note else 0),
            "–" if ended else function.scheduling,
            f"{function.cpu_time_ns / 1e9:.1f} s",
            _cost(function),
        ]
        if not function.paths:
            table.add_row(*own)
        for row, path in enumerate(function.paths):
            counts = (columns.RECEIVED, columns.SENT, columns.LINK_FULL, columns.TAKEN)
            shown = [_total(column, path) for column in counts]
            table.add_row(*(own if row == 0 else [""] * len(own)), path.chain, *shown)
    return table


def times(stats: pb.Stats) -> Table:
    """What functions did with their time since UNiS schedules them."""
    table = _table(columns.PS_TIME)
    for function in stats.functions:
        elapsed = sum(state.read(function.time) for state in columns.ELAPSED.readings)
        shares = _shares(pb.FunctionTime(), function.time, columns.STATES)
        table.add_row(function.name, f"{elapsed:.1f} s", *shares)
    return table


def edges(stats: pb.Stats, waits: Mapping[str, Sequence[float | None]]) -> Table | None:
    """What became of packets on each edge of chains with branches, and how long they wait there
    (`waits`, ns, by chain in the order of its edges); None: there is no such chain."""
    chains = [chain for chain in stats.chains if has_branches(chain)]
    if not chains:
        return None
    table = _table(columns.PS_EDGES)
    for chain in chains:
        known = waits.get(chain.name) or [None] * len(chain.edges)
        for at, (edge, wait) in enumerate(zip(chain.edges, known, strict=True)):
            origin = _origin(edge)
            table.add_row(
                chain.name if at == 0 else "",
                f"{origin or _INGRESS} → {edge.to or _EGRESS}",
                str(edge.port) if origin else "",
                _total(columns.EDGE_OFFERED, edge),
                _total(columns.EDGE_TAKEN, edge),
                Text(_total(columns.EDGE_DROPPED, edge), "red" if edge.dropped else ""),
                _total(columns.EDGE_WAITING, edge),
                "–" if wait is None else f"{wait / 1000:,.0f} µs",
            )
    return table


def mean_waits(snapshots: Sequence[pb.Stats]) -> dict[str, list[float | None]]:
    """By Little's law: the packets that wait, divided by the packets taken in a nanosecond.

    Empty if the chains changed between the snapshots.
    """
    first, last = snapshots[0], snapshots[-1]
    shapes = [
        [(chain.name, [ends_of(edge) for edge in chain.edges]) for chain in snapshot.chains]
        for snapshot in snapshots
    ]
    if any(before != after for before, after in itertools.pairwise(shapes)):
        return {}
    elapsed = last.time_ns - first.time_ns
    found: dict[str, list[float | None]] = {}
    for at, chain in enumerate(first.chains):
        if not has_branches(chain):
            continue
        found[chain.name] = []
        for edge, before in enumerate(chain.edges):
            taken = last.chains[at].edges[edge].taken - before.taken
            waiting = fmean(snapshot.chains[at].edges[edge].waiting for snapshot in snapshots)
            found[chain.name].append(waiting * elapsed / taken if taken > 0 else None)
    return found


def has_branches(chain: pb.ChainStats) -> bool:
    """Whether its packets take several ways."""
    ends = ([_origin(edge) for edge in chain.edges], [edge.to for edge in chain.edges])
    return any(len({*end}) < len(end) for end in ends)


def ends_of(edge: pb.EdgeStats) -> tuple[str, str, int]:
    """What tells it from the other edges of its chain: from, to, and the port that it leaves by."""
    return _origin(edge), edge.to, edge.port


def _origin(edge: pb.EdgeStats) -> str:
    return str(getattr(edge, "from"))  # a keyword of Python


def lost(stats: pb.Stats, noted: Mapping[str, FunctionProcess]) -> Iterator[Text]:
    """A line on each chain and each branch that is down, and on each function that ended."""
    for chain in stats.chains:
        if chain.down:
            yield Text(f"chain {chain.name} is down: {chain.down} is not there", "red")
        branches = dict.fromkeys((_origin(edge) or _INGRESS, edge.to) for edge in chain.edges)
        for origin, to in branches if not chain.down else ():
            if to in noted and noted[to].ended:
                told = f"chain {chain.name}: {origin} → {to} is down: {to} is not there"
                yield Text(told, "red")
    for function in noted.values():
        if function.ended:
            yield Text(f"{function.name} (pid {function.process.pid}) {function.ended}", "red")


def about_goals(
    p95s_ns: Mapping[str, float | None], goals_ns: Mapping[str, float]
) -> Iterator[Text]:
    """A line on each chain with a goal: the p95 latency since the start, and whether it is kept."""
    for name, goal in goals_ns.items():
        p95 = p95s_ns[name]
        measured = "–" if p95 is None else f"{p95 / 1000:,.0f} µs"
        missed = p95 is not None and p95 > goal
        yield Text(
            f"chain {name}: p95 {measured} (goal {goal / 1000:g} µs)", "red" if missed else ""
        )


def about_cpus(stats: pb.Stats, before: pb.Stats | None = None) -> Iterator[Text]:
    """Lines on CPUs: how long turns are where functions hand the CPU over, how long the first
    packets waited for functions that sleep (since `before`, else since the start), and for which
    function all others do not sleep.
    """
    earlier = {core.cpu: core for core in before.cores} if before else {}
    blind = {
        function.name
        for function in stats.functions
        if any(
            path.ingress.name and not path.ingress.HasField("packets") for path in function.paths
        )
    }
    for core in stats.cores:
        was = earlier.get(core.cpu, pb.CoreStats())
        if core.quota:
            yield Text(f"CPU {core.cpu}: turns of up to {core.quota} packets", "dim")
        if core.wakes > was.wakes:
            delay = (core.wake_delay_ns - was.wake_delay_ns) / (core.wakes - was.wakes) / 1000
            told = f"first packets waited {delay:,.0f} µs for functions that slept, on average"
            yield Text(f"CPU {core.cpu}: {told}", "dim")
        seen = core.order_seen - was.order_seen
        wrong = core.out_of_order - was.out_of_order
        if seen and wrong / seen >= _MUCH_OUT_OF_ORDER:
            told = f"{wrong / seen:.0%} of {seen:,} switches that were seen"
            yield Text(f"CPU {core.cpu}: {told} were out of the order of the chain", "dim")
        if core.cannot_rest:
            why = f"{core.cannot_rest} may not sleep"
            if core.cannot_rest in blind:
                why = f"nobody sees whether {core.cannot_rest} has packets"
            yield Text(f"CPU {core.cpu} is never idle: {why}", "dim")
        if core.sends_by_timer:
            told = f"functions poll, because {core.sends_by_timer} sends packets by a timer"
            yield Text(f"CPU {core.cpu}: {told}", "dim")


def about_stopped(stats: pb.Stats) -> Iterator[Text]:
    """Lines on functions that a signal has stopped, with what lets them go on."""
    for function in stats.functions:
        if function.state == pb.FUNCTION_STATE_STOPPED:
            yield Text(
                f"{function.name} was stopped by a signal; let it go on by "
                f"`kill -CONT {function.pid}`",
                "red",
            )


def counts_all(stats: pb.Stats) -> bool:
    """Whether all functions count their packets: only those on rings do."""
    return all(path.counted for function in stats.functions for path in function.paths)


def account_text(account: pb.Account, *, counted: bool = True) -> Text:
    """The account of packets, red if packets are missing from an exact one; `counted` by all
    functions."""
    kind = "exact" if account.exact else "while running"
    wrong = account.exact and account.unaccounted != 0
    return Text(
        f"packets ({kind}): {account_line(account, counted=counted)}", "red" if wrong else ""
    )
