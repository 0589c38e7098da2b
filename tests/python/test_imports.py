"""A command imports what it needs: by modules, for time says nothing on a busy machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.commands import run
from unis import report
from unis.cli.bench_commands import MOVED

HEAVY = ["grpc", "pydantic", "rich.live", "ruamel", "matplotlib", "numpy", "fastapi", "uvicorn"]
LOADED = """
import json, sys
from unis.cli import run_app
sys.argv = ["unis", *sys.argv[1:]]
try:
    run_app("unis.cli.app")
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""


def loaded(tmp_path: Path, *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOADED, *words],
        env={**os.environ, "UNIS_RUN_DIR": str(tmp_path / "run")},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("broken", ["None", "types.ModuleType('unis.v1')"])
def test_what_is_not_generated_is_told(broken: str) -> None:
    code = (
        f"import sys, types; sys.modules['unis.v1'] = {broken}; sys.argv = ['unis', 'up', 'x'];"
        "from unis.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )
    told = "unis: the code of proto/unis/v1 is not generated: run `make build`\n"
    assert (done.returncode, done.stderr) == (2, told)


def those_of(modules: set[str], names: list[str]) -> list[str]:
    return [name for name in names if any(f"{it}.".startswith(f"{name}.") for it in modules)]


@pytest.mark.parametrize("command", ["version", "--version"])
def test_the_version_needs_next_to_nothing(tmp_path: Path, command: str) -> None:
    assert those_of(loaded(tmp_path, command), [*HEAVY, "rich", "google"]) == []


@pytest.mark.parametrize("command", [["ps"], ["down", "--all"], ["logs", "--list"]])
def test_looking_at_runs_needs_no_chain_file(tmp_path: Path, command: list[str]) -> None:
    modules = loaded(tmp_path, *command)
    ours = ["unis.chain", "unis.plan", "unis.simulate", "unis.bench", "unis.report"]
    assert those_of(modules, [*HEAVY, *ours]) == []


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        (
            "unis.cli.simulate_command, unis.cli.config_command",
            ["unis.cli.run_commands", "unis.runtime.clean_up", "matplotlib", "grpc"],
        ),
        ("evaluation.agreement", ["unis.bench.demo", "unis.report", "matplotlib"]),
    ],
)
def test_a_command_brings_no_other(modules: str, unwanted: list[str]) -> None:
    code = f"import {modules}, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert those_of(set(json.loads(done.stdout)), unwanted) == []


@pytest.mark.parametrize("name", MOVED)
def test_a_command_that_moved_says_where_it_is(name: str) -> None:
    code, said = run("bench", name, "--quick", "-o", "x", "more")
    assert (code, "python -m evaluation " + name in said) == (2, True)
    assert name not in run("bench", "--help")[1].split()


def test_asking_an_engine_needs_no_more_than_grpc() -> None:
    """What `ps` loads on top for a chain that runs."""
    code = (
        "import unis.cli.look_commands, unis.engine.client, json, sys;"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    modules = set(json.loads(done.stdout))
    unwanted = [name for name in HEAVY if name != "grpc"] + ["unis.chain"]
    assert those_of(modules, unwanted) == []


WITHOUT_MATPLOTLIB = """
import importlib, pkgutil, sys
class Missing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError("No module named 'matplotlib'")
sys.meta_path.insert(0, Missing())
import unis
for module in pkgutil.walk_packages(unis.__path__, "unis."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError:
        print(module.name)
"""


def test_only_what_draws_plots_needs_matplotlib() -> None:
    """An optional extra of the package: [report]."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_MATPLOTLIB], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [
        "unis.bench.demo", "unis.report.curves", "unis.report.page",
        "unis.report.plots", "unis.report.svg",
    ]  # fmt: skip


@pytest.mark.parametrize("words", [["demo"], ["bench", "latency"], ["bench", "load"]])
def test_plots_without_matplotlib_say_what_to_install(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(report, "find_spec", lambda _: None)
    code, said = run(*words, "--out", tmp_path)
    assert (code, "pip install 'unis[report]'" in said) == (2, True)


def test_what_lies_in_the_current_folder_is_not_run(tmp_path: Path) -> None:
    """Root would run it."""
    for name in ("grpc.py", "json.py", "pydantic.py", "typer.py"):
        (tmp_path / name).write_text("open('ran', 'w')\n")
    folder = Path(__file__).parents[2] / "unis" / "runtime"
    how = [path.read_text() for path in folder.glob("*.py") if '"-m", ' in path.read_text()]
    assert len(how) == 1
    assert '"-P", "-m", "unis.runtime.guard"' in how[0]
    for words in (["-P", "-c", "import unis.runtime.guard"], ["-m", "evaluation", "resq", "-h"]):
        subprocess.run([sys.executable, *words], cwd=tmp_path, check=True, timeout=60)
    assert not (tmp_path / "ran").exists()
