"""The systemd unit template is one that systemd takes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.needs import need

pytestmark = pytest.mark.system

UNIT = Path(__file__).parents[2] / "docs" / "unis@.service"


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    need(verify is not None, "needs systemd-analyze: apt-get install systemd")
    assert verify
    # It looks whether the program is there, so the unit is verified with one that is.
    text = UNIT.read_text()
    assert text.count("/usr/local/bin/unis ") == 2
    unit = tmp_path / UNIT.name.replace("@", "@demo")
    unit.write_text(text.replace("/usr/local/bin/unis ", "/bin/true "))
    done = subprocess.run(
        [verify, "verify", "--man=no", "--recursive-errors=no", unit],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
