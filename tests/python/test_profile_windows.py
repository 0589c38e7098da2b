"""Readings of a machine that drifts, and that others disturb."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.python.strategies import scaled
from unis.measure import waiting
from unis.profile.windows import OnMachine, Sample, Window, reading
from unis.runtime.errors import RunFailedError


class Drifting:
    """A queue whose speed wanders, within a factor of two, and that is disturbed now and then."""

    def __init__(self, seed: int, disturbed: float = 0.0) -> None:
        self._random = random.Random(seed)
        self._disturbed = disturbed
        self._speed = 1.0
        self.ways = 16
        self.opened_at: list[float] = []

    def _window(self, mpps: float | None) -> Window:
        self._speed = min(2.0, max(1.0, self._speed * self._random.uniform(0.99, 1.01)))
        passes = 3.0 * self._speed * self.ways / 16
        if self._random.random() < self._disturbed:  # something takes most of the CPU
            return Window(passes / 4, 9999.0, 0.1, waited=0.7)
        if mpps is None:
            return Window(passes, 500.0, 0.0)
        self.opened_at.append(mpps / passes)
        return Window(mpps, 20 / (1 - min(0.99, mpps / passes)), 0.0)

    def closed(self) -> Window:
        return self._window(None)

    def opened(self, mpps: float) -> Window:
        return self._window(mpps)


@settings(max_examples=scaled(30))
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.2]))
def test_a_load_is_one_of_what_passes_meanwhile(seed: int, disturbed: float) -> None:
    machine = Drifting(seed, disturbed)
    for load in (0.1, 0.5, 0.8):
        found = OnMachine(machine, 9).latency(load)
        if found.disturbed < 0.5:  # else too few windows were undisturbed, and the reading says so
            assert found.value == pytest.approx(20 / (1 - load), rel=0.1)
        if not disturbed:
            assert found.disturbed == 0
            assert found.lost == 0


def test_a_load_that_turned_out_to_be_another_is_told() -> None:
    """The machine became half as fast in the middle of it: nobody knows which load it was."""

    class Slowing(Drifting):
        speeds = itertools.cycle([4.0, 2.0])

        def closed(self) -> Window:
            return Window(next(self.speeds), 500.0, 0.0)

    assert OnMachine(Slowing(1), 3).latency(0.5).disturbed == 1


@settings(max_examples=scaled(30))
@given(st.integers(0, 10_000))
def test_throughput_with_some_ways_stands_beside_that_with_all(seed: int) -> None:
    machine = Drifting(seed)
    found = OnMachine(machine, 9, Set(machine)).throughput(4)
    assert found.value == pytest.approx(0.25, rel=0.02)
    assert machine.ways == 16


class Set:
    """Cache ways of the machine above."""

    most = 16

    def __init__(self, machine: Drifting) -> None:
        self._machine = machine

    def set(self, ways: int) -> None:
        self._machine.ways = ways


def test_fewer_ways_than_there_are_can_be_the_whole() -> None:
    machine = Drifting(5)
    backend = OnMachine(machine, 9, Set(machine), whole=8)
    passes, waiting = backend.capacity()
    assert machine.ways == 8
    assert 1.4 < passes.value < 3.1
    assert waiting == pytest.approx(passes.value * 500)
    assert backend.throughput(2).value == pytest.approx(0.25, rel=0.02)
    assert machine.ways == 8
    assert backend.latency(0.5).value == pytest.approx(40, rel=0.1)


def test_a_machine_without_cat_sets_no_ways() -> None:
    with pytest.raises(RunFailedError, match="no cache ways"):
        OnMachine(Drifting(1), 3).throughput(2)


def test_all_ways_are_given_back_whatever_happens() -> None:
    class Dying(Drifting):
        def closed(self) -> Window:
            if self.ways < 16:
                raise RunFailedError("it died")
            return super().closed()

    machine = Dying(1)
    with pytest.raises(RunFailedError):
        OnMachine(machine, 9, Set(machine)).throughput(4)
    assert machine.ways == 16


def test_windows_are_chosen_by_disturbance_not_by_value() -> None:
    samples = [Sample(1.0, 5.0), *(Sample(10.0 + at, 0.5) for at in range(3)), Sample(99, 0)]
    found = reading(iter(samples), 3)
    assert found.value == 11.0
    assert found.disturbed == 0


def endless(value: float, disturbance: float) -> Iterator[Sample]:
    return itertools.repeat(Sample(value, disturbance))


def test_patience_ends_and_is_told() -> None:
    seen = []

    def samples() -> Iterator[Sample]:
        for sample in endless(5.0, 3.0):
            seen.append(sample)
            yield sample

    found = reading(samples(), 4)
    assert len(seen) == 12
    assert found.disturbed == 1
    assert found.value == 5


def test_what_lets_nothing_out() -> None:
    with pytest.raises(RunFailedError, match="no packet came out"):
        reading(endless(0.0, float("inf")), 2)


def test_spread_is_half_of_the_interval() -> None:
    values = [float(value) for value in range(1, 10)]
    found = reading(iter([Sample(value, 0) for value in values]), 9)
    assert (found.value, found.spread) == (5, 3)  # 2 to 8 of nine


def test_capacity_is_what_the_first_ring_takes() -> None:
    assert OnMachine(Drifting(3), 9).capacity()[0].value == pytest.approx(3.0, rel=0.15)


def task(folder: Path, thread: int, ran: int, waited: int) -> None:
    (folder / "7" / "task" / str(thread)).mkdir(parents=True, exist_ok=True)
    (folder / "7" / "task" / str(thread) / "schedstat").write_text(f"{ran} {waited} 9\n")


def test_only_threads_that_carry_packets_count(tmp_path: Path) -> None:
    task(tmp_path, 7, 0, 0)
    task(tmp_path, 8, 0, 0)
    before = waiting.times(7, tmp_path)
    task(tmp_path, 7, 900, 100)
    task(tmp_path, 8, 1, 999)  # a thread of the server
    task(tmp_path, 9, 500, 500)  # it was not there before
    assert waiting.waited(before, waiting.times(7, tmp_path)) == pytest.approx(0.1)
    assert waiting.times(8, tmp_path) == {}
    assert waiting.waited({}, {}) == 0


def test_a_thread_of_this_process_is_seen() -> None:
    assert waiting.times(__import__("os").getpid())
