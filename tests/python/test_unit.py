"""The units are such that systemd takes them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.needs import need

pytestmark = pytest.mark.system

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "calls"), [("unis@.service", 2), ("unis-serve.service", 1), ("unis-api.service", 1)]
)
def test_systemd_takes_the_unit(tmp_path: Path, name: str, calls: int) -> None:
    verify = shutil.which("systemd-analyze")
    need(verify is not None, "needs systemd-analyze: apt-get install systemd")
    assert verify
    # It looks whether the program is there, so the unit is verified with one that is.
    text = (DOCS / name).read_text()
    assert text.count("/usr/local/bin/unis ") == calls
    unit = tmp_path / name.replace("@", "@demo")
    unit.write_text(text.replace("/usr/local/bin/unis ", "/bin/true "))
    done = subprocess.run(
        [verify, "verify", "--man=no", "--recursive-errors=no", unit],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_server_of_metrics_has_what_it_needs_and_no_more() -> None:
    """As systemd counts it: 0 is the least exposure, 100 the most."""
    verify = shutil.which("systemd-analyze")
    need(verify is not None, "needs systemd-analyze: apt-get install systemd")
    assert verify
    done = subprocess.run(
        [verify, "security", "--offline=true", "--threshold=25", DOCS / "unis-serve.service"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.splitlines()[-1:]
