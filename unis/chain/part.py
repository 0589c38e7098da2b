"""What all parts of the chain file are."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Strict, frozen, described by the texts below its keys."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        populate_by_name=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )
