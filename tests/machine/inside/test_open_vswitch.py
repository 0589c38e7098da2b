"""The set-up of the SR-IOV paper: a function is a bridge of Open vSwitch in the kernel, on two
virtual functions of a card, whose flow writes the address of the next one's (`mod_dl_dst`). Nothing
of UNiS is in it.
"""

import ctypes
import errno
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.third_party import third_party
from tests.machine.frames import Exchange, packet_socket, run
from tests.machine.initramfs import modules
from tests.machine.inside.cards import Card, wait_for
from tests.machine.inside.chain import COUNT, Hop, layout
from unis import built

_LENGTH = 2  # functions
_INIT_MODULE = 175  # system call of x86-64
# The second asks for the first by the name of what it computes.
_MODULES = ("crc32c_generic", "openvswitch")
_DATAPATH = Path("/sys/class/net/ovs-system")  # the device of the kernel's switch


def load_modules() -> None:
    """And what they need; some may be there."""
    kernel = built.clone() / "build/third-party/root/lib/modules" / platform.release()
    library = ctypes.CDLL(None, use_errno=True)
    for module in modules(kernel, _MODULES):
        content = module.content
        if library.syscall(_INIT_MODULE, content, ctypes.c_ulong(len(content)), b"") != 0:
            assert ctypes.get_errno() == errno.EEXIST, module.name


class Switch:
    """Its daemons, and the bridges that they have in the kernel."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._env = {f"OVS_{what}DIR": str(folder) for what in ("RUN", "LOG", "DB", "SYSCONF")}
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._bridges: list[str] = []

    def start(self) -> None:
        schema = third_party("ovsdb-server").parent.parent / "share/openvswitch/vswitch.ovsschema"
        self.tool("ovsdb-tool", "create", "conf.db", str(schema))
        self._daemon("ovsdb-server", "conf.db", "--remote=punix:db.sock", "--unixctl=db.ctl")
        wait_for((self._folder / "db.sock").exists, "the database does not start")
        self.tool("ovs-vsctl", "--no-wait", "--db=unix:db.sock", "init")
        self._daemon("ovs-vswitchd", "unix:db.sock", "--unixctl=switch.ctl", "--pidfile=switch.pid")

    def tool(self, name: str, *words: str) -> None:
        command = [str(third_party(name)), *words]
        subprocess.run(command, check=True, cwd=self._folder, env=os.environ | self._env)

    def database(self, *words: str) -> None:
        self.tool("ovs-vsctl", "--timeout=30", "--db=unix:db.sock", *words)

    def add(self, bridge: str, hop: Hop, next_mac: str) -> None:
        """A bridge that brings frames from one to the other function, with another destination."""
        self._bridges.append(bridge)
        self.database("add-br", bridge, "--", "set-fail-mode", bridge, "secure")
        for number, end in enumerate((hop.ingress, hop.egress), 1):
            port = end.interface
            named = ("set", "interface", port, f"ofport_request={number}")
            self.database("add-port", bridge, port, "--", *named)
        flow = f"in_port=1,actions=mod_dl_dst:{next_mac},output:2"
        self.tool("ovs-ofctl", "add-flow", f"unix:{bridge}.mgmt", flow)

    def _daemon(self, name: str, *words: str) -> None:
        command = [str(third_party(name)), "-vconsole:warn", "-vsyslog:off", "-vfile:off", *words]
        self._daemons.append(
            subprocess.Popen(command, cwd=self._folder, env=os.environ | self._env)
        )

    def stop(self) -> None:
        """The kernel's part, which outlives the daemons, goes first."""
        for bridge in self._bridges:
            self.database("del-br", bridge)
        wait_for(lambda: not _DATAPATH.exists(), "the kernel's switch stays")
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait(20)


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[Switch]:
    load_modules()
    switch = Switch(tmp_path)
    try:
        switch.start()
        yield switch
    finally:
        switch.stop()


def test_bridges_that_write_the_next_address_pass_every_frame(
    cards: list[Card], switch: Switch
) -> None:
    card = cards[0]
    functions = [card.make(2 * _LENGTH, "igbvf"), []]
    hops = layout(cards, functions, _LENGTH)
    for at, hop in enumerate(hops):
        last = at == _LENGTH - 1
        switch.add(f"hop{at}", hop, card.mac if last else hops[at + 1].ingress.mac)
    # Nobody writes the source address, so it is still the sender's.
    exchange = Exchange(
        number=1, count=COUNT, source=card.mac, destination=hops[0].ingress.mac,
        last=card.mac, back=card.mac, seconds=20,
    )  # fmt: skip
    assert _DATAPATH.exists(), "bridges are the kernel's"
    with packet_socket(card.interface) as wire:
        run(exchange, wire, wire).assert_exact(COUNT)
