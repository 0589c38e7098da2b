"""`unis image`: an image of programs for functions in containers."""

from pathlib import Path
from typing import Annotated

import typer

from unis import built
from unis.cli.terminal import print_line
from unis.container.build import build_image
from unis.plan.programs import find_program, program_problem
from unis.runtime.errors import LaunchError

_MB = 1 << 20


def image(
    programs: Annotated[
        list[str],
        typer.Argument(help="Reference functions, programs on PATH, or paths.", metavar="PROGRAM…"),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to write, such as ./functions-image.")
    ],
) -> None:
    """Make an OCI image of programs of this machine, for functions in containers.

    The image has the programs in /usr/local/bin and the libraries that they need, and nothing else.
    Name its folder in the chain file: `container: {image: ./functions-image}`. Programs of other
    sources need no image of UNiS: any OCI image layout, or a root file system, will do.

    Example: unis image firewall monitor -o functions-image
    """
    found: dict[str, Path] = {}
    for name in programs:
        if problem := program_problem(name, Path.cwd()):
            raise LaunchError(problem)
        path = find_program(name, Path.cwd())
        if path:
            found[path.name] = path
    loaded = [built.port_plugin(), built.mmsg_driver()]
    try:
        digest = build_image(found, loaded, output)
    except OSError as error:
        raise LaunchError(f"cannot write {output}: {error.strerror}") from None
    size = sum(blob.stat().st_size for blob in (output / "blobs" / "sha256").iterdir())
    print_line(f"{output}: {', '.join(sorted(found))}; {size / _MB:.0f} MB, {digest}")
