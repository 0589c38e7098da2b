"""UNiS: runs chains of poll-mode network functions on shared CPU cores, unmodified."""


def version() -> str:
    """The version that is installed."""
    # A fifth of a short command's time, and only two of them ask.
    from importlib.metadata import version as of

    return of("unis")
