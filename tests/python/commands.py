"""Commands as a user types them, and runs whose launcher was killed."""

import os
from pathlib import Path
from typing import Any

from typer import Typer
from typer.testing import CliRunner

from evaluation.app import app as evaluation_app
from unis.cli.app import app
from unis.runtime.directory import RunDirectory
from unis.runtime.process import ProcessId
from unis.runtime.state import RunState


def stale_run(tmp_path: Path, name: str = "ghost", **more: Any) -> RunDirectory:
    directory = RunDirectory(tmp_path / "run" / "runs" / name)
    directory.make()
    state = RunState(
        run_id="one", name=name, chain_file=str(tmp_path / f"{name}.yaml"),
        groups=[f"unis-pytest-{name}"], cpus=[1], platform_cpus=[0], hugepages_mb=256,
        launcher=ProcessId(pid=os.getpid(), start_time=1),
    )  # fmt: skip
    directory.write(state.with_changes(**more))
    directory.event_log.write_text("2026-01-01 it ran\n")
    return directory


def run(*args: str | Path) -> tuple[int, str]:
    return _run(app, *args)


def evaluation(*args: str | Path) -> tuple[int, str]:
    """Of `python -m evaluation`."""
    return _run(evaluation_app, *args)


def _run(of: Typer, *args: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(of, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def json_of(*args: str, of: Typer = app) -> str:
    """What a command says on stdout, however it ends."""
    return CliRunner().invoke(of, args).stdout


def busy_file(tmp_path: Path, program: str = "/bin/true") -> Path:
    file = tmp_path / "ghost.yaml"
    file.write_text(
        f"apiVersion: unis/v1\nname: ghost\nfunctions: {{a: {{program: {program}, cpu: 1}}}}\n"
        "chains: {c: {path: [a]}}\n"
    )
    return file
