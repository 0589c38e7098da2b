"""What programs load into DPDK for a run: copies of the driver of rings and of the plug-in.

Below UNIS_RUN_DIR or /run/unis, and not in the run's own folder, which nobody but root may enter: a
function that runs as another user reads the plug-in too. EAL loads nothing from below a folder that
everybody may write, such as /tmp, so it is not loaded from where it was built.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from unis import built
from unis.runtime.directory import base_directory
from unis.runtime.files import own_directory, remove_tree, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from unis.runtime.run import Run
    from unis.runtime.state import RunState


def ports_directory() -> Path:
    """Where they are, a folder for each run."""
    return base_directory() / "ports"


def port_driver(run: str) -> Path:
    """The copy of the net_unis driver of the run called so."""
    return ports_directory() / run / "librte_net_unis.so"


def port_plugin(run: str) -> Path:
    """The same of the plug-in that stands between a program and its ports."""
    return ports_directory() / run / "librte_unis_ports.so"


def parts(run: str) -> dict[Path, Path]:
    """The copies of the run called so, each with what it is made of; NotBuiltError."""
    return {port_driver(run): built.port_driver(), port_plugin(run): built.port_plugin()}


class Ports:
    """They are there before the functions, which only read them."""

    def do(self, run: Run) -> None:
        """Copies them. The folder is root's; everybody may read what is in it."""
        folder = ports_directory() / run.plan.name
        own_directory(ports_directory(), 0o755)
        own_directory(folder, 0o755)
        with written(folder):
            for copy, part in parts(run.plan.name).items():
                copy.unlink(missing_ok=True)  # it may be mapped by what a killed run has left
                shutil.copyfile(part, copy)
                copy.chmod(0o644)

    def undo(self, state: RunState, hurry: Callable[[], bool]) -> list[str]:  # noqa: ARG002
        """Removes them; all processes have ended."""
        return remove_tree(ports_directory() / state.name)
