"""The server: bounded in what clients may cost, and watched by systemd where that started it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import ssl
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from unis.errors import UnisError
from unis.runtime.directory import KnownRuns, function_cpus
from unis.runtime.process import keep_to
from unis.serve.access import Access, peer_of
from unis.serve.app import application
from unis.serve.scraper import Scraper

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

CONNECTIONS = 32  # at the same time over the Unix socket, over TCP, and over TLS
_CONNECTION_SECONDS = 60.0  # of one; Prometheus connects again
_ENDING_SECONDS = 35.0  # for an answer that is under way then: a client may wait 30 s for a change
_BEAT_SECONDS = 1.0
_HANDSHAKE_SECONDS = 5.0
_HEAD_BYTES = 16 << 10  # of a request


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 of clients that may be slow, or many."""

    _timers: Sequence[asyncio.TimerHandle] = ()
    on_lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """One too many is closed at once."""
        super().connection_made(transport)
        connected: socket.socket = transport.get_extra_info("socket")
        self.app_state = {**self.app_state, "peer": peer_of(connected)}
        own = [other for other in self.connections if isinstance(other, BoundedProtocol)]
        if sum((bool(it.client), it.scheme) == (bool(self.client), self.scheme) for it in own) > (
            CONNECTIONS
        ):
            transport.abort()
            return
        self._timers = (
            self.loop.call_later(_CONNECTION_SECONDS, self.shutdown),
            self.loop.call_later(_CONNECTION_SECONDS + _ENDING_SECONDS, transport.abort),
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """However it came."""
        super().connection_lost(exc)
        for timer in self._timers:
            timer.cancel()
        if self.on_lost:
            self.on_lost()


@dataclass(frozen=True)
class Listening:
    """Sockets that listen; to `secure` clients speak TLS of `tls`."""

    plain: Sequence[socket.socket]
    secure: socket.socket | None = None
    tls: ssl.SSLContext | None = None


def serve(listening: Listening, access: Access, ready: Callable[[], None]) -> None:
    """Until a signal ends it, which is raised again then. Calls `ready` once it answers."""
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # no line for each client that is wrong
    scraper = Scraper()
    cpus = os.sched_getaffinity(0)
    heart = _Heart(cpus, ready)
    config = uvicorn.Config(
        application(scraper, access, cpus), http=BoundedProtocol, ws="none", lifespan="off",
        proxy_headers=False,  # what a client says of itself counts for nothing

        loop="asyncio", log_config=None, access_log=False, server_header=False,
        h11_max_incomplete_event_size=_HEAD_BYTES, timeout_graceful_shutdown=2,
        callback_notify=heart.beat, timeout_notify=0,
    )  # fmt: skip
    server = _QuietServer(config, listening)
    hangup = signal.getsignal(signal.SIGHUP)
    # Most objects made so far live until the end. No collection needs to look at them.
    gc.collect()
    gc.freeze()
    try:
        if hangup != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, server.handle_exit)  # uvicorn's own hear the others
        server.run([*listening.plain])
    finally:
        signal.signal(signal.SIGHUP, hangup)
        scraper.close()


class _QuietServer(uvicorn.Server):
    """One that wakes up once a second, not ten times: the CPU may be that of an engine."""

    _loop: asyncio.AbstractEventLoop
    _signalled: asyncio.Event

    def __init__(self, config: uvicorn.Config, listening: Listening) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """With the socket for TLS, which uvicorn would want for all or none."""
        await super().startup(sockets)
        if not self._listening.secure:
            return

        loop = asyncio.get_running_loop()
        accepted: set[BoundedProtocol] = set()

        def protocol() -> asyncio.Protocol:
            """Called before the handshake: who only connects must not use up the descriptors."""
            if len(accepted) >= 2 * CONNECTIONS:
                raise ConnectionRefusedError  # asyncio closes the connection
            made = BoundedProtocol(
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )

            def leave() -> None:
                accepted.discard(made)

            def look() -> None:
                if made not in self.server_state.connections:  # its handshake failed
                    leave()

            accepted.add(made)
            made.on_lost = leave
            loop.call_later(_HANDSHAKE_SECONDS + 1, look)
            return made

        secure = await loop.create_server(
            protocol, sock=self._listening.secure, ssl=self._listening.tls,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS,
        )  # fmt: skip
        self.servers.append(secure)

    async def main_loop(self) -> None:
        """Until a signal comes."""
        self._loop, self._signalled = asyncio.get_running_loop(), asyncio.Event()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._signalled.wait(), _BEAT_SECONDS)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The handler of signals."""
        super().handle_exit(sig, frame)
        if hasattr(self, "_loop"):
            self._loop.call_soon_threadsafe(self._signalled.set)


class _Heart:
    """Once a second: off the CPUs where functions would starve us, and a sign for systemd."""

    def __init__(self, cpus: Collection[int], ready: Callable[[], None]) -> None:
        self._cpus = {*cpus}
        self._ready = ready
        self._begun = False
        self._known = KnownRuns()
        self._kept: list[set[int]] = []  # CPUs that all threads were given, twice

    async def beat(self) -> Any:
        """At first once the sockets are served."""
        with contextlib.suppress(UnisError):
            wanted = self._cpus - function_cpus(self._known) or self._cpus
            if self._kept != [wanted] * 2:  # a thread may have begun threads meanwhile
                keep_to(wanted)
                self._kept = [*self._kept[-1:], wanted]
        tell_systemd("WATCHDOG=1" if self._begun else "READY=1")
        if not self._begun:
            self._begun = True
            self._ready()


def tell_systemd(words: str) -> None:
    """As sd_notify(3); nothing where systemd did not start us."""
    name = os.environ.get("NOTIFY_SOCKET", "")
    if not name:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.sendto(words.encode(), f"\0{name[1:]}" if name.startswith("@") else name)
