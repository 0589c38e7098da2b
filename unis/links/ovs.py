"""ovs: two pairs of kernel devices, whose inner ends are ports of a bridge of Open vSwitch.

Its userspace datapath: a process that receives and sends by packet sockets. What starts it is
`unis.runtime.ovs`.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unis.links.kind import LinkSpec
from unis.links.switched import Switched
from unis.links.veth import VethPlan
from unis.v1 import engine_pb2 as pb

FOLDER, PID_FILE = "ovs", "vswitchd.pid"
_PROGRAMS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl")
_SYSTEM = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")
_SCHEMA = "share/openvswitch/vswitch.ovsschema"


@dataclass(frozen=True)
class OvsPlan(VethPlan):
    """Also whose the ports are."""

    pid_file: Path = Path(PID_FILE)

    def fill(self, config: pb.LinkConfig) -> None:
        """Adds it to the engine's message."""
        super().fill(config)
        config.veth.switch_pid_file = str(self.pid_file)


class Ovs(Switched):
    """Bridge and ports of Open vSwitch go with its process."""

    name = "ovs"

    def details(self, spec: LinkSpec, number: int) -> OvsPlan:
        """With the file that tells whose the ports are."""
        pid_file = spec.directory / FOLDER / PID_FILE
        return OvsPlan(**vars(super().details(spec, number)), pid_file=pid_file)

    def hindrance(self) -> str:
        """A program is missing."""
        missing = [name for name in (*_PROGRAMS, "vswitch.ovsschema") if not find(name)]
        return (
            f"no {missing[0]} on PATH or in {', '.join(_SYSTEM)}; `apt-get install "
            "openvswitch-switch` (its service need not run)"
            if missing
            else ""
        )


def find(name: str) -> Path | None:
    """A program of Open vSwitch, or the schema of its database; None: it is not installed."""
    if name == "vswitch.ovsschema":
        return next((file for file in _schemas() if file.exists()), None)
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *_SYSTEM]))
    return Path(found) if found else None


def _schemas() -> Iterator[Path]:
    """It is below the same prefix as the server."""
    if server := find("ovsdb-server"):
        yield from (folder / _SCHEMA for folder in server.parents)
