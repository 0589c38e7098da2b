"""`unis bench scc`, `model` and `vhost`: commands of the evaluation, which only a clone has."""

from __future__ import annotations

import importlib
import sys

import typer

from unis import built
from unis.cli.terminal import fail

ANY_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}


def scc(context: typer.Context) -> None:
    """Repeat the evaluation of the SCC paper. In a clone of UNiS.

    Options are those of `python -m evaluation scc`.

    Example: unis bench scc --quick -o build/scc
    """
    _evaluate(context, "scc")


def model(context: typer.Context) -> None:
    """Compare the capacity model with this machine. In a clone of UNiS.

    Options are those of `python -m evaluation model`.

    Example: unis bench model --quick -o build/model
    """
    _evaluate(context, "model")


def vhost(context: typer.Context) -> None:
    """Compare vhost-user with memif on this machine. In a clone of UNiS.

    Options are those of `python -m evaluation vhost`.

    Example: unis bench vhost --quick -o build/vhost
    """
    _evaluate(context, "vhost")


def _evaluate(context: typer.Context, name: str) -> None:
    if not built.is_clone():
        raise fail(f"`unis bench {name}` runs in a clone of UNiS, where its code is")
    sys.path.insert(0, str(built.clone()))
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    single.command()(getattr(importlib.import_module(f"evaluation.commands.{name}"), name))
    code = typer.main.get_command(single).main(
        context.args, prog_name=f"unis bench {name}", standalone_mode=False
    )
    raise typer.Exit(code or 0)
