"""What `make install` installs works without the clone."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from unis import built

pytestmark = pytest.mark.system

ROOT = built.clone()


def run(*words: str | Path, cwd: Path, codes: tuple[int, ...] = (0,)) -> str:
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("UNIS_", "PYTHON", "VIRTUAL_ENV", "MAKE"))
    }
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix in a staging folder, away from its place."""
    top = tmp_path_factory.mktemp("installed")
    build = f"BUILD={built.build_directory()}"
    run(
        "make",
        "--old-file=build",
        "install",
        build,
        f"DESTDIR={top}",
        "PREFIX=/usr/local",
        cwd=ROOT,
    )
    return top / "usr" / "local"


def test_the_half_in_python_finds_the_built_one(prefix: Path, tmp_path: Path) -> None:
    parts = ("clone", "unisd", "port_driver", "mmsg_driver", "port_plugin", "xdp_program")
    asked = f"from unis import built; print({', '.join(f'built.{part}()' for part in parts)})"
    answer = run(prefix / "lib" / "unis" / "bin" / "python", "-c", asked, cwd=tmp_path)
    assert str(ROOT) not in answer
    assert answer.count(str(prefix)) == len(parts)


def test_commands_work_outside_the_clone(prefix: Path, tmp_path: Path) -> None:
    unis = prefix / "bin" / "unis"
    assert run(unis, "version", cwd=tmp_path).strip()
    findings = json.loads(run(unis, "doctor", "--json", cwd=tmp_path, codes=(0, 1)))
    assert findings
    assert "make build" not in json.dumps(findings)
    example = prefix / "share" / "unis" / "examples" / "demo.yaml"
    costs = [f"--cost={name}=50" for name in ("firewall", "nat", "monitor")]
    table = run(unis, "simulate", example, *costs, "--seconds", "0.2", cwd=tmp_path)
    assert "cooperative" in table
