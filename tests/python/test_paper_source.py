"""What `evaluation paper` says that it measured, how long it will take, and what it writes."""

import csv
import io
import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

from evaluation.commands.paper import csv_of
from evaluation.paper.measured import latency_us
from evaluation.paper.progress import Progress
from evaluation.paper.results import Agreement, ResultRow, Results
from evaluation.paper.source import Source
from tests.python.test_docs import ROOT
from tools.schemas import MODELS, schema_text
from unis import built, version
from unis.measure.paired import Quartiles, Ratio
from unis.measure.summary import MachineSummary
from unis.v1 import common_pb2 as common

PROGRAMS = [
    "engine/unisd", "models/simulator/unis-sim", "functions/macswap",
    "ports/librte_net_unis.so", "ports/librte_net_mmsg.so", "ports/librte_unis_ports.so",
    "ports/unis_xdp.bpf.o",
]  # fmt: skip


def git(directory: Path, *words: str) -> str:
    own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = ["-c", "user.name=x", "-c", "user.email=x@x"]
    done = subprocess.run(
        ["git", *who, *words], cwd=directory, env={**os.environ, **own}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of something small, with a build."""
    root = tmp_path / "clone"
    (root / "unis").mkdir(parents=True)
    for name in ("meson.build", "unis/x.py"):
        (root / name).write_text("1\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "all")
    for name in PROGRAMS:
        (tmp_path / "built" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "built" / name).write_bytes(b"\x7fELF")
    monkeypatch.setenv("UNIS_BUILD", str(tmp_path / "built"))
    monkeypatch.setattr(built, "clone", lambda: root)
    return root


def test_a_clone_tells_its_commit_and_whether_it_was_changed(clone: Path) -> None:
    git(clone, "tag", "-am", "a release", "v1")
    before = Source.this()
    assert before.commit == git(clone, "rev-parse", "--short=12", "HEAD")
    assert Source.this() == before
    (clone / "meson.build").write_text("2\n")
    changed = Source.this()
    assert changed.commit == f"{before.commit}-dirty"
    (clone / "meson.build").write_text("3\n")
    assert Source.this().commit == changed.commit
    assert Source.this().digest not in (before.digest, changed.digest)
    git(clone, "commit", "-qam", "more")
    assert Source.this().digest not in (before.digest, changed.digest)


def test_a_module_that_is_not_in_the_commit_yet_is_seen(clone: Path) -> None:
    before = Source.this()
    (clone / "unis" / "new.py").write_text("1\n")
    one = Source.this()
    (clone / "unis" / "new.py").write_text("2\n")
    assert len({before.digest, one.digest, Source.this().digest}) == 3


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("clone")
def test_another_program_is_something_else_and_none_is_told(tmp_path: Path, name: str) -> None:
    before = Source.this()
    program = tmp_path / "built" / name
    program.write_bytes(b"\x7fELF2")
    assert Source.this().digest != before.digest
    assert Source.this().commit == before.commit
    program.unlink()
    with pytest.raises(built.NotBuiltError, match=f"{name} is missing: run `make build`"):
        Source.this()


@pytest.mark.parametrize("how", ["installed", "unpacked"])
def test_what_is_no_clone_tells_its_version_though_it_lies_in_one(
    clone: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    inside = clone / "site-packages"
    inside.mkdir()
    if how == "unpacked":
        (inside / "meson.build").touch()
    monkeypatch.setattr(built, "clone", lambda: inside)
    found = Source.this()
    assert (found.commit, found.trouble) == (f"version {version()}", "")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo fatal: detected dubious ownership >&2; exit 128", "fatal: detected dubious owner"),
        (None, "No such file"),
    ],
)
@pytest.mark.usefixtures("clone")
def test_why_git_tells_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, why: str
) -> None:
    (tmp_path / "bin").mkdir()
    if script:
        (tmp_path / "bin" / "git").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = Source.this()
    assert found.commit == f"unknown, version {version()}"
    assert found.trouble.startswith("git tells no commit: ")
    assert why in found.trouble


# ---------------------------------------------------------------------- progress


def test_what_is_left_is_reckoned_by_what_the_rest_took() -> None:
    said: list[str] = []
    now = [1000.0]
    progress = Progress(said.append, [10, 10, 20], [1, 1], lambda: now[0])
    progress.measuring("a", 10)
    now[0] += 20  # twice as long
    progress.measuring("b", 10)
    now[0] += 10
    progress.measuring("c", 20)
    now[0] += 30
    progress.simulating("d", 1)
    now[0] += 5
    progress.simulating("e", 1)
    assert said == [
        "1 of 3, about 42 s left: a",
        "2 of 3, about 62 s left: b",
        "3 of 3, about 32 s left: c",
        "simulating 1 of 2, about 2 s left: d",
        "simulating 2 of 2, about 5 s left: e",
    ]


def test_a_long_time_is_told_in_minutes() -> None:
    said: list[str] = []
    Progress(said.append, [600.0, 900.0], []).measuring("a", 600)
    assert said == ["1 of 2, about 25 min left: a"]


# ---------------------------------------------------------------------- files


def a_row(**more: object) -> ResultRow:
    data = {
        "experiment": "fig7", "case": "mixed-2", "set": "main", "cost": "mixed", "length": 2,
        "size": 64, "ring": 2048, "policy": "unis", "controller": None, "arm": "priority",
        "yield_every": None, "x": None, "mpps": Quartiles(median=2, q1=1, q3=3), "windows": 4,
        "ratio_to_cooperative": None, "ratio_to_paper_k": None, "ratio_to_fused": None,
        "latency_us": latency_us(common.LatencyHistogram()), "drops": None, "switches_per_s": None,
        "context_switches_per_s": None, "slowest_cpu_share": None, "source": "measured", **more,
    }  # fmt: skip
    return ResultRow.model_validate(data)


def test_columns_are_those_of_the_model_whatever_is_known() -> None:
    without = a_row()
    with_all = a_row(
        ratio_to_fused=Ratio(median=0.5, lo=0.4, hi=0.6),
        latency_us=dict.fromkeys(without.latency_us, 1.0),
    )
    first, second = (csv_of([row]).splitlines()[0] for row in (without, with_all))
    assert first == second == csv_of([]).strip()
    (line,) = csv.DictReader(io.StringIO(csv_of([without])))
    parts = {name for name in line if name.startswith("ratio_to_fused")}
    assert parts == {f"ratio_to_fused.{name}" for name in ("median", "lo", "hi")}
    assert {line[name] for name in parts} == {""}
    (line,) = csv.DictReader(io.StringIO(csv_of([with_all])))
    assert (line["ratio_to_fused.lo"], line["mpps.q3"], line["case"]) == ("0.4", "3.0", "mixed-2")
    latency = {name: value for name, value in line.items() if name.startswith("latency_us")}
    assert latency == {f"latency_us.{name}": "1.0" for name in without.latency_us}


@pytest.mark.parametrize("name", MODELS)
def test_the_schema_of_what_is_written_is_up_to_date(name: str) -> None:
    file = ROOT / "docs" / name
    assert file.read_text() == schema_text(name), "run `make docs`"


def test_results_obey_their_schema() -> None:
    results = Results(
        machine=MachineSummary(cpu_model="a", cpus=2, kernel="b", dpdk="c"),
        commit="0123456789ab", settings={"figures": ["fig7"], "resumed": 0}, figures=[],
        rows=[a_row()], simulator=Agreement.of([]), disturbed=None,
    )  # fmt: skip
    validator = jsonschema.Draft202012Validator(json.loads(schema_text("results.schema.json")))
    data = json.loads(results.model_dump_json())
    assert not list(validator.iter_errors(data))
    assert isinstance(data["schema_version"], int)
    del data["rows"][0]["experiment"]
    assert list(validator.iter_errors(data))
