"""UNiS: runs chains of poll-mode network functions on shared CPU cores, unmodified."""

from importlib.metadata import version

__version__ = version("unis")
