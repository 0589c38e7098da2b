"""Counters of a running chain as tables."""

from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unis.engine import names
from unis.launch.launcher import account_line
from unis.v1 import engine_pb2 as pb

_BAR = 12  # characters


def number(value: float) -> str:
    """1234567 as 1.23M: three digits and a letter."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def bar(packets: int, capacity: int) -> Text:
    """How full a ring is."""
    share = min(1.0, packets / capacity) if capacity else 0.0
    filled = round(share * _BAR)
    style = "red" if share > 0.9 else "yellow" if share > 0.75 else "green"
    return Text("█" * filled, style) + Text("░" * (_BAR - filled), "dim") + f" {packets:>5}"


def parts_bar(parts: list[tuple[float, str]]) -> Text:
    """Shares of one whole, side by side, each in its colour."""
    text, width = Text(), 24
    for share, style in parts:
        text += Text("█" * round(max(0.0, min(1.0, share)) * width), style)
    return text


@dataclass(frozen=True)
class Rates:
    """Two snapshots, and what happened between them."""

    before: pb.Stats
    now: pb.Stats

    @property
    def seconds(self) -> float:
        """Between the two."""
        return max(1e-9, (self.now.time_ns - self.before.time_ns) / 1e9)

    def nf(self, index: int, counter: str) -> float:
        """The rate of an NF's counter, per second."""
        now, before = self.now.nfs[index], self.before.nfs[index]
        return float((getattr(now, counter) - getattr(before, counter)) / self.seconds)

    def chain(self, index: int, counter: str) -> float:
        """The rate of a chain's counter, per second."""
        now, before = self.now.chains[index], self.before.chains[index]
        return float((getattr(now, counter) - getattr(before, counter)) / self.seconds)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    return table


def live_view(name: str, rates: Rates) -> RenderableType:
    """What `unis top` and `unis up` show."""
    now = rates.now
    title = f"{name}: policy {names.policy_name(now.policy)}"
    return Group(
        _chains(title, rates), "", _functions(rates), "", _cores(rates), "", _platform(rates)
    )


def _chains(title: str, rates: Rates) -> Table:
    table = _table(title, "chain", "offered/s", "delivered/s", "Gbit/s", "refused/s")
    for index, chain in enumerate(rates.now.chains):
        table.add_row(
            chain.name,
            number(rates.chain(index, "offered")),
            number(rates.chain(index, "delivered")),
            f"{rates.chain(index, 'delivered_bytes') * 8 / 1e9:.2f}",
            number(rates.chain(index, "dropped_ingress_full")),
        )
    return table


def _functions(rates: Rates) -> Table:
    table = _table(
        "", "function", "CPU", "share", "packets/s", "ingress", "egress", "switches/s", "drops/s"
    )
    for index, nf in enumerate(rates.now.nfs):
        drops = rates.nf(index, "dropped_egress_full") + rates.nf(index, "dropped_by_function")
        table.add_row(
            Text(nf.name, "bold" if nf.state == "running" else ""),
            str(nf.cpu),
            f"{rates.nf(index, 'cpu_time_ns') / 1e9:.0%}",
            number(rates.nf(index, "rx_packets")),
            bar(nf.ingress_packets, nf.ingress_capacity),
            bar(nf.egress_packets, nf.egress_capacity),
            number(rates.nf(index, "switched_in")),
            Text(number(max(0.0, drops)), "red" if drops > 0 else ""),
        )
    return table


def _cores(rates: Rates) -> Table:
    table = _table("", "CPU", "busy", "spinning", "idle", "")
    for core in rates.now.cores:
        table.add_row(
            str(core.cpu),
            f"{core.busy:.0%}",
            f"{core.spinning:.0%}",
            f"{core.idle:.0%}",
            parts_bar(
                [(core.busy, "green"), (core.spinning, "yellow"), (core.idle, "bright_black")]
            ),
        )
    return table


def _platform(rates: Rates) -> Table:
    """The engine's own parts: where the CPU of the platform limits the chains, busy nears 100 %."""
    table = _table("", "platform", "CPU", "busy", "handles/s")
    for before, now in zip(rates.before.components, rates.now.components, strict=True):
        unit = "switches" if now.name == "scheduler" else "packets"
        table.add_row(
            now.name,
            str(now.cpu),
            f"{(now.busy_ns - before.busy_ns) / 1e9 / rates.seconds:.0%}",
            f"{number((now.handled - before.handled) / rates.seconds)} {unit}",
        )
    return table


def processes(stats: pb.Stats) -> Table:
    """Processes, their state and what became of their packets."""
    table = _table(
        "", "function", "chain", "pid", "CPU", "state", "class", "received", "sent", "ring full",
        "by function",
    )  # fmt: skip
    for nf in stats.nfs:
        packets = (
            nf.rx_packets, nf.tx_packets, nf.dropped_egress_full, nf.dropped_by_function
        )  # fmt: skip
        table.add_row(
            nf.name, nf.chain, str(nf.pid), str(nf.cpu), nf.state, nf.scheduling,
            *map(number, packets),
        )  # fmt: skip
    return table


def account_text(account: pb.Account) -> Text:
    """The account of packets, red if packets are missing from an exact one."""
    kind = "exact" if account.exact else "while running"
    wrong = account.exact and account.unaccounted != 0
    return Text(f"packets ({kind}): {account_line(account)}", "red" if wrong else "")
