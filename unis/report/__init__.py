"""What UNiS measured, for people to look at."""

from importlib.util import find_spec

from unis.errors import UnisError


def check_plots() -> None:
    """Raises UnisError where matplotlib, which the plots need, is not installed."""
    if find_spec("matplotlib") is None:
        raise UnisError("plots need matplotlib, which is not installed: pip install 'unis[report]'")
