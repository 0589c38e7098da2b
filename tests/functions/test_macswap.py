"""macswap: every frame comes back with its addresses swapped, and nothing else changed."""

import time
from random import Random

import pytest
from hypothesis import given

from tests.functions.function_run import Frames, Runner
from tests.functions.random_frames import REAL_PROGRAM, SEEDS, random_frames


def swapped(frames: Frames) -> list[bytes]:
    return [f[6:12] + f[:6] + f[12:] if len(f) >= 12 else f for f in frames]


def test_real_capture(run: Runner, capture: list[bytes]) -> None:
    assert run("macswap", capture).sent == swapped(capture)


@pytest.mark.parametrize("cost", ["light", "heavy", "1000", "64:0,200:500,1500:50"])
def test_cost_changes_no_packet(run: Runner, cost: str, capture: list[bytes]) -> None:
    assert run("macswap", capture[:200], "--cost", cost).sent == swapped(capture[:200])


@REAL_PROGRAM
@given(seed=SEEDS)
def test_random_frames(run: Runner, seed: int) -> None:
    frames = random_frames(Random(seed))
    assert run("macswap", frames).sent == swapped(frames)


def test_jumbo_frames_of_several_segments(run: Runner) -> None:
    frames = [bytes(range(256)) * n for n in (8, 9, 16, 35)]
    assert run("macswap", frames).sent == swapped(frames)


def test_cooperative_forwards_the_same(run: Runner, capture: list[bytes]) -> None:
    ran = run("macswap", capture, "--yield-every", "2")
    assert ran.sent == swapped(capture)
    assert ran.counters["yields"] > ran.counters["empty_polls"]


def test_each_stage_swaps_once_more(run: Runner, capture: list[bytes]) -> None:
    assert run("macswap", capture[:100], "--stages", "2").sent == capture[:100]
    assert run("macswap", capture[:100], "--stages", "3").sent == swapped(capture[:100])


def test_each_burst_sleeps(run: Runner, capture: list[bytes]) -> None:
    began = time.monotonic()
    ran = run("macswap", capture[:200], "--sleep", "100000")
    bursts = ran.counters["polls"] - ran.counters["empty_polls"]
    assert ran.sent == swapped(capture[:200])
    assert time.monotonic() - began >= 0.1 * bursts >= 0.1
