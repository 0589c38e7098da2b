"""Programs and captures that a chain file names."""

import os
import shutil
from pathlib import Path

from unis import built

CAPTURE_MAGIC = {
    bytes.fromhex(magic): kind
    for magic, kind in {
        "a1b2c3d4": "pcap",
        "d4c3b2a1": "pcap",
        "a1b23c4d": "pcap",  # time stamps in nanoseconds
        "4d3cb2a1": "pcap",
        "0a0d0d0a": "pcapng",
    }.items()
}


def find_program(program: str, directory: Path) -> Path | None:
    """The program of a function: with a slash a path from the chain file, else a built one, else
    one on PATH. A file that happens to lie beside the chain file never takes a name's place.
    """
    if "/" in program:
        found = shutil.which(directory / program)
    else:
        found = shutil.which(built.functions_directory() / program) or shutil.which(program)
    # Not resolved: what a program does may depend on the name that it is called by.
    return Path(found).absolute() if found else None


def is_built(program: Path) -> bool:
    """Whether a program that `find_program` found is one of UNiS' own functions."""
    return program.parent == built.functions_directory()


def program_problem(program: str, directory: Path) -> str | None:
    """Why there is no such program, and what to write; None if there is one."""
    if find_program(program, directory):
        return None
    if Path(program).parts[-3:-1] == ("strangers", "bin"):
        fetched = "testpmd" if program.endswith("testpmd") else ""
        return (
            f"{Path(program).name} is not fetched yet; run `{f'tools/strangers {fetched}'.strip()}`"
        )
    if "/" in program:
        return f"there is no program {directory / program}; name one that can be executed"
    beside = directory / program
    # is_file() alone raises for a name that is too long.
    if os.access(beside, os.F_OK) and beside.is_file():
        return (
            f"`{program}` lies beside the chain file, and is neither a built function nor on PATH; "
            f"write ./{program}"
        )
    return (
        f"there is no program `{program}` among the built functions or on PATH; name one, write a "
        "path with a slash, or run `make build`"
    )


def capture_problem(file: Path) -> str | None:
    """Why `file` cannot be replayed, or None."""
    try:
        with file.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        return f"cannot read {file}: {error.strerror}; name a pcap or pcapng file"
    if magic not in CAPTURE_MAGIC:
        return f"{file} is neither pcap nor pcapng; name a capture written by tcpdump or the like"
    return None
