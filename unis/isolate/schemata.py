"""The text of `schemata` files: `L3:0=ff;1=f0`, a line a resource.

Masks of caches are hexadecimal, bandwidths decimal: a percentage, MiB/s where resctrl is mounted
with mba_MBps, on AMD eighths of GB/s.
"""

from collections.abc import Iterable, Mapping

from unis.isolate.bitmask import format_hex, parse_hex

CACHES = ("L2", "L2CODE", "L2DATA", "L3", "L3CODE", "L3DATA")
BANDWIDTH = "MB"

# By cache ID: the mask of a cache, or a bandwidth.
Values = Mapping[int, int]
# By resource.
Schemata = Mapping[str, Values]


def is_cache(resource: str) -> bool:
    """Whether its values are capacity masks."""
    return resource in CACHES


def level(resource: str) -> str:
    """The cache behind a resource: code and data of one are ways of one cache."""
    return resource.removesuffix("CODE").removesuffix("DATA")


def parse_values(text: str, *, masks: bool) -> dict[int, int]:
    """`0=ff;1=f0`; ValueError with what is wrong."""
    values: dict[int, int] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        domain, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not _is_number(domain):
            raise ValueError(f"`{part}` is no `cache ID=value`")
        if int(domain) in values:
            raise ValueError(f"cache ID {int(domain)} stands twice")
        if not masks and not _is_number(value):
            raise ValueError(f"`{value}` is no number")
        values[int(domain)] = parse_hex(value) if masks else int(value)
    return values


def parse(text: str) -> dict[str, dict[int, int]]:
    """What a `schemata` file says; resources that UNiS does not know are left out. ValueError."""
    found: dict[str, dict[int, int]] = {}
    for line in filter(str.strip, text.splitlines()):
        resource, colon, values = line.partition(":")
        resource = resource.strip()
        if not colon:
            raise ValueError(f"`{line.strip()}` has no `:`")
        if resource not in (*CACHES, BANDWIDTH):
            continue
        if resource in found:
            raise ValueError(f"{resource} stands twice")
        found[resource] = parse_values(values, masks=is_cache(resource))
    return found


def format_values(values: Values, *, masks: bool) -> str:
    """As `parse_values` reads them."""
    return ";".join(
        f"{domain}={format_hex(value) if masks else value}"
        for domain, value in sorted(values.items())
    )


def format_lines(schemata: Schemata) -> str:
    """What one write to a `schemata` file takes: all of it holds, or nothing does."""
    return "".join(
        f"{resource}:{format_values(values, masks=is_cache(resource))}\n"
        for resource, values in sorted(schemata.items())
        if values
    )


def changes(now: Schemata, wanted: Schemata) -> dict[str, dict[int, int]]:
    """The values of `wanted` that are not so `now`."""
    found = {
        resource: {
            domain: value
            for domain, value in values.items()
            if now.get(resource, {}).get(domain) != value
        }
        for resource, values in wanted.items()
    }
    return {resource: values for resource, values in found.items() if values}


def merged(parts: Iterable[Schemata]) -> dict[str, dict[int, int]]:
    """All values of all; of one that stands twice the later."""
    found: dict[str, dict[int, int]] = {}
    for part in parts:
        for resource, values in part.items():
            found.setdefault(resource, {}).update(values)
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
