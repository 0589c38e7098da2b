"""A number of the model, with its unit and where it comes from."""

from typing import Annotated, Literal

from pydantic import Field

from unis.chain.values import Part

Source = Literal["published", "derived", "measured", "assumed"]
Amount = Annotated[float, Field(ge=0)]


class Parameter(Part):
    """A number with its unit and its source."""

    value: Amount
    unit: Annotated[str, Field(min_length=1)]
    """`cycles`, `ns`, `Hz`, `bit/s`, `bytes`: each parameter has its own unit, or a choice of
    units."""
    source: Source
    """`published`: in a paper or data sheet. `derived`: computed from published numbers.
    `measured`: on the machine. `assumed`: none of these."""
    note: str = ""
    """Where it stands, or how it was derived, measured or guessed."""

    def with_value(self, value: float, note: str) -> "Parameter":
        """As a question would have it: assumed."""
        return self.model_copy(update={"value": value, "source": "assumed", "note": note})


def assumed(value: float, unit: str, note: str) -> Parameter:
    """One that nobody stated."""
    return Parameter(value=value, unit=unit, source="assumed", note=note)
