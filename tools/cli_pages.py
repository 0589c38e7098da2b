"""docs/cli: a page for each command, from what the command line says of itself.

`make docs` writes them; a test holds them current.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

# Typer brings its own click, whose classes have no public name: Any.
_NOT_SHOWN = {"help", "install_completion", "show_completion"}


def pages() -> dict[str, str]:
    """File name and text of every page."""
    from evaluation.app import app as evaluation
    from unis.cli.app import app

    unis = list(_commands_of(app, "unis"))
    research = list(_commands_of(evaluation, "python -m evaluation"))
    texts = {f"{_slug(inner)}.md": _page(command, inner) for command, inner in [*unis, *research]}
    index = (
        "# The commands of `unis`\n\nWritten by `make docs`, from the commands themselves.\n\n"
        f"{_described(*_root(app, 'unis'))}\n\n"
        f"{_index(unis)}\n\n## Comparisons with papers, and of UNiS with itself\n\nIn a clone: "
        f"`uv run python -m evaluation`.\n\n{_index(research)}\n"
    )
    return {"README.md": index, **texts}


def _root(app: typer.Typer, name: str) -> tuple[Any, typer.Context]:
    root = typer.main.get_command(app)
    return root, typer.Context(root, info_name=name)


def _commands_of(app: typer.Typer, name: str) -> Iterator[tuple[Any, typer.Context]]:
    return _commands(*_root(app, name))


def _index(commands: list[tuple[Any, typer.Context]]) -> str:
    return "\n".join(
        f"- [{inner.command_path}]({_slug(inner)}.md): {_first_sentence(command)}"
        for command, inner in commands
    )


def _commands(group: Any, context: typer.Context) -> Iterator[tuple[Any, typer.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = typer.Context(command, info_name=name, parent=context)
        if hasattr(command, "list_commands"):
            yield from _commands(command, inner)
        else:
            yield command, inner


def _slug(context: typer.Context) -> str:
    return context.command_path.removeprefix("unis ").removeprefix("python -m ").replace(" ", "-")


def _text(command: Any) -> str:
    return inspect.cleandoc(command.help or "").replace("\b\n", "").replace("\f", "")


def _first_sentence(command: Any) -> str:
    return " ".join(_text(command).split("\n\n")[0].split())


def _page(command: Any, context: typer.Context) -> str:
    return f"# {context.command_path}\n\n{_described(command, context)}\n"


def _described(command: Any, context: typer.Context) -> str:
    """Usage, help, and a table of arguments and options."""
    shown = [part for part in command.params if part.name not in _NOT_SHOWN]
    arguments = [part for part in shown if part.param_type_name == "argument"]
    options = [part for part in shown if part.param_type_name == "option" and not part.hidden]
    words = [context.command_path, *(_argument(part) for part in arguments)]
    words += [_required(part) for part in options if part.required]
    if not all(part.required for part in options):
        words.append("[OPTIONS]")
    if hasattr(command, "list_commands"):
        words.append("COMMAND")
    # What stands behind "Example:" is for the shell.
    text = re.sub(r"(?m)^Examples?: (.*)$", r"```\n\1\n```", _text(command))
    parts = [f"```\n{' '.join(words)}\n```", text]
    if shown:
        rows = [_row(part, context) for part in [*arguments, *options]]
        parts.append("\n".join(["| | | default |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _required(option: Any) -> str:
    value = str(option.metavar or option.name).upper()
    return f"{option.opts[-1]} {value}" + ("..." if option.multiple else "")


def _argument(part: Any) -> str:
    name = str(part.metavar or part.name).upper()
    if name.endswith("..."):  # the name says how it is repeated
        return name
    name = name.strip("[]") + ("..." if part.nargs == -1 else "")
    return name if part.required else f"[{name}]"


def _row(part: Any, context: typer.Context) -> str:
    names = ", ".join(f"`{name}`" for name in [*part.opts, *getattr(part, "secondary_opts", [])])
    if part.param_type_name == "argument":
        names = f"`{_argument(part)}`"
    default = part.get_default(context, call=False)
    plain = default is not None and default is not False and not callable(default)
    shown = f"`{default}`" if plain and str(default) not in ("", "()", "[]") else ""
    if part.required and part.param_type_name == "option":
        shown = "required"
    said = " ".join((getattr(part, "help", None) or "").split()).replace("|", "\\|")
    return f"| {names} | {said} | {shown} |"


def main(directory: Path) -> None:
    """Writes the pages, and removes those of commands that are no more."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for old in directory.glob("*.md"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
