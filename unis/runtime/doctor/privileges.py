"""Has whoever starts unisd the capabilities that it keeps?"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from unis import built
from unis.runtime.doctor.finding import Finding, Level, content, fine

_SECONDS = 10.0


@dataclass(frozen=True)
class Needed:
    """A capability that unisd keeps."""

    name: str
    number: int
    why: str
    ports: bool  # only where packets come from or go to a DPDK port


def needed() -> list[Needed]:
    """As unisd itself says. NotBuiltError, OSError or SubprocessError if it cannot be asked."""
    said = subprocess.run(
        [str(built.unisd()), "--capabilities"],
        capture_output=True,
        text=True,
        check=True,
        timeout=_SECONDS,
    )
    rows = [line.split("\t") for line in said.stdout.splitlines()]
    return [Needed(name, int(number), why, bool(ports)) for name, number, why, ports in rows]


def capabilities() -> Finding:
    """Has whoever starts unisd the capabilities that it keeps?"""
    try:
        wanted = needed()
    except (built.NotBuiltError, OSError, subprocess.SubprocessError, ValueError):
        return Finding(
            "capabilities",
            Level.NOTE,
            "unisd does not run here",
            "whether this process has the capabilities that unisd keeps is unknown",
            "make build",
        )
    ours = _effective()
    lacking = [capability for capability in wanted if not ours >> capability.number & 1]
    if not lacking:
        return fine(
            "capabilities",
            ", ".join(capability.name for capability in wanted if not capability.ports),
        )
    names = ", ".join(capability.name for capability in lacking)
    always = [capability for capability in lacking if not capability.ports]
    return Finding(
        "capabilities",
        Level.BLOCKED if always else Level.NOTE,
        f"without {names}",
        "; ".join(f"{capability.name}: {capability.why}" for capability in lacking)
        + ("" if always else " (of a port as source or sink only)"),
        "sudo unis up FILE; in a container, grant them: "
        + " ".join(f"--cap-add={capability.name.upper()}" for capability in lacking),
    )


def _effective() -> int:
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", content(Path("/proc/self/status")), re.MULTILINE)
    return int(match[1], 16) if match else 0
