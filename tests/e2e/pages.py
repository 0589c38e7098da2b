"""Pages of the documentation, done as they stand."""

import os
import re
import subprocess
from pathlib import Path

from tests.e2e.machine import UNIS

_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SECONDS = 80


def follow(page: Path, directory: Path) -> str:
    """Runs all blocks of `sh` of a page as one script in `directory`, and returns what it said.

    `unis` is called by its name alone.
    """
    script = directory / f"{page.stem}.sh"
    script.write_text("\n".join(_BLOCK.findall(page.read_text())))
    path = ":".join(map(str, [Path(UNIS).parent, os.environ["PATH"]]))
    done = subprocess.run(
        ["bash", "-e", script], cwd=directory, env={**os.environ, "PATH": path},
        capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said
