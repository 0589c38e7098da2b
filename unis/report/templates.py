"""The templates of pages: those beside this file, and those of the package that asks."""

from collections.abc import Callable
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template


def template(name: str, package: str = "unis.report", **filters: Callable[..., Any]) -> Template:
    """A page that escapes what it shows, and fails on what it is not given."""
    pages = Environment(
        loader=ChoiceLoader([PackageLoader(package, "."), PackageLoader("unis.report", ".")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters.update(filters)
    return pages.get_template(name)
