"""ovs: two pairs of kernel devices, whose inner ends are ports of a bridge of Open vSwitch.

Its userspace datapath: a process that receives and sends by packet sockets. What starts it is
`unis.runtime.ovs`.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from unis.links import devices
from unis.links.kind import LinkPlan, LinkSpec
from unis.links.veth import Veth, VethPlan, details_of
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


class Ovs(Veth):
    """As a veth, but for what is between the devices of the two ends. Bridge and ports of Open
    vSwitch go with its process.
    """

    name = "ovs"

    def details(self, spec: LinkSpec, number: int) -> OvsPlan:
        """Other devices than those of other kinds by this name."""
        base = devices.base_name(f"{spec.folder}/{spec.run}/{spec.name}/ovs")
        ends, ports = ((f"{base}{a}", f"{base}{b}") for a, b in ("ab", "cd"))
        veth = replace(super().details(spec, number), devices=ends, ports=ports)
        return OvsPlan(**vars(veth), pid_file=spec.directory / FOLDER / PID_FILE)

    def hindrance(self) -> str:
        """A program is missing."""
        missing = [name for name in (*_PROGRAMS, "vswitch.ovsschema") if not find(name)]
        return (
            f"no {missing[0]} on PATH or in {', '.join(_SYSTEM)}; `apt-get install "
            "openvswitch-switch` (its service need not run)"
            if missing
            else ""
        )

    def made(self, link: LinkPlan) -> str:
        """The bridge: the names of the devices begin with its own."""
        return details_of(link).devices[0].removesuffix("a")

    def make(self, link: LinkPlan) -> None:
        """Makes the pairs, and has them carry packets."""
        veth = details_of(link)
        with devices.making(link.name, *veth.devices) as maker:
            for end, port in zip(veth.devices, veth.ports, strict=True):
                maker.add_pair(end, port)
                maker.start(end)
                maker.start(port)

    def remove(self, name: str) -> list[str]:
        """The pairs that are there."""
        return devices.remove([("veth", f"{name}{end}") for end in "ab"])


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
