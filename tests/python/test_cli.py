"""What a user sees: one clear sentence and exit code 2 for bad input, and nothing left running."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unis import built
from unis.cli.app import app
from unis.launch import doctor, preflight
from unis.launch.errors import LaunchError
from unis.launch.process import ProcessId
from unis.launch.state import RunDirectory, RunState

RUNNER = CliRunner()
DEMO = built.clone() / "examples" / "demo.yaml"


@pytest.fixture(autouse=True)
def _own_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNIS_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def stale_run(tmp_path: Path, name: str = "ghost") -> RunDirectory:
    directory = RunDirectory(tmp_path / "run" / name)
    directory.path.mkdir(parents=True)
    directory.write(
        RunState(
            run_id="one", name=name, chain_file="x.yaml", file_prefix=f"unis-pytest-{name}",
            hugepage_dir=tmp_path, runtime_dir=tmp_path / "dpdk", cpus=[1], platform_cpus=[0],
            supervisor=ProcessId(pid=os.getpid(), start_time=1),
        )
    )  # fmt: skip
    return directory


def run(*args: str | Path) -> tuple[int, str]:
    result = RUNNER.invoke(app, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize(
    "command",
    ["up", "ps", "top", "down", "policy", "demo", "trace", "estimate", "simulate", "doctor",
     "schema", "version", "bench"],
)  # fmt: skip
def test_every_command_explains_itself(command: str) -> None:
    code, text = run(command, "--help")
    assert code == 0
    assert "Usage:" in text
    if command not in ("schema", "version", "bench"):
        assert f"unis {command}" in text  # an example


@pytest.mark.parametrize("command", [["up"], ["up", "--detach"], ["simulate"]])
def test_bad_files_are_refused(tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("apiVersion: unis/v1\nname: x\nchains: []\n")
    code, _ = run(*command, file)
    assert code == 2
    assert run(*command, tmp_path / "none.yaml")[0] == 2
    assert not (tmp_path / "run").exists()


def test_bad_names_are_refused() -> None:
    assert run("up", DEMO, "--policy", "best")[0] == 2
    assert run("policy", "best")[0] == 2
    assert run("simulate", DEMO, "--policy", "best")[0] == 2
    assert run("simulate", DEMO, "--cost", "firewall")[0] == 2
    assert run("simulate", DEMO, "--cost", "firewall=-1")[0] == 2
    assert run("estimate", "no-such-program")[0] == 2
    assert run("demo", "--pcap", "/nowhere.pcap")[0] == 2


def test_commands_without_a_run() -> None:
    for command in (["top"], ["policy", "rr"], ["trace", "-o", "x"], ["down"], ["ps", "nobody"]):
        assert run(*command)[0] == 2
    assert run("down", "--all")[0] == 0
    code, text = run("ps", "--json")
    assert (code, json.loads(text)) == (0, [])


def test_a_stale_run_is_told_and_removed(tmp_path: Path) -> None:
    directory = stale_run(tmp_path)
    code, text = run("ps")
    assert code == 0
    assert "its launcher was killed" in text
    assert json.loads(run("ps", "--json")[1])[0]["phase"] == "stale"
    assert run("top")[0] == 2
    assert run("down")[0] == 0
    assert not directory.path.exists()


def test_several_runs_must_be_told_apart(tmp_path: Path) -> None:
    stale_run(tmp_path, "one")
    stale_run(tmp_path, "two")
    assert run("down")[0] == 2
    assert run("down", "one")[0] == 0
    assert run("down", "--all")[0] == 0


def test_stale_runs_are_cleared_before_a_new_one(tmp_path: Path) -> None:
    directory = stale_run(tmp_path)
    told: list[str] = []
    preflight.clear_stale_runs(told.append)
    assert told == ["cleaning up after run `ghost`, whose launcher was killed"]
    assert not directory.path.exists()


def test_no_hugepages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "free_hugepages_mb", lambda: 10)
    with pytest.raises(LaunchError, match="10 MB of hugepages are free and 256 MB are needed"):
        preflight.require_hugepages()
    monkeypatch.setattr(preflight, "hugepage_directory", lambda: None)
    with pytest.raises(LaunchError, match="no hugepages are mounted: run") as caught:
        preflight.require_hugepages()
    assert caught.value.exit_code == 2


def test_no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LaunchError, match="run it with sudo"):
        preflight.require_permission()
    assert doctor.permission().level == doctor.Level.BLOCKED


def test_doctor_explains_each_finding() -> None:
    findings = doctor.examine()
    checks = [finding.check for finding in findings]
    for check in ("RT throttling", "RT groups", "hugepages", "isolated cores", "TSC", "THP",
                  "governor", "SMT", "mempool", "lcores", "DPDK", "runs"):  # fmt: skip
        assert check in checks
    for finding in findings:
        assert finding.found
        if finding.level != doctor.Level.OK:
            assert finding.meaning
            assert finding.mend
    code, text = run("doctor", "--json")
    data = json.loads(text)
    blocked = any(finding["level"] == "blocked" for finding in data)
    assert code == (1 if blocked else 0)


def test_doctor_sees_a_stale_run(tmp_path: Path) -> None:
    stale_run(tmp_path)
    assert any(finding.mend == "unis down ghost" for finding in doctor.runs())


def test_schema_and_version() -> None:
    assert json.loads(run("schema")[1])["title"] == "UNiS chain file"
    assert run("version")[1].strip()[0].isdigit()
