"""What a plan says of a container."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unis.errors import UnisError


class ImageError(UnisError):
    """An image is not what it should be; the text says what is, and what to do."""


@dataclass(frozen=True)
class Mount:
    """A file or folder of this machine that a container sees."""

    source: Path
    inside: Path
    writable: bool = False


@dataclass(frozen=True)
class ContainerPlan:
    """A container, but for what its program is started with."""

    image: Path | None  # None: the program of this machine, with the libraries that it needs
    digest: str = ""  # of what is in the image, as far as it is known before the start
    env: Mapping[str, str] = field(default_factory=dict)  # as the image says
    mounts: tuple[Mount, ...] = ()  # an inner one stands behind the one that it is in
