"""`unis etsi`: descriptors of ETSI NFV (SOL006) as chain files, and back."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from unis.cli.options import ChainFileArgument, JsonOption
from unis.cli.terminal import out, print_line, warn, writable
from unis.errors import UnisError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from unis.chain.problem import LocatedProblem
    from unis.etsi.programs import StatedPrograms

_T = TypeVar("_T")

_FOR_ALL = 0o644  # neither chain files nor descriptors are secrets
_WIDTH = 96
_FORM = "ID='NAME ARGUMENTS'"

etsi = typer.Typer(
    no_args_is_help=True,
    help="Read descriptors of ETSI NFV (SOL006) as chain files, and write them (docs/etsi.md).",
)


@etsi.command("import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Files with an NSD and VNFDs, JSON or YAML."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Chain file to write.")],
    program: Annotated[
        list[str] | None,
        typer.Option(
            metavar=_FORM,
            help="Program of a function, by vnf-profile or VNFD: `program` and `args` of the chain "
            "file. Default: as the VNFD states it.",
        ),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Option(metavar=_FORM, help="The same for any DPDK program: `command`."),
    ] = None,
    image: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID=FOLDER",
            help="Image of a function, which then runs in a container. Default: the image of the "
            "VNFD, if that is a folder with an OCI image layout.",
        ),
    ] = None,
    cpu: Annotated[int, typer.Option(min=0, help="CPU of all functions.")] = 1,
    nsd: Annotated[
        str | None, typer.Option(metavar="ID", help="NSD. Default: the only one.")
    ] = None,
    flavour: Annotated[
        str | None, typer.Option(metavar="ID", help="`df` of the NSD. Default: the only one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a chain file for an NSD: a chain for each nfpd, a function for each VNF that it passes.

    A VNFD has no command line, so name programs by --program or --command. What a chain file cannot
    have is listed on stderr, a line each, with its place in the descriptor and the reason.

    Example: unis etsi import examples/etsi/link.json -o link.yaml --program monitor=monitor
    """
    from unis.chain.document import read_as_written
    from unis.etsi.importer import Wishes, imported
    from unis.runtime.files import write_atomically

    programs = _stated(program, command, image, output)
    writable(output)
    found = imported([read_as_written(file) for file in files], Wishes(programs, cpu, nsd, flavour))
    text = _chain_text(found.data)
    _check(text, output)
    write_atomically(output, text, _FOR_ALL)
    chains = {name: chain["path"] for name, chain in found.data["chains"].items()}
    lists = {"renamed": found.renamed, "not_carried": found.left}
    if as_json:
        result = {"output": str(output), "name": found.data["name"], "chains": chains}
        out.print_json(data={**result, **{key: _as_data(value) for key, value in lists.items()}})
        return
    _warn(lists.values())
    for name, path in chains.items():
        print_line(f"chain {name}: {' → '.join(path)}")
    print_line(_written(output, len(found.left)), "bold")


@etsi.command()
def export(
    file: ChainFileArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: JSON if it ends in .json.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Write an NSD and a VNFD for each function of a chain file, which `import` reads back.

    What descriptors cannot have is listed on stderr, a line each, with the reason.

    Example: unis etsi export examples/demo.yaml -o demo-descriptors.yaml
    """
    from unis.chain.load import load
    from unis.etsi.exporter import exported
    from unis.runtime.files import write_atomically

    chain = load(file)
    writable(output)
    found = exported(chain)
    is_json = output.suffix == ".json"
    text = json.dumps(found.data, indent=2) + "\n" if is_json else _yaml(found.data)
    write_atomically(output, text, _FOR_ALL)
    lists = {"notes": found.notes, "not_carried": found.left}
    if as_json:
        data = {key: _as_data(value) for key, value in lists.items()}
        out.print_json(data={"output": str(output), **data})
        return
    _warn(lists.values())
    print_line(_written(output, len(found.left)), "bold")


def _written(output: Path, left: int) -> str:
    rest = f"{left} parts are not carried over (listed above)" if left else "all is carried over"
    return f"written: {output}; {rest}."


def _warn(lists: Iterable[list[LocatedProblem]]) -> None:
    for problems in lists:
        for problem in problems:
            warn(str(problem), "yellow")


def _as_data(problems: list[LocatedProblem]) -> list[dict[str, Any]]:
    from unis.chain.problem import dotted

    return [
        {
            "file": str(located.file),
            "line": located.line,
            "path": dotted(located.problem.location),
            "why": located.problem.sentence,
        }
        for located in problems
    ]


def _stated(
    program: list[str] | None, command: list[str] | None, image: list[str] | None, output: Path
) -> StatedPrograms:
    from unis.etsi.programs import StatedPrograms

    folder = output.parent.resolve()
    programs = _by_id("--program", program, partial(_words, "--program"))
    commands = _by_id("--command", command, partial(_words, "--command"))
    if both := programs.keys() & commands.keys():
        raise typer.BadParameter(f"`{min(both)}` has a --program too", param_hint="--command")

    def image_folder(value: str) -> tuple[str, str]:
        name, text = _split("--image", value, "ID=FOLDER")
        if not Path(text).is_dir():
            raise typer.BadParameter(f"there is no folder {text}", param_hint="--image")
        return name, os.path.relpath(Path(text).resolve(), folder)

    images = _by_id("--image", image, image_folder)

    def layout(descriptor: Path, named: str) -> str | None:
        try:
            found = (descriptor.parent / named).resolve()
            there = not Path(named).is_absolute() and (found / "oci-layout").is_file()
        except (OSError, ValueError):  # no name of a file
            return None
        return os.path.relpath(found, folder) if there else None

    return StatedPrograms(programs, commands, images, layout)


def _by_id(
    option: str, values: list[str] | None, parsed: Callable[[str], tuple[str, _T]]
) -> dict[str, _T]:
    found: dict[str, _T] = {}
    for name, value in map(parsed, values or []):
        if name in found:
            raise typer.BadParameter(f"`{name}` is named twice", param_hint=option)
        found[name] = value
    return found


def _split(option: str, value: str, form: str) -> tuple[str, str]:
    name, sign, text = value.partition("=")
    if not (name and sign and text):
        raise typer.BadParameter(f"`{value}`: write {form}", param_hint=option)
    return name, text


def _words(option: str, value: str) -> tuple[str, list[str]]:
    name, text = _split(option, value, _FORM)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise typer.BadParameter(f"`{value}`: {error}", param_hint=option) from None
    if not words:
        raise typer.BadParameter(f"`{value}`: write {_FORM}", param_hint=option)
    return name, words


def _chain_text(data: Any) -> str:
    return _yaml(_escaped(data))


def _escaped(value: Any) -> Any:
    """A dollar begins a variable in a chain file, unless it is written twice."""
    if isinstance(value, dict):
        return {key: _escaped(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_escaped(each) for each in value]
    return value.replace("$", "$$") if isinstance(value, str) else value


def _yaml(data: Any) -> str:
    import io

    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = _WIDTH
    yaml.representer.ignore_aliases = lambda *_: True
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()


def _check(text: str, output: Path) -> None:
    """Whether it is a chain file, before it is one that somebody might start."""
    from unis.chain.load import load
    from unis.chain.problem import ChainFileError, dotted

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "chain.yaml"
        file.write_text(text)
        try:
            load(file)
        except ChainFileError as error:
            lines = [
                f"{output} would be no chain file: {dotted(each.problem.location)}: "
                f"{each.problem.sentence}"
                for each in error.problems
            ]
            raise UnisError("\n".join(lines)) from None
