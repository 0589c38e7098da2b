"""Who asks, and what they may: the peer of a Unix socket, or the bearer of a token over TLS."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from unis.errors import UnisError
from unis.runtime.files import write_atomically
from unis.serve.problems import StatusReason, status_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_PEER_GROUPS = 59  # SO_PEERGROUPS, which Python's socket does not name
_GROUPS_BYTES = 1024  # the most that Python asks the kernel for: 256 groups
_CREDENTIALS = struct.Struct("iII")
_TOKEN_BYTES = 32
_LARGEST = 1 << 20  # bytes of a file of tokens
_TOKEN_LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s+(look|operate)\s+([0-9a-f]{64})")
_OPEN_PATHS = ("/metrics", "/healthz")  # what is told to all of this machine, over plain TCP
_READING = ("GET", "HEAD", "OPTIONS")
_BURST, _PER_SECOND = 20.0, 5.0  # changes of one caller


class Role(StrEnum):
    """What one may do. Who may operate may run any program as root: a chain file names programs."""

    LOOK = "look"
    OPERATE = "operate"


@dataclass(frozen=True)
class Peer:
    """The process at the other end of a Unix socket, when it connected."""

    uid: int
    groups: frozenset[int]


@dataclass(frozen=True)
class Caller:
    """Who asks."""

    name: str  # of the user or of the token
    role: Role | None  # None: nothing
    why: str = ""  # they have no more


def peer_of(connected: socket.socket) -> Peer | None:
    """The peer of a Unix socket; None: it is another kind of socket."""
    if connected.family != socket.AF_UNIX:
        return None
    told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, gid = _CREDENTIALS.unpack(told)
    try:
        more = connected.getsockopt(socket.SOL_SOCKET, _PEER_GROUPS, _GROUPS_BYTES)
    except OSError:  # it is in more groups: those do not count
        more = b""
    return Peer(uid, frozenset({gid, *struct.unpack(f"{len(more) // 4}I", more)}))


# ------------------------------------------------------------------ tokens


def new_token() -> tuple[str, str]:
    """A token, and what a file of tokens has of it."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    return token, hashed(token)


def hashed(token: str) -> str:
    """What is kept of a token. It has 256 random bits: a slow hash would protect it no better."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


@dataclass(frozen=True)
class Token:
    """A line of a file of tokens: `NAME look|operate SHA256`."""

    name: str
    role: Role
    digest: str


def read_tokens(file: Path) -> tuple[Token, ...]:
    """Lines, and comments that begin with #. UnisError: it cannot be read, or others can."""
    try:
        with file.open("rb") as stream:
            status = file.stat()
            text = stream.read(_LARGEST).decode(errors="replace")
    except OSError as error:
        raise UnisError(f"cannot read the tokens in {file}: {error.strerror}") from None
    if status.st_mode & 0o022:
        raise UnisError(f"{file} can be changed by others than its owner: `chmod 600 {file}`")
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not (stated := line.partition("#")[0].strip()):
            continue
        if not (match := _TOKEN_LINE.fullmatch(stated)):
            raise UnisError(
                f"{file}:{number}: is not `NAME look|operate SHA256`: make it with "
                "`unis serve --new-token NAME:ROLE`"
            )
        found.append(Token(match[1], Role(match[2]), match[3]))
    return tuple(found)


def add_token(file: Path, name: str, role: Role) -> str:
    """A new token, whose hash the file has then. UnisError: the name is wrong, or has a token."""
    token, digest = new_token()
    line = f"{name} {role} {digest}"
    if not _TOKEN_LINE.fullmatch(line):
        raise UnisError(f"`{name}` is no name of a token: letters, digits, dots, dashes")
    known = read_tokens(file) if file.exists() else ()
    if any(one.name == name for one in known):
        raise UnisError(f"{file} has a token `{name}` already: remove its line first")
    text = (
        file.read_text() if file.exists() else "# unis serve --tokens: NAME look|operate SHA256\n"
    )
    if not text.endswith("\n"):
        text += "\n"
    try:
        write_atomically(file, f"{text}{line}\n", 0o600)
    except OSError as error:
        raise UnisError(f"cannot write {file}: {error.strerror}") from None
    return token


# ------------------------------------------------------------------ the rules


@dataclass(frozen=True)
class Access:
    """Who may do what. `operators`, `lookers`: numbers of groups. Root may do what is allowed."""

    operators: int | None = None
    lookers: int | None = None
    tokens: tuple[Token, ...] = ()
    read_only: bool = False

    def of_peer(self, peer: Peer) -> Caller:
        """Of a Unix socket."""
        name = f"user {peer.uid}"  # to look names up may take long
        if peer.uid == 0 or self.operators in peer.groups:
            return Caller(name, self._at_most(Role.OPERATE), _READ_ONLY * self.read_only)
        if self.lookers in peer.groups:
            group = f"group {self.operators}" if self.operators else "a group of --operators"
            return Caller(name, Role.LOOK, f"{name} is neither root nor in {group}")
        return Caller(
            name, None, f"{name} is neither root nor in a group of --group or --operators"
        )

    def of_token(self, header: str) -> Caller:
        """Of the header `Authorization`."""
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token:
            return Caller("", None, "send a token: `Authorization: Bearer TOKEN`")
        digest = hashed(token.strip())
        known = [one for one in self.tokens if hmac.compare_digest(one.digest, digest)]
        if not known:
            return Caller("", None, "the token is not known here")
        role = self._at_most(known[0].role)
        why = _READ_ONLY if self.read_only else f"the token of {known[0].name} may only look"
        return Caller(f"token {known[0].name}", role, why)

    def _at_most(self, role: Role) -> Role:
        return Role.LOOK if self.read_only else role


_READ_ONLY = "the server was started with --read-only"


@dataclass
class _Bucket:
    """How many changes a caller may still make now."""

    left: float = _BURST
    when: float = field(default_factory=time.monotonic)

    def take(self) -> float:
        """Seconds to wait; 0: one was taken."""
        now = time.monotonic()
        self.left = min(_BURST, self.left + (now - self.when) * _PER_SECOND)
        self.when = now
        if self.left < 1:
            return (1 - self.left) / _PER_SECOND
        self.left -= 1
        return 0.0


class Guarded:
    """Lets through who may."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._buckets: dict[str, _Bucket] = {}  # of those who operate: few

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] == "http" and (refusal := self._refusal(scope)):
            await status_response(*refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[StatusReason, str] | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        reading = scope["method"] in _READING
        peer = scope.get("state", {}).get("peer")
        # A token no browser sends by itself. But plain TCP, and a socket that is forwarded (`ssh
        # -L`), are asked by any page whose name leads there (DNS rebinding).
        if scope["scheme"] != "https" and not _is_local(host := _host(headers)):
            told = f"`{host}`" if host else "a request without a host"
            return StatusReason.MISDIRECTED, f"{told}: name this server `localhost`"
        if refused := _from_elsewhere(headers, reading=reading):
            return refused
        path: str = scope["path"]
        if isinstance(peer, Peer):
            caller = self._access.of_peer(peer)
            unknown = StatusReason.FORBIDDEN
        elif scope["scheme"] != "https":
            if path in _OPEN_PATHS:
                return None
            told = f"over TCP without TLS there are only {' and '.join(_OPEN_PATHS)}"
            return StatusReason.FORBIDDEN, f"{told}; use the Unix socket, or --listen"
        elif reading and (path in ("/healthz", "/") or path.startswith("/page/")):
            return None  # the page asks for the token
        else:
            header = headers.get(b"authorization", b"").decode("latin-1")
            caller = self._access.of_token(header)
            unknown = StatusReason.UNAUTHORIZED
        if caller.role is None:
            return unknown, caller.why
        if reading:
            return None
        if caller.role is not Role.OPERATE:
            return StatusReason.FORBIDDEN, f"{caller.why}: nothing can be changed"
        if wait := self._buckets.setdefault(caller.name, _Bucket()).take():
            return StatusReason.TOO_MANY_REQUESTS, f"too many changes: ask again in {wait:.1f} s"
        return None


def _from_elsewhere(
    headers: Mapping[bytes, bytes], *, reading: bool
) -> tuple[StatusReason, str] | None:
    """Whether a browser asks for a change in the name of a page of another site."""
    host = _host(headers)
    origin = headers.get(b"origin", b"").decode("latin-1")
    site = headers.get(b"sec-fetch-site", b"none").decode("latin-1")
    own = origin.partition("://")[2] == host if origin else True
    if not reading and (not own or site not in ("none", "same-origin")):
        return StatusReason.FORBIDDEN, "a page of another site asks for a change"
    return None


def _host(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"host", b"").decode("latin-1")


def _is_local(host: str) -> bool:
    """Whether no name server and no neighbour has a say in where it leads."""
    name = host.rpartition(":")[0] if re.fullmatch(r".*:\d+", host) else host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return name.lower() == "localhost"
    return True
