"""What became of every packet, in one line."""

from unis.counters.declared import ESTIMATED, OUTCOMES
from unis.v1 import engine_pb2 as pb

# Short words on each field of Account that counts packets which were dropped.
DROPPED = {
    reading.path.removeprefix("account."): reading.short
    for reading in (*OUTCOMES.readings, *ESTIMATED.readings)
    if reading.short
}


def account_line(account: pb.Account, *, counted: bool = True) -> str:
    """offered = delivered + dropped + in flight, and what became of copies.

    Of functions that do not count (`counted` is false) nobody knows, while packets move, which
    packets they hold and which they have dropped.
    """
    in_flight = "in flight" if counted or account.exact else "in flight or dropped by functions"
    dropped: dict[str, int] = {why: getattr(account, field) for field, why in DROPPED.items()}
    parts = [f"{count:,} {why}" for why, count in dropped.items() if count]
    causes = f" ({', '.join(parts)})" if parts else ""
    line = (
        f"{account.offered:,} offered{_with(account.copied, 'copied')} = "
        f"{account.delivered:,} delivered{_with(account.copies_ended, 'copies watched')} + "
        f"{sum(dropped.values()):,} dropped{causes} + {account.in_flight:,} {in_flight}"
    )
    if account.copies_dropped:
        line += f"; {account.copies_dropped:,} not copied, for a link was full"
    # While packets move, counters are read one after the other and need not add up.
    missing = account.unaccounted if account.exact else 0
    return line + (f"; {missing:,} unaccounted for" if missing else "")


def _with(count: int, what: str) -> str:
    return f" + {count:,} {what}" if count else ""
