"""Frames that can be told apart, and whether they come through a chain: content, order, headers.

A frame's length and content follow from its number. So what comes is compared byte by byte with
what must come, without a list of what was sent.
"""

import random
import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

ETHERTYPE = 0x88B5  # of local experiments
_MARK = struct.Struct("!HII")  # ethertype, which exchange, which frame
_HEAD = 12  # both addresses
_SHORTEST, _LONGEST = 60, 1514  # bytes without the check sum
_NOISE = random.Random(27).randbytes(1 << 16)
_PROBE = 0xFFFFFFFF  # number of a frame that only asks whether the way is open
_ON_THE_WAY = 64  # frames at most, fewer than any queue of a chain holds
_PROBE_SECONDS = 0.2
_LOST_SHARE = 0.1  # of the patience: without a frame, those on the way are taken as lost
_COMPLAINTS = 5  # that are kept
_SO_RCVBUFFORCE = 33
_IGNORE_OUTGOING = 23  # PACKET_IGNORE_OUTGOING


def mac(address: str) -> bytes:
    """02:00:00:00:00:01 as six bytes."""
    return bytes.fromhex(address.replace(":", ""))


def content(exchange: int, number: int) -> bytes:
    """All of a frame behind its addresses."""
    size = _SHORTEST + number * 389 % (_LONGEST - _SHORTEST + 1)
    start = number * 61 % (len(_NOISE) - _LONGEST)
    body = size - _HEAD - _MARK.size
    return _MARK.pack(ETHERTYPE, exchange, number) + _NOISE[start : start + body]


def packet_socket(interface: str) -> socket.socket:
    """Sends and receives whole frames on an interface, and does not hear what the host sends."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # ETH_P_ALL
    opened.setsockopt(263, _IGNORE_OUTGOING, 1)  # SOL_PACKET
    opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 25)
    opened.bind((interface, 0))
    opened.setblocking(False)
    return opened


@dataclass(frozen=True)
class Exchange:
    """Frames that are sent into a chain, and how they must come out of it."""

    number: int  # tells the frames of several exchanges apart
    count: int
    source: str  # MAC address of who sends them
    destination: str  # of the port that they enter the chain by
    last: str  # of the port that they leave it by: the source of what comes
    back: str  # of who receives them
    seconds: float  # that the whole may take, and the way may need to open


@dataclass
class Outcome:
    """What came of an exchange."""

    probes: int = 0  # frames that only asked whether the way is open
    sent: int = 0
    received: int = 0
    lost: int = 0
    next: int = 0  # the frame behind the last that came
    bytes: int = 0
    open_after: float = 0.0  # seconds until the first frame came through
    seconds: float = 0.0  # that the frames took
    wrong: list[str] = field(default_factory=list)  # the first few complaints
    complaints: int = 0

    def complain(self, sentence: str) -> None:
        self.complaints += 1
        if len(self.wrong) < _COMPLAINTS:
            self.wrong.append(sentence)

    def assert_exact(self, count: int) -> None:
        """Every frame came, once, in order, as it must be."""
        assert self.wrong == [], asdict(self)
        assert (self.sent, self.received, self.lost) == (count, count, 0), asdict(self)

    def assert_in_order(self, count: int) -> None:
        """The same, but for those that are lost."""
        assert self.wrong == [], asdict(self)
        assert self.sent == count == self.received + self.lost, asdict(self)


def run(
    exchange: Exchange, out: socket.socket, back: socket.socket,
    watch: Callable[[Outcome], None] = lambda _: None,
) -> Outcome:  # fmt: skip
    """Sends by one socket and receives by the other, as many at a time as no queue would drop.

    `watch` is called now and then. Ends after `seconds` without a frame; the rest is lost then.
    """
    outcome = Outcome()
    if not _opens(exchange, out, back, outcome):
        outcome.complain(f"no frame came through within {exchange.seconds} s")
        return outcome
    head = mac(exchange.destination) + mac(exchange.source)
    came = mac(exchange.back) + mac(exchange.last)
    begin = heard = allowed = time.monotonic()
    given_up = 0
    while outcome.next < exchange.count and time.monotonic() - heard < exchange.seconds:
        while outcome.sent < min(exchange.count, max(outcome.next, given_up) + _ON_THE_WAY):
            if not _send(out, head + content(exchange.number, outcome.sent)):
                break
            outcome.sent += 1
        if _take(exchange, back, came, outcome):
            heard = allowed = time.monotonic()
        elif time.monotonic() - allowed > exchange.seconds * _LOST_SHARE:
            given_up, allowed = outcome.sent, time.monotonic()
        watch(outcome)
    _take(exchange, back, came, outcome)  # what came twice
    outcome.lost += outcome.sent - outcome.next
    outcome.seconds = round(time.monotonic() - begin, 3)
    return outcome


def _opens(exchange: Exchange, out: socket.socket, back: socket.socket, outcome: Outcome) -> bool:
    """Whether a frame comes through; returns when those that were sent for it have come too."""
    probe = mac(exchange.destination) + mac(exchange.source)
    probe += content(exchange.number, _PROBE)
    begin = time.monotonic()
    opened = False
    while time.monotonic() - begin < exchange.seconds:
        if not opened:
            outcome.probes += _send(out, probe)
        if select.select([back], [], [], _PROBE_SECONDS)[0]:
            for frame in _frames(back):
                if not opened and _mark(frame) == (exchange.number, _PROBE):
                    opened = True
                    outcome.open_after = round(time.monotonic() - begin, 3)
        elif opened:
            return True
    return False


def _take(exchange: Exchange, back: socket.socket, came: bytes, outcome: Outcome) -> bool:
    """Whether a frame of this exchange is there; all that are there are compared."""
    select.select([back], [], [], _PROBE_SECONDS)
    heard = False
    for frame in _frames(back):
        number, index = _mark(frame)
        if number != exchange.number or index == _PROBE:
            continue
        heard = True
        outcome.received += 1
        outcome.bytes += len(frame)
        if index < outcome.next:
            outcome.complain(f"frame {index} came behind frame {outcome.next - 1}")
        else:
            outcome.lost += index - outcome.next
            outcome.next = index + 1
        if frame[:_HEAD] != came:
            outcome.complain(f"frame {index} has the addresses {frame[:_HEAD].hex(':')}")
        if frame[_HEAD:] != content(number, index):
            outcome.complain(f"frame {index} of {len(frame)} bytes has other content")
    return heard


def _mark(frame: bytes) -> tuple[int, int]:
    """Exchange and number of a frame of ours; of others (-1, -1)."""
    if len(frame) < _HEAD + _MARK.size:
        return -1, -1
    ethertype, exchange, number = _MARK.unpack_from(frame, _HEAD)
    return (exchange, number) if ethertype == ETHERTYPE else (-1, -1)


def _frames(opened: socket.socket) -> list[bytes]:
    """All that wait."""
    frames: list[bytes] = []
    while True:
        try:
            frames.append(opened.recv(1 << 16))
        except BlockingIOError:
            return frames


def _send(opened: socket.socket, frame: bytes) -> bool:
    """False if there is no room now."""
    try:
        opened.send(frame)
    except (BlockingIOError, InterruptedError):
        return False
    except OSError as error:
        if error.errno != 105:  # ENOBUFS: the device's queue is full
            raise
        return False
    return True
