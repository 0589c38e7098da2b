"""Sampled packets of one window, followed from the source to the sink."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from unis.errors import UnisError
from unis.parts.accounting import Account, Watched, account
from unis.parts.passages import PassageLog, noting
from unis.parts.threads import ThreadStates
from unis.parts.tracer import ThreadWatch, tracing

_Measured = TypeVar("_Measured")


@dataclass(frozen=True)
class Followed:
    """What became of the packets."""

    account: Account
    lost: int  # events of threads

    def check(self) -> None:
        """UnisError: none was followed from end to end."""
        if not self.account.packets:
            reasons = self.account.left_out.most_common()
            why = ", ".join(f"{count} {reason}" for reason, count in reasons)
            raise UnisError(
                f"no packet could be followed from end to end ({why or 'none was seen'})",
                bad_input=False,
            )


def threads_of(logs: Mapping[str, PassageLog]) -> list[int]:
    """TIDs. A thread is known once it has noted a packet."""
    return sorted({tid for log in logs.values() for tid in log.threads})


def follow(
    logs: Mapping[str, PassageLog],
    functions: Sequence[str],
    mark: int,
    watch: ThreadWatch,
    work: Callable[[], _Measured],
) -> tuple[_Measured, Followed]:
    """While `work` measures. `functions` in the order of the chain, `mark`: of packets. Programs
    look as many times as `watch` has sets. UnisError: it cannot, or a program has ended.
    """
    with tracing(watch) as traced, noting(logs, traced.sampling(mark), watch.sets) as noted:
        measured = work()
    for name, log in logs.items():
        if log.is_over:
            raise UnisError(
                f"{name} has ended while its packets were followed; profile the chain again",
                bad_input=False,
            )
    recording = traced.recording()
    open_ = round(traced.period * watch.open / watch.period)
    watched = Watched(ThreadStates(recording.events), traced.origin, traced.period, open_)
    found = account(noted.passages, functions, recording.clock, watched if watch.threads else None)
    return measured, Followed(found, recording.lost)
