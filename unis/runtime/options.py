"""How a run is brought up, beside what its plan says."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class Options:
    """What the command line says beside the chain file."""

    policy: str | None = None
    controller: str | None = None
    start: bool = True  # False: attach the functions, but let no traffic run
    # Of functions whose cost the file does not state. `kept`: as they were here lately. `measured`:
    # what is not kept is measured before the start, as always under `cost: static`. `anew`: all is.
    costs: Literal["unknown", "kept", "measured", "anew"] = "kept"
    sizes: list[int] = field(default_factory=list)  # to measure with, instead of the traffic's
