"""A cluster's file and its book, as `unis admit` and `unis cluster` open them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from unis.cli.terminal import fail
from unis.errors import EXIT_FAILED
from unis.runtime.errors import LaunchError
from unis.runtime.files import locked, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unis.slo.cluster import Cluster, OnDemandPromise
    from unis.slo.online import Where

FileArgument = Annotated[
    Path,
    typer.Argument(metavar="CLUSTER", help="Cluster file: servers and profiles (docs/slo.md)."),
]
BookOption = Annotated[
    Path | None,
    typer.Option(
        "--book",
        help="File that keeps the promises. Default: next to CLUSTER, with the suffix .book.json.",
    ),
]


@contextmanager
def opened_cluster(
    file: Path, book: Path | None, *, kept: bool = True, but: Sequence[str] = ()
) -> Iterator[Cluster]:
    """Nobody else's while this lasts; then written, if `kept` and nothing was raised.

    `but`: what was promised by these names is not opened; exits where there is no such.
    """
    from unis.slo.book import Book, booked, opened
    from unis.slo.cluster import cluster_of
    from unis.slo.model import load_cluster
    from unis.slo.profile import only_ways_and_cores

    load_cluster(file)  # what is wrong with it is told before anything is made
    path = book_of(file, book)
    try:
        with locked(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT):
            read = load_cluster(file)
            if more := only_ways_and_cores(read.workload):
                raise fail(f"{file}: admission knows ways and cores only, and here {more}")
            cluster = cluster_of(read)
            try:
                held = Book.model_validate_json(path.read_text()) if path.exists() else Book()
                if unknown := [name for name in but if name not in held.names]:
                    raise fail(f"nothing is promised as {', '.join(unknown)}; nothing was released")
                opened(held.without(but), cluster)
            except ValueError as error:
                raise fail(f"{path}: {short(error)}", EXIT_FAILED) from None
            yield cluster
            if kept:
                write_atomically(path, booked(cluster).model_dump_json(by_alias=True) + "\n", 0o644)
    except (OSError, LaunchError) as error:
        raise fail(str(error), EXIT_FAILED) from None


def book_of(file: Path, book: Path | None) -> Path:
    """Where what is promised in a cluster is kept."""
    return book or file.with_suffix(".book.json")


def short(error: ValueError) -> str:
    """Why a book cannot be used."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        return f"is not a book of a cluster: {where}: {first['msg']}"
    return f"{error}; release it (`unis cluster release`), or mend CLUSTER"


def told(where: Where) -> str:
    """As `xeon 3, ways 5-9 (mask 3e0)`."""
    instance = where.instance
    first, last = instance.first, instance.first + instance.ways - 1
    ways = f"way {first}" if first == last else f"ways {first}-{last}"
    return f"{where.server} {where.number}, {ways} (mask {instance.mask:x})"


def where_data(where: Where) -> dict[str, Any]:
    """The same for programs."""
    instance = where.instance
    return {
        "server": where.server, "number": where.number, "socket": instance.socket,
        "ways": instance.ways, "first": instance.first, "mask": f"{instance.mask:x}",
    }  # fmt: skip


def demand_data(promise: OnDemandPromise) -> dict[str, Any]:
    """A promise on demand: a core of those that a server leases, no ways of its own."""
    return {
        "promise": promise.name, "kind": "on-demand",
        "function": promise.function, "p95_us": promise.p95_us,
        "where": [{"server": promise.server, "number": promise.number}],
    }  # fmt: skip
