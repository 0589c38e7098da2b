"""`unis cache`: classes of service of the last-level cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.options import JsonOption
from unis.cli.terminal import moved, out, print_line, table_of

if TYPE_CHECKING:
    from unis.isolate.schemata import Schemata
    from unis.isolate.state import CacheUsage

cache = typer.Typer(no_args_is_help=True, help="Show how the last-level cache is shared out.")
# A form of before, which says where the emulation is now.
EmulatedOption = Annotated[bool, typer.Option("--emulated", hidden=True)]
_REST = "everybody else"


@cache.callback()
def cache_group() -> None:
    """Show how the last-level cache is shared out."""


@cache.command()
def show(
    emulated: EmulatedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show which threads have which cache ways: groups, ways for DMA, occupancy.

    Reads resctrl, which must be mounted (`unis doctor` tells whether it can be), and changes
    nothing. The highest way is printed first, as in masks. The CPU counts what a group has in the
    cache, if the CPU can.

    Example: unis cache show
    """
    from unis.isolate.hardware import detect
    from unis.isolate.state import read_usage
    from unis.isolate.tree import kernel_tree

    if emulated:
        raise moved("unis cache show --emulated", "cache")
    usage = read_usage(kernel_tree(), detect().io)
    print_usage(usage, as_json=as_json)


def print_usage(usage: CacheUsage, *, as_json: bool) -> None:
    """For a reader or for a program."""
    if as_json:
        out.print_json(data=usage.as_dict())
    else:
        _print(usage)


def _print(usage: CacheUsage) -> None:
    from unis.isolate.masks import row

    head = f"{usage.label}: no effect on hardware" if usage.emulated else usage.label
    style = "bold yellow" if usage.emulated else "bold"
    print_line(head, style)
    for name, resource in usage.info.caches.items():
        for domain in resource.domains:
            size = resource.way_bytes.get(domain, 0)
            title = f"\n{name} {domain}: {resource.ways} ways of {size / (1 << 20):.3g} MB"
            words = ("ways, the highest first", "")
            table = table_of(title, "class", ("threads", "occupancy", "size"), words, words[:1])
            if name.startswith("L3") and (mask := usage.io.masks.get(domain)):
                table.add_row("DMA", "", "", _mb(mask.bit_count() * size), row(mask, resource.ways))
            for group in usage.classes:
                mask = group.schemata.get(name, {}).get(domain, 0)
                table.add_row(
                    group.name or _REST, str(group.threads),
                    _mb(group.occupancy.get(domain)) if name.startswith("L3") else "–",
                    _mb(mask.bit_count() * size), row(mask, resource.ways),
                    _more(group.mode, group.schemata, domain),
                )  # fmt: skip
                for part in group.parts if name.startswith("L3") else ():
                    table.add_row(
                        f"  {part.name}", str(part.threads), _mb(part.occupancy.get(domain)), "", ""
                    )
            out.print(table)
    used = f"{len(usage.classes)} of {usage.info.num_closids} classes of service"
    print_line(f"\n{used}; {usage.io.told}.")


def _mb(size: int | None) -> str:
    return "–" if size is None else f"{size / (1 << 20):.3g} MB"


def _more(mode: str, schemata: Schemata, domain: int) -> str:
    words = [mode] if mode != "shareable" else []
    limit = schemata.get("MB", {}).get(domain)
    words += [f"bandwidth {limit}"] if limit is not None else []
    return ", ".join(words)
