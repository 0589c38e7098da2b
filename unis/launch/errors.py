"""Why a chain is not run, or no longer."""

from collections.abc import Sequence


class LaunchError(Exception):
    """A chain that cannot be started; the text says what to do about it."""

    def __init__(self, sentence: str, *, bad_input: bool = True) -> None:
        super().__init__(sentence)
        self.bad_input = bad_input  # exit code 2: the user can mend it; else 1


class RunFailedError(Exception):
    """A chain that was taken down because part of it died."""

    def __init__(self, sentence: str, *, bad_input: bool = False) -> None:
        super().__init__(sentence)
        self.bad_input = bad_input  # a program refused its arguments


class InterruptedRunError(Exception):
    """Ctrl-C or SIGTERM."""


class CleanUpError(Exception):
    """Part of a run could not be undone."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
