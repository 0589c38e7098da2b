"""What `python -m evaluation paper` leaves in its directory, whatever interrupts it."""

import errno
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.commands import paper as paper_command
from evaluation.paper import arms, evaluation, parts, report, scale, ticks
from evaluation.paper.case import Case
from evaluation.paper.cases import QUICK, cases
from evaluation.paper.evaluation import FIGURES, PaperSettings, evaluate
from evaluation.paper.figure import FigureAndRows, Findings
from evaluation.paper.measured import Measured
from evaluation.paper.parts import FOLDER, exclusive, refuse_to_overwrite
from evaluation.paper.results import Results
from evaluation.paper.simulated import FREE
from evaluation.paper.source import Source
from tests.python.commands import evaluation as run
from tests.python.test_paper import MACHINE, measured, window
from unis import built
from unis.calibrate.fit import Calibrated
from unis.errors import UnisError
from unis.plan.machine import Machine
from unis.runtime.errors import InterruptedRunError
from unis.runtime.files import write_atomically
from unis.simulate.scenario import MachineCosts

SOURCE = Source("0123456789ab", "one")
TWO = [case.key for case in cases(QUICK, MACHINE) if "fig7" in case.figures]  # chains
DAY = 86_400


def nothing(_: object) -> None:
    pass


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is measured or simulated; the keys of what would have been."""
    keys: list[str] = []

    def of(case: Case, *_: object) -> Measured:
        keys.append(case.key)
        return measured(case, lambda _: window(10 / case.length))

    mpps = {arms.PRIORITY: 9.0, arms.HANDOVER: 9.0, FREE: 9.9, arms.PAPER_K: 10.0}
    machine = Calibrated(MachineCosts(switch_ns=8000))
    monkeypatch.setattr(evaluation, "measure", of)
    monkeypatch.setattr(evaluation, "simulate_case", lambda *_: mpps)
    monkeypatch.setattr(evaluation, "calibration_of", lambda *_: machine)
    monkeypatch.setattr(evaluation, "simulate_table", lambda *_: {})
    monkeypatch.setattr(scale, "_mpps", lambda *at: 50 / at[2] / at[3])
    monkeypatch.setattr(ticks, "measured", lambda _: {})
    monkeypatch.setattr(Machine, "this", staticmethod(lambda: MACHINE))
    monkeypatch.setattr(Source, "this", staticmethod(lambda: SOURCE))
    return keys


def settings(directory: Path, *only: str, quick: bool = True) -> PaperSettings:
    return PaperSettings(quick=quick, only=only or ("fig7",), directory=directory)


def interrupt(
    monkeypatch: pytest.MonkeyPatch, seen: list[str], error: BaseException
) -> Callable[[], None]:
    """After the first case; returns what undoes it."""
    first: Callable[..., Measured] = vars(evaluation)["measure"]

    def of(case: Case, *more: object) -> Measured:
        if seen:
            raise error
        return first(case, *more)

    monkeypatch.setattr(evaluation, "measure", of)
    return lambda: monkeypatch.setattr(evaluation, "measure", first)


@pytest.fixture
def half(tmp_path: Path, seen: list[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one part of an evaluation of two chains that was interrupted."""
    undo = interrupt(monkeypatch, seen, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        evaluate(settings(tmp_path), nothing)
    undo()
    assert seen == TWO[:1]
    seen.clear()
    (part,) = (tmp_path / FOLDER).iterdir()
    return part


# ---------------------------------------------------------------------- parts


def test_a_part_is_taken_over_and_told(half: Path, seen: list[str], tmp_path: Path) -> None:
    results = evaluate(settings(tmp_path), nothing)
    assert seen == TWO[1:]
    assert results.settings["resumed"] == 1
    assert not half.parent.exists()
    assert evaluate(settings(tmp_path), nothing).settings["resumed"] == 0


@pytest.mark.parametrize("what", ["extent", "source", "machine"])
def test_a_part_of_something_else_is_not_taken_over_nor_removed(
    half: Path, seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with monkeypatch.context() as patch:
        if what == "machine":
            more = frozenset({0, 1, 2})
            patch.setattr(Machine, "this", staticmethod(lambda: Machine(cpus=more)))
        source = replace(SOURCE, digest="two") if what == "source" else SOURCE
        other = settings(tmp_path, quick=what != "extent")
        assert evaluate(other, nothing, source=source).settings["resumed"] == 0
    assert set(TWO) <= set(seen)
    assert [*half.parent.iterdir()] == [half]
    assert evaluate(settings(tmp_path), nothing).settings["resumed"] == 1


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\xff\xfe", b'"\xc3\x28"'])
def test_a_part_that_cannot_be_read_is_not_there(
    half: Path, seen: list[str], tmp_path: Path, content: bytes
) -> None:
    half.write_bytes(content)
    assert evaluate(settings(tmp_path), nothing).settings["resumed"] == 0
    assert seen == TWO


@pytest.mark.parametrize(("age", "resumed"), [(DAY - 600, 1), (DAY + 600, 0)])
def test_a_part_is_good_for_a_day(
    half: Path, tmp_path: Path, seen: list[str], age: int, resumed: int
) -> None:
    then = time.time() - age
    os.utime(half, (then, then))
    assert evaluate(settings(tmp_path), nothing).settings["resumed"] == resumed
    assert len(seen) == 2 - resumed


def test_an_old_part_of_anything_goes_and_no_other_file(half: Path, tmp_path: Path) -> None:
    old = time.time() - DAY - 600
    stranger, theirs = half.parent / "notes.json", tmp_path / "parts" / half.name
    theirs.parent.mkdir()
    for file in (stranger, theirs):
        file.touch()
    for file in (half, stranger, theirs):
        os.utime(file, (old, old))
    other = replace(SOURCE, digest="two")
    evaluate(settings(tmp_path), nothing, source=other)
    assert [*half.parent.iterdir()] == [stranger]
    assert theirs.exists()


def test_where_no_part_can_be_written_nothing_is_measured(seen: list[str], tmp_path: Path) -> None:
    (tmp_path / FOLDER).touch()
    with pytest.raises(UnisError, match=f"cannot write in {tmp_path}/{FOLDER}: File exists"):
        evaluate(settings(tmp_path), nothing)
    assert seen == []


def full_disk(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> Callable[[], None]:
    """For files that are called so."""

    def write(file: Path, text: str, mode: int = 0o600) -> None:
        if re.match(name, file.name):
            raise OSError(errno.ENOSPC, "No space left on device")
        write_atomically(file, text, mode)

    monkeypatch.setattr(module, "write_atomically", write)
    return lambda: monkeypatch.setattr(module, "write_atomically", write_atomically)


def test_a_part_that_cannot_be_written_is_a_sentence(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    undo = full_disk(monkeypatch, parts, re.escape(TWO[1]))
    with pytest.raises(UnisError, match=f"cannot write .*/{TWO[1]}.*: No space left"):
        evaluate(settings(tmp_path), said.append)
    assert said[-1].startswith(
        f"1 of 2 cases are saved in {tmp_path}/{FOLDER}; the same command continues"
    )
    undo()
    evaluate(settings(tmp_path), nothing)
    assert seen == [*TWO, TWO[1]]


# ---------------------------------------------------------------------- results


def paper(directory: Path, *words: str) -> tuple[int, str]:
    code, text = run("paper", "--quick", "--only", "fig7", "-o", directory, *words)
    return code, " ".join(text.split())


@pytest.mark.parametrize("name", ["results.json", "results.csv", "report.html"])
def test_a_failing_write_keeps_old_results_and_parts(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(report, "_pictures", lambda _: [])  # they take a second each time
    assert paper(tmp_path)[0] == 0
    files = sorted(file.name for file in tmp_path.iterdir() if file.is_file())
    assert files == ["report.html", "results.csv", "results.json"]
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o644
    before = (tmp_path / "results.json").read_text()
    monkeypatch.setattr(Source, "this", staticmethod(lambda: replace(SOURCE, commit="other")))
    undo = full_disk(monkeypatch, paper_command, name)
    code, text = paper(tmp_path)
    assert code == 1
    assert f"cannot write {tmp_path}/{name}: No space left on device" in text
    assert "2 of 2 cases are saved in" in text
    assert (tmp_path / "results.json").read_text() == before
    undo()
    seen.clear()
    assert paper(tmp_path)[0] == 0
    assert seen == []
    assert json.loads((tmp_path / "results.json").read_text())["commit"] == "other"
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == files


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InterruptedRunError("SIGINT")])
def test_ctrl_c_has_one_exit_code_and_tells_what_is_kept(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    interrupt(monkeypatch, seen, error)
    code, text = paper(tmp_path)
    assert code == 130
    assert f"1 of 2 cases are saved in {tmp_path}/{FOLDER}; the same command continues" in text


def test_where_nothing_was_measured_nothing_is_left(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen.append("something")
    interrupt(monkeypatch, seen, UnisError("no hugepages"))
    assert paper(tmp_path)[1].endswith("no hugepages")
    assert [*tmp_path.iterdir()] == []


def test_two_do_not_write_to_one_directory(seen: list[str], tmp_path: Path) -> None:
    with exclusive(tmp_path):
        code, text = paper(tmp_path)
    assert code == 1
    assert "another `python -m evaluation paper` writes to" in text
    assert "-o" in text
    assert seen == []
    assert paper(tmp_path)[0] == 0


def earlier(directory: Path, extent: str, *figures: str) -> Path:
    file = directory / "results.json"
    keys = [{"key": key} for key in figures]
    file.write_text(json.dumps({"settings": {"extent": extent}, "figures": keys}))
    return file


@pytest.mark.parametrize(
    ("extent", "figures", "only", "quick", "told"),
    [
        ("full", ["fig7"], ["fig7"], True, "without --quick"),
        ("full", ["fig7"], None, True, "without --quick"),
        ("quick", ["fig7", "fig8"], ["fig7"], True, "has fig8, which would be lost"),
        ("quick", ["fig7"], ["fig8"], False, "has fig7, which would be lost"),
        ("quick", ["fig7"], ["fig7", "fig8"], True, None),
        ("quick", ["fig7", "fig99"], None, False, None),
        ("full", ["fig7"], ["fig7"], False, None),
    ],
)
def test_results_of_more_are_not_lost(
    tmp_path: Path,
    extent: str,
    figures: list[str],
    only: list[str] | None,
    quick: bool,
    told: str | None,
) -> None:
    file = earlier(tmp_path, extent, *figures)
    if told is None:
        refuse_to_overwrite(file, only, quick=quick)
        return
    with pytest.raises(UnisError, match=f"{file} .*{told}: give another directory with -o"):
        refuse_to_overwrite(file, only, quick=quick)


def test_what_would_be_lost_is_told_before_anything_is_measured(
    seen: list[str], tmp_path: Path
) -> None:
    file = earlier(tmp_path, "quick", "fig7", "fig8")
    before = file.read_text()
    assert paper(tmp_path)[0] == 2
    file.write_text("[1]")
    assert "not from `python -m evaluation paper`" in paper(tmp_path)[1]
    assert seen == []
    file.write_text(before)
    assert run("paper", "--quick", "--only", "fig7,fig8", "-o", tmp_path)[0] == 0


@pytest.mark.parametrize("only", ["", ",", " , ", "fig7,fig99"])
def test_only_names_figures(seen: list[str], tmp_path: Path, only: str) -> None:
    code, text = run("paper", "--only", only, "-o", tmp_path)
    assert code == 2
    assert "--only" in text
    assert seen == []


def test_what_is_missing_is_told_before_anything_is_measured(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Source:
        raise built.NotBuiltError("unis-sim is missing: run `make build`")

    monkeypatch.setattr(Source, "this", staticmethod(missing))
    assert paper(tmp_path) == (2, "unis-sim is missing: run `make build`")
    assert seen == []


def test_results_tell_of_which_figures_they_are(seen: list[str], tmp_path: Path) -> None:
    some = evaluate(settings(tmp_path, "fig7", "fig8"), nothing)
    assert some.settings["figures"] == ["fig7", "fig8"]
    assert evaluate(settings(tmp_path, *FIGURES), nothing).settings["figures"] == "all"
    assert some.commit == SOURCE.commit
    assert seen


# ---------------------------------------------------------------------- faults


FAULTS = [ValueError("no data"), StopIteration(), KeyError("x"), UnisError("no unis-sim")]


@pytest.mark.parametrize("error", FAULTS, ids=repr)
def test_a_fault_in_one_figure_does_not_lose_the_others(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fault(_: Findings) -> FigureAndRows:
        raise error

    monkeypatch.setitem(FIGURES, "fig7", fault)
    said: list[str] = []
    results = evaluate(settings(tmp_path, "fig7", "fig8"), said.append)
    lost, other = results.figures
    assert (lost.key, lost.verdict) == ("fig7", "cannot be had here")
    assert str(error) in lost.why
    assert type(error).__name__ in lost.why or isinstance(error, UnisError)
    assert other.key == "fig8"
    assert {row.experiment for row in results.rows if row.source == "measured"} == {"fig8"}
    assert any(line.startswith("fig7 could not be assembled") for line in said)
    assert Results.model_validate_json(results.model_dump_json()) == results
    assert seen


def test_a_fault_in_a_simulation_does_not_lose_the_rest(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        raise UnisError("unis-sim failed")

    for module, name in ((evaluation, "simulate_table"), (scale, "_mpps")):
        monkeypatch.setattr(module, name, fault)
    monkeypatch.setattr(evaluation, "calibration_of", fault)
    code, text = run("paper", "--quick", "--only", "fig7,scale,table1", "-o", tmp_path)
    assert code == 0
    assert f"{TWO[0]} could not be simulated: unis-sim failed" in text
    results = Results.model_validate_json((tmp_path / "results.json").read_text())
    assert [figure.key for figure in results.figures] == ["fig7", "table1", "scale"]
    assert results.figures[2].why == "An error: unis-sim failed"
    missing = results.settings["could not be simulated"]
    assert isinstance(missing, list)
    assert {*TWO, "table1", "scale"} <= {*missing}
    assert results.simulator.points == []
    assert seen
