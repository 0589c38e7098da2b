"""What became of every packet, in one line."""

from unis.v1 import engine_pb2 as pb


def account_line(account: pb.Account) -> str:
    """offered = delivered + dropped + in flight."""
    dropped = {
        "first ring full": account.dropped_ingress_full,
        "a link full": account.dropped_egress_full,
        "by functions": account.dropped_by_function,
        "by the kernel, on links": account.dropped_on_links,
        "a chain down": account.dropped_down,
        "unclassified": account.unclassified,
        "at the sink": account.dropped_sink,
    }
    parts = [f"{count:,} {why}" for why, count in dropped.items() if count]
    causes = f" ({', '.join(parts)})" if parts else ""
    line = (
        f"{account.offered:,} offered = {account.delivered:,} delivered + "
        f"{sum(dropped.values()):,} dropped{causes} + {account.in_flight:,} in flight"
    )
    # While packets move, counters are read one after the other and need not add up.
    missing = account.unaccounted if account.exact else 0
    return line + (f"; {missing:,} unaccounted for" if missing else "")
