"""Packets that are followed: which of them passed while their threads were watched."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast

import pytest

from unis.errors import UnisError
from unis.parts import following
from unis.parts.accounting import SINK, SOURCE
from unis.parts.following import Followed, follow
from unis.parts.passages import Direction, Passage, PassageLog, Sampling
from unis.parts.threads import Clock, Recording
from unis.parts.tracer import ThreadWatch

ORIGIN, PERIOD = 1, 3_002  # cycles: the period is 1000 2/3 ns
CLOCK = Clock((0, 0), (3_000_000, 1_000_000))
PLACES = [
    (SOURCE, Direction.SENT), ("f", Direction.RECEIVED), ("f", Direction.SENT),
    (SINK, Direction.RECEIVED),
]  # fmt: skip


def passages(count: int) -> dict[str, list[Passage]]:
    """Of a packet at the begin of each period, which is at each place for 30 cycles."""
    found: dict[str, list[Passage]] = {name: [] for name, _ in PLACES}
    for stamp in range(ORIGIN, ORIGIN + count * PERIOD, PERIOD):
        for at, (name, direction) in enumerate(PLACES):
            begin = stamp + 30 * at
            found[name].append(Passage(stamp, begin, begin + 30, direction, 7))
    return found


def followed(
    count: int, open_: float, monkeypatch: pytest.MonkeyPatch, *, is_over: bool = False
) -> Followed:
    @contextmanager
    def tracing(_: ThreadWatch) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(
            origin=ORIGIN,
            period=PERIOD,
            sampling=lambda mark: Sampling(mark, ORIGIN, PERIOD, 1 << 60),
            recording=lambda: Recording([], CLOCK),
        )

    @contextmanager
    def noting(*_: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(passages=passages(count))

    monkeypatch.setattr(following, "tracing", tracing)
    monkeypatch.setattr(following, "noting", noting)
    watch = ThreadWatch([7], 0, PERIOD / 3e9, open_, 1)
    logs = {"f": cast("PassageLog", SimpleNamespace(is_over=is_over))}
    measured, found = follow(logs, ["f"], 5, watch, lambda: "measured")
    assert measured == "measured"
    return found


def test_after_many_periods_it_is_still_known_when_threads_were_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = followed(900, 50e-9, monkeypatch)
    assert found.account.left_out == {}
    assert len(found.account.packets) == 900


def test_packets_that_take_longer_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = followed(900, 30e-9, monkeypatch)
    assert len(found.account.slow) == 900
    assert found.account.packets == []


def test_a_function_that_ends_meanwhile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnisError, match=r"^f has ended while its packets were followed"):
        followed(10, 50e-9, monkeypatch, is_over=True)
