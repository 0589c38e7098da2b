"""Why a chain is not run, or no longer."""

import os
import shlex
import signal
import sys

from unis.errors import UnisError


class LaunchError(UnisError):
    """A chain that cannot be started."""


class RunFailedError(UnisError):
    """A chain that was taken down because part of it died."""

    def __init__(self, sentence: str, *, bad_input: bool = False) -> None:
        super().__init__(sentence, bad_input=bad_input)  # bad: a program refused its arguments


class NotAllowedError(UnisError):
    """Something that only root, or another user, may look at."""


def as_root(*args: str) -> str:
    """The same command as root, or that with `args`, by its path: the PATH of sudo may lack it."""
    if os.access(sys.argv[0], os.X_OK):
        unis, own = [sys.argv[0]], sys.argv[1:]
    else:  # a module, by `python -m`
        unis, own = [sys.executable, *sys.orig_argv[1:3]], sys.orig_argv[3:]
    return shlex.join(["sudo", *unis, *(args or own)])


def internal_error(error: BaseException | None) -> str:
    """What a user reads of an exception that is no UnisError: a fault of ours."""
    return f"internal error: {error!r}"


class InterruptedRunError(BaseException):
    """Ctrl-C or SIGTERM, whose name it has: no `except Exception` may take it for a fault."""


class RunTimeoutError(BaseException):
    """A deadline has passed; no `except Exception` may take it for a fault. `supervise` makes a
    RunFailedError of it."""


def interrupted_code(error: BaseException) -> int:
    """The exit code of a command that `error` interrupted: 128 and the number of the signal, as
    shells count. Of an InterruptedRunError that of its signal, else that of Ctrl-C."""
    return 128 + getattr(signal, str(error), signal.SIGINT)
