"""The templates of the pages, which lie beside this file."""

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


def template(name: str, **filters: Callable[..., Any]) -> Template:
    """A page that escapes what it shows, and fails on what it is not given."""
    pages = Environment(
        loader=PackageLoader("unis.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters.update(filters)
    return pages.get_template(name)
