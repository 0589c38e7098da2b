"""`unis` in which a process of the run dies at a point: `python -m tests.e2e.killing POINT VICTIM
WORDS…`.

A POINT is `MODULE:NAME`, before the first call of a function; `#N`: before the Nth; `@TEXT`: calls
with this text among their arguments count alone. The launcher inherits it from the command.
Who dies is written into the file KILLED.
"""

import functools
import importlib
import itertools
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from unis.cli import main
from unis.runtime.directory import all_runs


def kill(victim: str) -> None:
    """A process of our run, which the launcher asks for."""
    me = os.getpid()
    (state,) = [state for _, state in all_runs() if state.launcher.pid == me]
    process = getattr(state, victim)
    assert process, f"there is no {victim} yet"
    Path(os.environ["KILLED"]).write_text(victim)
    os.kill(process.pid, signal.SIGKILL)


def arm(point: str, victim: str) -> None:
    """Has the victim die there."""
    found = re.fullmatch(r"(.*?):(.*?)(?:#(\d+))?(?:@(.*))?", point)
    assert found, point
    module, name, nth, text = found.groups()
    *owners, last = name.split(".")
    owner: Any = importlib.import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    function, calls = getattr(owner, last), itertools.count(1)

    @functools.wraps(function)
    def dying(*arguments: Any, **keys: Any) -> Any:
        counts = text is None or text in repr((arguments, keys))
        if counts and next(calls) == int(nth or 1):
            kill(victim)
        return function(*arguments, **keys)

    setattr(owner, last, dying)


if __name__ == "__main__":
    arm(*sys.argv[1:3])
    sys.argv = ["unis", *sys.argv[3:]]
    main()
