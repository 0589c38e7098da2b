"""What ends a command with a sentence and an exit code."""

EXIT_FAILED, EXIT_BAD_INPUT = 1, 2
EXIT_INTERRUPTED = 130  # by Ctrl-C, as shells count: 128 and the number of SIGINT


class UnisError(Exception):
    """The text tells the user what is wrong, and what to do about it."""

    def __init__(self, sentence: str, *, bad_input: bool = True) -> None:
        super().__init__(sentence)
        self.bad_input = bad_input  # the user can mend it

    @property
    def exit_code(self) -> int:
        """2 where the user can mend it, else 1."""
        return EXIT_BAD_INPUT if self.bad_input else EXIT_FAILED
