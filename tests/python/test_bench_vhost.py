"""`evaluation vhost`: its chains, its figures and its verdict."""

from pathlib import Path

import pytest

from evaluation import vhost
from evaluation.vhost import KINDS, VhostResults, VhostRow, VhostSettings
from tests.python.commands import evaluation
from unis.bench import third_party
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Quartiles, Ratio
from unis.measure.summary import MachineSummary
from unis.runtime.errors import LaunchError
from unis.v1 import engine_pb2 as pb


def window(mpps: float) -> pb.MeasureReply:
    return pb.MeasureReply(delivered=round(mpps * 1e6), window_ns=1_000_000_000)


def row(lo: float, hi: float, length: int = 1) -> VhostRow:
    spread = Quartiles(median=(lo + hi) / 2, q1=lo, q3=hi)
    return VhostRow(
        length=length, mpps=dict.fromkeys(KINDS, spread), ratio_quartiles=spread, by_block=[lo, hi],
        ratio=Ratio(median=(lo + hi) / 2, lo=lo, hi=hi),
    )  # fmt: skip


def test_windows_of_one_round_are_compared() -> None:
    slow = [{"memif": window(1.0), "vhost": window(0.8)}] * 3
    fast = [{"vhost": window(4.4), "memif": window(4.0)}] * 3
    found = vhost.row_of(2, [slow, fast])
    assert found.length == 2
    assert found.by_block == pytest.approx([0.8, 1.1])
    assert found.ratio
    assert found.ratio.median == pytest.approx(0.95)
    assert found.mpps["memif"].median == pytest.approx(2.5)
    assert found.kept is None


def test_where_memif_passed_nothing_there_is_no_verdict() -> None:
    found = vhost.row_of(1, [[{"memif": window(0), "vhost": window(1)}]])
    assert (found.ratio, found.ratio_quartiles, found.kept) == (None, None, None)


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [
        ([row(0.95, 1.05)], 0, "1 testpmd on vhost: at least 0.9 of memif"),
        ([row(0.85, 0.95)], 0, "1 testpmd on vhost: 0.9 of memif or less, these windows cannot"),
        ([row(0.75, 0.85)], 1, "1 testpmd on vhost: less than 0.9 of memif"),
        ([row(0.75, 0.85, length=4)], 0, "4 testpmd on vhost: less than 0.9 of memif"),
    ],
)
def test_the_verdict_is_that_of_the_whole_interval(
    rows: list[VhostRow], code: int, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[VhostSettings] = []
    results = VhostResults(
        machine=MachineSummary.this(2), window_s=0.3, rounds=24, blocks=3, rows=rows,
        disturbed=Disturbance(windows=48, disturbed=0, stolen=0, worst=0),
    )  # fmt: skip

    def measure(settings: VhostSettings, *_: object) -> VhostResults:
        asked.append(settings)
        return results

    monkeypatch.setattr(vhost, "measure", measure)
    found, output = evaluation("vhost", "--quick", "--lengths", "1,4,1", "-o", tmp_path)
    assert (found, asked) == (code, [VhostSettings([1, 4], blocks=3, rounds=8, window=0.3)])
    assert said in output
    assert VhostResults.model_validate_json((tmp_path / "results.json").read_text()) == results


def test_without_testpmd_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(third_party, "testpmd", lambda: None)
    with pytest.raises(LaunchError, match="run `tools/third-party testpmd`"):
        vhost.chains(KINDS, 1, 1, tmp_path)


def test_both_chains_have_the_same_programs_and_slots(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(third_party, "testpmd", lambda: {"command": ["x"], "lcores": 2})
    for kinds in (KINDS, KINDS[::-1]):
        chain = vhost.chains(kinds, 2, 1, tmp_path).file
        assert chain.chains["vhost"].path == ["vhost1", "vhost2"]
        links = [(link.kind, link.slots) for link in chain.links]
        assert links == [(kind, 2048) for kind in kinds for _ in range(3)]
        assert list(chain.chains) == list(kinds)
