"""The wheel works outside the clone, with the built half where UNIS_BUILD says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import unis
from tests.needs import need
from unis import built

pytestmark = pytest.mark.system

ROOT = built.clone()
NEEDED = ("pyproject.toml", "hatch_build.py", "LICENSE", "proto", "unis")


def run(
    *words: str | Path, cwd: Path, build: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """With nothing of ours in the environment but UNIS_BUILD."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("UNIS_", "PYTHON", "VIRTUAL_ENV", "MAKE"))
    }
    if build:
        environment["UNIS_BUILD"] = str(build)
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`unis` of a new environment, into which the wheel of a copy of the clone is installed."""
    uv = shutil.which("uv")
    need(uv is not None, "needs uv: run `make setup`")
    assert uv
    top = tmp_path_factory.mktemp("wheel")
    (top / "source").mkdir()
    for name in NEEDED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("v1" if name == "unis" else "", "__pycache__")
            shutil.copytree(ROOT / name, top / "source" / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, top / "source" / name)
    python = sys.executable
    made = run(
        uv, "build", "--wheel", "--no-build-isolation", "--offline", "--python", python,
        "--out-dir", top, cwd=top / "source",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    (wheel,) = top.glob("*.whl")
    assert run(uv, "venv", "--python", python, top / "venv", cwd=top).returncode == 0
    installed = run(
        uv, "pip", "install", "--python", top / "venv",
        "--constraints", ROOT / "requirements.lock", wheel, cwd=top,
    )  # fmt: skip
    need(installed.returncode == 0, f"needs uv's cache, or a package index: {installed.stderr}")
    return top / "venv" / "bin" / "unis"


def test_it_says_its_version_and_places_promises(command: Path, tmp_path: Path) -> None:
    assert run(command, "version", cwd=tmp_path).stdout.strip() == unis.version()
    placed = run(command, "plan", ROOT / "examples/slo/paper-sensitive.yaml", cwd=tmp_path)
    assert placed.returncode == 0, placed.stderr
    assert "server" in placed.stdout


def test_it_plans_a_chain_for_the_build_that_unis_build_names(
    command: Path, tmp_path: Path
) -> None:
    build = built.build_directory()
    planned = run(command, "config", ROOT / "examples/demo.yaml", cwd=tmp_path, build=build)
    assert planned.returncode == 0, planned.stderr
    assert str(build / "functions" / "nat") in planned.stdout


@pytest.mark.parametrize(
    ("words", "code", "missing"),
    [
        (["simulate"], 2, "unis-sim is missing: "),
        (["up"], 2, "there is no program `nat` among the built functions"),
    ],
)
def test_without_a_build_it_says_what_to_do(
    command: Path, tmp_path: Path, words: list[str], code: int, missing: str
) -> None:
    example, nowhere = ROOT / "examples" / "demo.yaml", tmp_path / "nowhere"
    refused = run(command, *words, example, cwd=tmp_path, build=nowhere)
    assert refused.returncode == code
    assert missing in refused.stderr
    assert "set UNIS_BUILD to a build of UNiS, such as build/ of a clone" in refused.stderr
