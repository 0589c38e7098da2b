"""How far apart two CPUs are, which a hypervisor may change at any time."""

import subprocess
from collections.abc import Sequence

from unis import built

_SECONDS = 10.0
_STEADY = 1.5  # times; near and far differ by 3 and more


def line_transfer_ns(cpu: int, other: int) -> float | None:
    """What a cache line takes from one to the other; None where that cannot be measured now.

    As `unis-lines` says; milliseconds, on CPUs that are free.
    """
    try:
        said = subprocess.run(
            [str(built.lines()), str(cpu), str(other)],
            capture_output=True,
            text=True,
            check=True,
            timeout=_SECONDS,
        )
        return float(said.stdout)
    except (built.NotBuiltError, OSError, subprocess.SubprocessError, ValueError):
        return None


def steady(found: Sequence[float | None]) -> bool:
    """Were the CPUs as far apart all the time, as far as one knows?"""
    known = [each for each in found if each is not None]
    return not known or max(known) <= _STEADY * min(known)
