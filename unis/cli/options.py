"""Arguments and options of several commands, and numbers within bounds."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

ChainFileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="Chain file.", show_default=False)
]
NameArgument = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="Name of the run. Not needed while only one run is up."),
]
NameOption = Annotated[
    str | None, typer.Option(help="Name of the run. Not needed while only one run is up.")
]
RunNameOption = Annotated[
    str | None, typer.Option(help="Name of the run. Default: `name` in the file.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

N = TypeVar("N", int, float)


def between(least: float, most: float, said: str) -> Any:
    """An option that holds a number from `least` to `most`; `said` is its help."""
    return typer.Option(min=least, max=most, callback=_a_number, help=said)


def one_of(
    what: str, known: Collection[str], advice: str = ""
) -> Callable[[str | None], str | None]:
    """A callback for a `what`, as `policy`, that has one of the `known` names.

    `advice`: how the sentence of the error goes on.
    """

    def check(value: str | None) -> str | None:
        if value is not None and value not in known:
            raise typer.BadParameter(
                f"invalid {what} `{value}`; expected one of {', '.join(known)}{advice}"
            )
        return value

    return check


def policy_option(of_what: str, default: str) -> Any:
    """The option `--policy`; `of_what` and `default` are words of its help."""
    from unis.engine import names

    known = names.policies()
    said = f"Scheduling policy{of_what}: {', '.join(known)}. Default: {default}."
    return typer.Option("--policy", callback=one_of("policy", known), help=said)


def by_name(
    values: Iterable[str], number: Callable[[str], N], form: str, hint: str | None = None
) -> Iterator[tuple[str, str, N]]:
    """Each `NAME=NUMBER` with its name and its number. BadParameter where a value has another form;
    the error names `form` and the option `hint`.
    """
    for value in values:
        name, _, text = value.partition("=")
        try:
            yield value, name, number(text)
        except ValueError:
            raise typer.BadParameter(f"`{value}`: write {form}", param_hint=hint) from None


def _a_number(value: float | None) -> float | None:
    # nan is neither below the least nor above the most.
    if value is not None and math.isnan(value):
        raise typer.BadParameter("invalid number nan")
    return value
