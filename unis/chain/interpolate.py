"""`${VAR}` in the values of a chain file, as compose has it."""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?-)([^{}]*))?\}|)")


def is_one_reference(text: str) -> bool:
    """Whether `text` is a variable and nothing beside it."""
    match = _REFERENCE.fullmatch(text)
    return match is not None and match[2] is not None


class InterpolationError(ValueError):
    """The text says which variable is missing, or what is no reference."""


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """`text` with `${VAR}` and `${VAR:-default}` filled in; `$$` stands for a dollar."""

    def fill(match: re.Match[str]) -> str:
        dollar, name, sign, default = match.groups()
        if dollar:
            return "$"
        if name is None:
            raise InterpolationError(
                f"`{text}` has a $ that begins no ${{NAME}}; write $$ for a dollar"
            )
        value = variables.get(name)
        # `:-` stands in for an empty variable too, `-` only for one that is not set.
        if value or (value is not None and sign != ":-"):
            return value
        if sign:
            return str(default)
        raise InterpolationError(
            f"the variable {name} is not set; set it, or write ${{{name}:-default}}"
        )

    return _REFERENCE.sub(fill, text)
