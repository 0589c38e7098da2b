"""What others had of the CPUs is told where it matters."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unis.measure import disturbance
from unis.measure.disturbance import Disturbance, others_busy, remark
from unis.measure.summary import summarise_arm
from unis.v1 import engine_pb2 as pb

SECOND = 10**9


def window(*stolen: float, seconds: float = 1) -> pb.MeasureReply:
    """A window in which this share of each CPU was stolen."""
    ns = round(seconds * SECOND)
    return pb.MeasureReply(
        window_ns=ns, stolen_ns={cpu: round(share * ns) for cpu, share in enumerate(stolen)}
    )


shares = st.lists(st.floats(0, 1), min_size=2, max_size=2)


@given(st.lists(shares, max_size=20), st.lists(shares, max_size=20))
def test_parts_of_equal_windows_add_up(one: list[list[float]], other: list[list[float]]) -> None:
    first, second = [window(*cpus) for cpus in one], [window(*cpus) for cpus in other]
    whole = Disturbance.of(first + second)
    added = Disturbance.of(first) + Disturbance.of(second)
    same = {key: pytest.approx(getattr(whole, key)) for key in ("stolen", "cpu_seconds")}
    assert added == whole.model_copy(update=same)
    assert 0 <= whole.stolen <= whole.worst <= 1
    assert whole.disturbed <= whole.windows == len(one) + len(other)


windows = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 10))


@given(st.lists(windows, max_size=20), st.lists(windows, max_size=20))
def test_parts_of_unequal_windows_add_up(
    one: list[tuple[float, float, float]], other: list[tuple[float, float, float]]
) -> None:
    first, second = (
        [window(*stolen, seconds=seconds) for *stolen, seconds in part] for part in (one, other)
    )
    whole = Disturbance.of(first + second)
    added = Disturbance.of(first) + Disturbance.of(second)
    assert added.stolen == pytest.approx(whole.stolen)


def test_long_windows_count_for_more() -> None:
    found = Disturbance.of([window(0.1, 0.1, seconds=3), window(0, 0, seconds=1)])
    assert found.stolen == pytest.approx(0.075)
    assert (found.windows, found.disturbed) == (2, 1)
    assert found.worst == pytest.approx(0.1)


def test_a_run_that_was_disturbed_says_so() -> None:
    quiet = Disturbance.of([window(0, 0)] * 9)
    assert remark([quiet]) is None
    assert remark([]) is None
    told = remark([quiet, Disturbance.of([window(0.3, 0.1)])])
    assert told
    assert "2.0% of the CPUs' time" in told
    assert "1 of 10 windows" in told
    assert "up to 20%" in told


def test_a_tick_now_and_then_is_none() -> None:
    """10 ms of one CPU in one of 50 windows of 0.2 s."""
    assert remark([Disturbance.of([window(0, 0, seconds=0.2)] * 49 + [window(0.05, 0)])]) is None


def test_a_machine_that_does_not_tell_is_not_disturbed() -> None:
    assert Disturbance.of([pb.MeasureReply(window_ns=SECOND)]).stolen == 0


def test_an_arm_has_that_of_its_windows() -> None:
    rounds = [{"unis": window(0.5, 0.5), "rr": window(0, 0)}] * 3
    assert summarise_arm(rounds, "unis").disturbed.disturbed == 3
    assert summarise_arm(rounds, "rr").disturbed.disturbed == 0


@pytest.mark.parametrize(
    ("ticks", "ours", "cpus"),
    [
        ([0, 0, 0, 400, 0, 0, 0, 0], 0.0, 0.0),
        ([250, 50, 100, 0, 0, 0, 0, 0], 3.0, 0.5),  # 4 s, of which 3 are ours, in 2 s
        ([0, 0, 0, 400, 400, 200, 200, 0], 0.0, 0.0),  # idle, disks, interrupts
        ([100, 0, 0, 0, 0, 0, 100, 30], 2.0, 0.15),  # ours has interrupts in it; stolen is stolen
    ],
)
def test_what_others_have_kept_busy(
    ticks: list[int], ours: float, cpus: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(disturbance, "_STAT", stat)
    hz = os.sysconf("SC_CLK_TCK")

    def at(seconds: float, more: list[int], used: float) -> None:
        words = [1000 + tick * hz // 100 for tick in more]
        stat.write_text(f"cpu  {' '.join(map(str, words))} 7 7\ncpu0 1 2 3\n")
        monkeypatch.setattr(disturbance, "monotonic", lambda: 50 + seconds)
        times = SimpleNamespace(times=lambda: (used / 2, 0.0, used / 2, 0.0, 99.0))
        monkeypatch.setattr(disturbance, "os", SimpleNamespace(sysconf=os.sysconf, **vars(times)))

    at(0, [0] * 8, 0)
    busy = others_busy()
    at(2, ticks, ours)
    assert busy() == pytest.approx(cpus)


@pytest.mark.system
def test_another_program_keeps_a_cpu_busy() -> None:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as hog:
        try:
            busy = others_busy()
            with pytest.raises(subprocess.TimeoutExpired):
                hog.wait(1)
            assert busy() > 0.2
        finally:
            hog.kill()
