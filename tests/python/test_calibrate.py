"""`unis calibrate`, and what is kept of it for `unis simulate --calibrated`."""

import datetime
import errno
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.python.commands import json_of, run
from tests.python.test_calibration import READINGS
from unis import built
from unis.calibrate import calibration as measuring
from unis.calibrate import fit
from unis.cli.calibrate_command import refuse_what_was_not_found
from unis.errors import UnisError
from unis.plan.machine import Machine
from unis.runtime import kept as keeping
from unis.simulate.calibration import FILE, Calibration, kept
from unis.simulate.scenario import MachineCosts, ScenarioError

COSTS = MachineCosts(
    switch_ns=14_000, switch_call_ns=4_000, yield_ns=1_300, kernel_switch_ns=8_000, source_ns=20,
    sink_ns=15, scheduled_switch_ns=14_000, chain_factor=1.1,
)  # fmt: skip
DEMO = built.clone() / "examples" / "demo.yaml"


def calibrate(*words: str) -> tuple[int, str]:
    code, text = run("calibrate", "--only", "simulator", *words)
    return code, " ".join(text.split())


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, MachineCosts]:
    """What would be measured; emptied by who looks whether anything was."""
    of = {"3 light": COSTS, "3 medium": COSTS}
    monkeypatch.setattr(Machine, "this", staticmethod(lambda: Machine(frozenset({0, 1}))))
    monkeypatch.setattr(measuring, "calibrate_machine", lambda *_: of)
    return of


def file() -> Path:
    return FILE.path


def test_what_is_found_is_printed_and_kept(found: dict[str, MachineCosts]) -> None:
    found["3 medium"] = replace(COSTS, kernel_switch_ns=10_000)
    code, text = calibrate()
    assert code == 0
    assert "of which nobody runs 8.0 10.0 9.0" in text
    assert str(file()) in text
    assert kept().costs.kernel_switch_ns == 9_000
    found_json = json.loads(json_of("calibrate", "--only", "simulator", "--json"))
    assert found_json["simulator"]["costs"]["kernel_switch_ns"] == 9_000
    assert found_json["machine"] is None


def test_where_nothing_can_be_kept_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "calibrate_machine", lambda *_: pytest.fail("it was measured"))
    monkeypatch.setattr(Machine, "this", staticmethod(lambda: Machine(frozenset({0, 1}))))
    (tmp_path / "taken").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    code, text = calibrate()
    assert code == 2
    assert f"cannot write {file()}: Not a directory; XDG_CACHE_HOME names another place" in text


def test_what_cannot_be_kept_is_printed(
    found: dict[str, MachineCosts], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(keeping, "write_atomically", full)
    for words in ([], ["--json"]):
        code, text = calibrate(*words)
        assert code == 2
        assert "8000" in text if words else "of which nobody runs 8.0" in text
        assert f"cannot write {file()}: No space left on device" in text
    assert found
    assert not file().exists()


@pytest.mark.parametrize("seen", [0.0, 1e9])
def test_a_fit_that_ends_at_an_end_is_not_kept(
    found: dict[str, MachineCosts], monkeypatch: pytest.MonkeyPatch, seen: float
) -> None:
    monkeypatch.setattr(fit, "chain_mpps", lambda *_: {"chain": 1.0})
    readings = replace(READINGS, short_ratio=seen)
    lost = fit.calibrated(readings).machine.kernel_switch_ns
    found["3 medium"] = replace(COSTS, kernel_switch_ns=lost)
    code, text = calibrate()
    assert code == 1
    assert f"of which nobody runs 8.0 {lost / 1e3:.1f}" in text
    assert "the windows of 3 medium functions do not determine the cost of a switch" in text
    assert not file().exists()
    refuse_what_was_not_found({"3 light": COSTS})


def test_what_cannot_be_is_not_kept(found: dict[str, MachineCosts]) -> None:
    for name in found:
        found[name] = replace(COSTS, source_ns=0)
    code, text = calibrate()
    assert code == 1
    assert "what was measured cannot be: costs: `source_ns` is 0" in text
    assert not file().exists()


# ---------------------------------------------------------------------- what is kept


def changed(change: Callable[[dict[str, object], dict[str, object]], object]) -> None:
    path = FILE.write(Calibration.of(COSTS))
    data = json.loads(path.read_text())
    change(data, data["costs"])
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda _, costs: costs.update(switch_ns=0), "costs: `switch_ns` is 0, and costs are"),
        (lambda _, costs: costs.update(yield_ns=-1.5), "`yield_ns` is -1.5"),
        (lambda _, costs: costs.update(chain_factor=float("inf")), "`chain_factor` is inf"),
        (lambda _, costs: costs.update(sink_ns=float("nan")), "`sink_ns` is nan"),
        (lambda _, costs: costs.update(sink_ns=None), "costs.sink_ns: Input should be"),
        (lambda _, costs: costs.pop("source_ns"), "`source_ns` is 0"),
        (lambda _, costs: costs.update(speed=1), "costs: unknown key `speed`"),
        (lambda data, _: data.update(more=1), "more: Extra inputs are not permitted"),
        (lambda data, _: data.update(measured="yesterday"), "measured: "),
        (lambda data, _: data.update(measured="2026-01-01T00:00:00"), "measured: "),
        (lambda data, _: data.pop("costs"), "costs: Field required"),
    ],
)
def test_a_file_that_somebody_changed_is_refused(
    change: Callable[[dict[str, object], dict[str, object]], object], told: str
) -> None:
    changed(lambda *_: None)
    assert kept().costs == COSTS
    changed(change)
    with pytest.raises(ScenarioError) as caught:
        kept()
    assert told in str(caught.value)
    assert str(caught.value).startswith(f"{file()}: invalid calibration (")
    assert str(caught.value).endswith("); run `unis calibrate`")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff"])
def test_what_is_no_file_of_ours_is_refused(content: bytes) -> None:
    with pytest.raises(ScenarioError, match=r"no calibration in .*: run `unis calibrate` as the"):
        kept()
    path = file()
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match="invalid calibration"):
        kept()
    path.unlink()
    path.mkdir()
    with pytest.raises(ScenarioError, match="cannot read"):
        kept()


def test_costs_are_of_the_cpu_that_they_were_measured_on() -> None:
    FILE.write(Calibration.of(COSTS).model_copy(update={"cpu_model": "another"}))
    with pytest.raises(ScenarioError, match="is of another CPU"):
        kept()
    code, text = run("calibrate", "--show")
    assert code == 0
    assert "of which nobody runs 8.0" in " ".join(text.split())
    assert "it is of another CPU (another)" in " ".join(text.split())
    assert "no calibration in" in text  # of the machine


@pytest.mark.system
@pytest.mark.parametrize(("hours", "told"), [(23, None), (25, "1 day"), (75, "3 days")])
def test_an_old_one_is_told(hours: int, told: str | None) -> None:
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=hours)
    FILE.write(Calibration.of(COSTS).model_copy(update={"measured": then}))
    remark = kept().remark()
    assert (remark is None) == (told is None)
    code, text = run("simulate", DEMO, "--policy", "unis", "--seconds", "0.001", "--calibrated")
    assert code == 0
    assert "calibrated on 20" in text
    if told:
        assert f"this calibration is {told} old" in " ".join(text.split())
    else:
        assert "this calibration is" not in text


def test_a_calibration_has_every_cost() -> None:
    for name, value in asdict(COSTS).items():
        if not isinstance(value, bool) and name != "scheduled_switch_ns":
            zero: dict[str, Any] = {name: 0}
            with pytest.raises(UnisError, match=f"`{name}` is 0"):
                Calibration.of(replace(COSTS, **zero))
    assert Calibration.of(replace(COSTS, scheduled_switch_ns=0)).costs.scheduled_switch_ns == 0
