"""How a run is brought up, beside what its plan says."""

from dataclasses import dataclass, field


@dataclass
class Options:
    """What the command line says beside the chain file."""

    policy: str | None = None
    controller: str | None = None
    start: bool = True  # False: attach the functions, but let no traffic run
    use_cache: bool = True
    estimate: bool = True
    sizes: list[int] = field(default_factory=list)  # to estimate with, instead of the traffic's
