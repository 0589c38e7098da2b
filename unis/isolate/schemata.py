"""The text of `schemata` files: `L3:0=ff;1=f0`, a line a resource.

Masks of caches are hexadecimal, bandwidths decimal: a percentage, MiB/s where resctrl is mounted
with mba_MBps, on AMD eighths of GB/s.
"""

import re
from collections.abc import Mapping

CACHES = ("L2", "L2CODE", "L2DATA", "L3", "L3CODE", "L3DATA")
BANDWIDTH = "MB"

# By cache ID: the mask of a cache, or a bandwidth.
Values = Mapping[int, int]
# By resource.
Schemata = Mapping[str, Values]


def level(resource: str) -> str:
    """The cache behind a resource: code and data of one are ways of one cache."""
    return resource.removesuffix("CODE").removesuffix("DATA")


def parse_hex(text: str) -> int:
    """A mask as resctrl writes it, without 0x, perhaps in groups with commas. ValueError."""
    digits = text.strip().replace(",", "")
    if not re.fullmatch("[0-9a-fA-F]+", digits):
        raise ValueError(f"invalid mask `{text.strip()}`; expected hexadecimal digits")
    return int(digits, 16)


def parse_values(text: str, *, masks: bool) -> dict[int, int]:
    """`0=ff;1=f0`; ValueError with what is wrong."""
    values: dict[int, int] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        domain, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not _is_number(domain):
            raise ValueError(f"invalid `{part}`; expected `cache ID=value`")
        if int(domain) in values:
            raise ValueError(f"cache ID {int(domain)} stands twice")
        if not masks and not _is_number(value):
            raise ValueError(f"invalid number `{value}`")
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
        found[resource] = parse_values(values, masks=resource in CACHES)
    return found


def format_values(values: Values, *, masks: bool) -> str:
    """As `parse_values` reads them."""
    return ";".join(
        f"{domain}={value:x}" if masks else f"{domain}={value}"
        for domain, value in sorted(values.items())
    )


def format_lines(schemata: Schemata) -> str:
    """What one write to a `schemata` file takes: all of it holds, or nothing does."""
    return "".join(
        f"{resource}:{format_values(values, masks=resource in CACHES)}\n"
        for resource, values in sorted(schemata.items())
        if values
    )


def changes(now: Schemata, wanted: Schemata) -> dict[str, dict[int, int]]:
    """The values of `wanted` that are not so `now`."""
    found = {
        resource: dict(values.items() - now.get(resource, {}).items())
        for resource, values in wanted.items()
    }
    return {resource: values for resource, values in found.items() if values}


def merged(base: Schemata, over: Schemata) -> dict[str, dict[int, int]]:
    """All values of both; those of `over` win."""
    return {name: {**base.get(name, {}), **over.get(name, {})} for name in {**base, **over}}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
