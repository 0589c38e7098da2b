"""A chain of unmodified dpdk-testpmd through the switch of a card.

Each has two virtual functions: frames come in by the one and leave by the other, with the address
of the next one's as destination (mode `mac`).
"""

import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.machine.frames import Exchange, Outcome, packet_socket, run
from tests.machine.guest import Outside
from tests.machine.inside.cards import Card, Function, wait_for
from unis import built

COUNT = 10_000  # frames of an exchange
OUTSIDE = ("52:54:00:00:99:01", "52:54:00:00:99:02")  # who is at the end of each wire
_TESTPMD = ["--forward-mode=mac", "--auto-start", "--nb-cores=1", "--total-num-mbufs=4096",
            "--rxd=256", "--txd=256", "--no-lsc-interrupt", "--disable-link-check",
            "--no-mlockall"]  # fmt: skip
_PACKET_RING = "blocksz=4096,framesz=2048,framecnt=512"
_READY = "packet forwarding - ports=2"
# net_af_packet makes a number of process and interface that another process can have too.
_TAKEN = "could not set PACKET_FANOUT"
_SECONDS = 60.0  # until a program is ready
_PATIENCE = 20.0  # seconds without a frame until the rest is lost


@dataclass(frozen=True)
class Hop:
    """A program and its two ports."""

    ingress: Function
    egress: Function
    card: int  # of its egress

    @property
    def ports(self) -> list[str]:
        """EAL's arguments, by the driver that its functions have."""
        both = (self.ingress, self.egress)
        if self.ingress.driver == "vfio-pci":
            return [word for function in both for word in ("-a", function.address)]
        return [
            "--no-pci",
            *(
                f"--vdev=net_af_packet{at},iface={function.interface},{_PACKET_RING}"
                for at, function in enumerate(both)
            ),
        ]


def layout(cards: list[Card], functions: list[list[Function]], length: int) -> list[Hop]:
    """Which has which: those of the first card, then of the second."""
    ends = [(card.number, function) for card in cards for function in functions[card.number]]
    return [Hop(ends[2 * at][1], ends[2 * at + 1][1], ends[2 * at + 1][0]) for at in range(length)]


class Chain:
    """Programs that run, in order."""

    def __init__(self, cards: list[Card], hops: list[Hop], folder: Path) -> None:
        self.cards, self.hops = cards, hops
        self._folder = folder
        self._programs: list[subprocess.Popen[bytes] | None] = [None] * len(hops)
        self._peers: dict[int, str] = {}  # MAC addresses that they send to
        self._exchanges = 0

    def start(self, sink: str) -> None:
        """All of them; the last sends to the MAC address `sink`."""
        for at in range(len(self.hops)):
            self.start_one(at, sink)
        for at in range(len(self.hops)):
            self.await_ready(at)

    def replace(self, at: int, sink: str) -> None:
        """Kills a program, and starts it again."""
        self.kill(at)
        self.start_one(at, sink)
        self.await_ready(at)

    def start_one(self, at: int, sink: str) -> None:
        """A program; the last one sends to the MAC address `sink`."""
        hop = self.hops[at]
        last = at == len(self.hops) - 1
        peer = self._peers[at] = sink if last else self.hops[at + 1].ingress.mac
        testpmd = built.clone() / "build" / "third-party" / "bin" / "dpdk-testpmd"
        command = [
            *("stdbuf", "-oL", str(testpmd)),
            *("--lcores", "0@0,1@1", "--in-memory", "-m", "96", "--no-telemetry"),
            *(f"--file-prefix=hop{at}", *hop.ports),
            *("--", *_TESTPMD, f"--eth-peer=1,{peer}"),
        ]
        with self._log(at).open("wb") as log:
            self._programs[at] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self._folder
            )

    def _log(self, at: int) -> Path:
        return self._folder / f"hop{at}.log"

    def await_ready(self, at: int) -> None:
        def ready() -> bool:
            program = self._programs[at]
            assert program
            said = self._log(at).read_text(errors="replace")
            assert program.poll() is None, said
            if _TAKEN in said:
                self.kill(at)
                self.start_one(at, self._peers[at])
                return False
            return _READY in said

        wait_for(ready, f"program {at} does not start", _SECONDS)

    def kill(self, at: int) -> None:
        """As the kernel's out-of-memory killer does."""
        program = self._programs[at]
        assert program
        program.kill()
        program.wait()

    def pid(self, at: int) -> int:
        program = self._programs[at]
        assert program
        return program.pid

    def stop(self) -> None:
        """All of them, as Ctrl-C does; who does not end is killed."""
        running = [program for program in self._programs if program and program.poll() is None]
        for program in running:
            program.send_signal(signal.SIGINT)
        for program in running:
            with suppress(subprocess.TimeoutExpired):
                program.wait(10)
            program.kill()
            program.wait()
        for log in sorted(self._folder.glob("hop*.log")):  # pytest shows it if the test has failed
            print(log.name, log.read_text(errors="replace"))  # noqa: T201

    def from_card(
        self, count: int = COUNT, watch: Callable[[Outcome], None] = lambda _: None
    ) -> Outcome:
        """Frames that the first card's own port sends, and that the last card's own receives."""
        first, last = self.cards[0], self.cards[self.hops[-1].card]
        exchange = self._exchange(count, first.mac, last.mac)
        with packet_socket(first.interface) as out:
            if first is last:
                return run(exchange, out, out, watch)
            with packet_socket(last.interface) as back:
                return run(exchange, out, back, watch)

    def from_outside(self, outside: Outside, count: int = COUNT) -> Outcome:
        """Frames that come by the first card's wire, and leave by the last one's."""
        last = self.hops[-1].card
        exchange = self._exchange(count, OUTSIDE[0], OUTSIDE[last])
        return outside.exchange(0, last, exchange)

    def _exchange(self, count: int, source: str, back: str) -> Exchange:
        self._exchanges += 1
        hops = self.hops
        return Exchange(
            number=self._exchanges, count=count, source=source, destination=hops[0].ingress.mac,
            last=hops[-1].egress.mac, back=back, seconds=_PATIENCE,
        )  # fmt: skip
