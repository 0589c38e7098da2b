"""What the comparison of simulator and machine concludes."""

import pytest
from typer.testing import CliRunner

from evaluation import agreement as bench
from evaluation.agreement import Comparison, difference, judged_pairs
from evaluation.app import app
from tests.python.planned import path_of
from unis.bench.synthetic import macswap_chain


def test_the_difference_is_taken_within_the_rounds() -> None:
    machine = [{"unis": 0.8, "cooperative": 1.0}, {"unis": 8.0, "cooperative": 10.0}]
    simulator = [{"unis": 0.9, "cooperative": 1.0}, {"unis": 9.5, "cooperative": 10.0}]
    found = difference(machine, simulator)
    assert found
    assert found.median == pytest.approx(0.125)
    assert found.low == pytest.approx(0.1)
    assert found.high == pytest.approx(0.15)


def test_rounds_in_which_nothing_arrived_are_left_out_and_counted() -> None:
    machine = [{"unis": 0.8, "cooperative": 0.0}, {"unis": 0.8, "cooperative": 1.0}]
    simulator = [{"unis": 0.9, "cooperative": 1.0}] * 2
    found = difference(machine, simulator)
    assert found
    assert (found.rounds, found.left_out) == (1, 1)
    assert difference(machine[:1], simulator[:1]) is None


def test_the_chain_runs_on_one_cpu_that_is_not_the_platforms() -> None:
    file = macswap_chain("agreement", "light", 3, 1).file
    assert path_of(file, "chain") == ["macswap1", "macswap2", "macswap3"]
    assert file.cpus == {1}


FAR = {"cooperative": 4.1, "unis": 4.0, "rr": 0.01, "other": 0.2}


def test_unis_and_cooperative_are_not_judged() -> None:
    """The simulator knows no caches, so it cannot tell which of those two is ahead."""
    turned = {**FAR, "cooperative": 2.0, "unis": 6.0}
    judged = judged_pairs([FAR], [turned])
    assert "cooperative, unis" not in judged
    assert set(judged) == {
        "cooperative, rr", "cooperative, other", "unis, rr", "unis, other", "rr, other",
    }  # fmt: skip
    assert all(judged.values())


def test_policies_that_are_the_other_way_round_are_named() -> None:
    judged = judged_pairs([FAR], [{**FAR, "rr": 9.0}])
    wrong = [pair for pair, same in judged.items() if not same]
    assert wrong == ["cooperative, rr", "unis, rr", "rr, other"]


def test_what_is_too_close_has_no_order() -> None:
    close = [{"unis": 1.0, "rr": 1.0, "other": 0.1}]
    far = [{"unis": 1.0, "rr": 9.0, "other": 0.1}]
    assert judged_pairs(close, far) == {"unis, other": True, "rr, other": True}


def test_two_policies_that_delivered_nothing_have_no_order() -> None:
    nothing = {**FAR, "rr": 0.0, "other": 0.0}
    assert "rr, other" not in judged_pairs([nothing], [FAR])
    assert judged_pairs([nothing], [FAR])["unis, rr"]


def test_policies_are_compared_within_a_round() -> None:
    drifting = [{"unis": 4.0, "rr": 2.0}, {"unis": 1.0, "rr": 0.5}, {"unis": 0.2, "rr": 0.1}]
    assert judged_pairs(drifting, [{"unis": 2, "rr": 1}]) == {"unis, rr": True}
    assert judged_pairs(drifting, [{"unis": 1, "rr": 2}]) == {"unis, rr": False}


def comparison(**judged: bool) -> Comparison:
    return Comparison(
        functions=2, cost_ns={}, switch_ns=1, yield_ns=1, machine_mpps=FAR, simulator_mpps=FAR,
        machine_ratio=None, simulator_ratio=None, difference=None, judged=judged,
    )  # fmt: skip


def test_where_nothing_could_be_told_apart_nothing_agrees() -> None:
    assert not comparison().agrees
    assert comparison(a=True).agrees
    assert not comparison(a=True, b=False).agrees


def agreement(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["agreement", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize("lengths", ["0", "2,40", "-1", "", "two", "32"])
def test_lengths_are_looked_at_before_anything_is_measured(
    lengths: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "compare", lambda *_: pytest.fail("it was measured"))
    code, said = agreement("--functions", lengths)
    assert code == 2
    assert "lengths from 1 to 31" in said


def test_a_full_disk_is_told_with_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "compare", lambda *_: comparison(a=True))
    code, said = agreement("--functions", "2", "--out", "/dev/full")
    assert code == 1
    assert "1 of 1 pairs" in said
    assert "cannot write /dev/full: No space left on device" in said
