"""Where the server listens: a Unix socket, and this machine's own addresses."""

from __future__ import annotations

import contextlib
import grp
import ipaddress
import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from unis.errors import UnisError
from unis.runtime.directory import machine_lock
from unis.runtime.errors import LaunchError
from unis.runtime.files import write_atomically

_MODE = 0o660
_ALIVE_SECONDS = 1.0
_BACKLOG = 64
_LONGEST = 200  # bytes of the file with the address
_END_SECONDS = 1.0  # for the lock, when the server ends


@contextlib.contextmanager
def unix_socket(path: Path, group: str | None) -> Iterator[socket.socket]:
    """Listens on `path`, for root and `group`. What a killed server has left is replaced.

    UnisError: another server listens there, or it cannot be made. LaunchError as `machine_lock`.
    """
    number = group_number(group)
    with socket.socket(socket.AF_UNIX) as listening:
        with machine_lock():  # no two that replace the same
            try:
                _make_room(path)
                mask = os.umask(0o777 & ~0o600)
                try:
                    listening.bind(str(path))
                finally:
                    os.umask(mask)
                made = path.lstat()
                os.chown(path, -1, -1 if number is None else number)
                path.chmod(_MODE)
                listening.listen(_BACKLOG)
            except OSError as error:
                why = error.strerror or str(error)
                raise UnisError(f"cannot listen on {path}: {why}") from None
        try:
            yield listening
        finally:
            # A process that holds the lock for long must not keep the server from ending. The
            # socket stays then, and the next server replaces it.
            with contextlib.suppress(OSError, LaunchError), machine_lock(_END_SECONDS):
                if os.path.samestat(made, path.lstat()):
                    path.unlink()


def group_number(group: str | None) -> int | None:
    """Of a group of this machine; None of None. UnisError: there is none."""
    if group is None:
        return None
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise UnisError(f"there is no group `{group}`: `groupadd --system {group}`") from None


def _make_room(path: Path) -> None:
    """Removes a socket that nobody listens on. OSError if it cannot."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise UnisError(f"{path} is no socket: it is left alone; name another by --socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_ALIVE_SECONDS)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except OSError:
            pass  # it is full
    raise UnisError(f"another `unis serve` listens on {path}", bad_input=False)


def _parted(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 0xFFFF:
        raise ValueError(f"`{text}`: write an address and a port, as 127.0.0.1:9464")
    return host, int(port)


def address_of(text: str) -> tuple[str, int]:
    """The address and port of `192.0.2.1:8443`, `[::]:8443`. ValueError: it is none of those."""
    host, port = _parted(text)
    try:
        return str(ipaddress.ip_address(host)), port
    except ValueError:
        raise ValueError(f"`{host}` is no address: write one, as 0.0.0.0 or [::]") from None


def loopback(text: str) -> tuple[str, int]:
    """The address and port of `127.0.0.1:9464` or `[::1]:9464`. ValueError: it is none of those."""
    host, port = _parted(text)
    try:
        alone = ipaddress.ip_address(host).is_loopback
    except ValueError:
        alone = False
    if not alone:
        raise ValueError(
            f"{host or text} is not an address of this machine alone, as 127.0.0.1 and [::1] are: "
            "nobody is asked who they are"
        )
    return host, port


@contextlib.contextmanager
def tls_socket(address: tuple[str, int]) -> Iterator[socket.socket]:
    """Listens on an address. UnisError: it cannot."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as listening:
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(_BACKLOG)
        except OSError as error:
            raise UnisError(f"cannot listen on {written(address)}: {error.strerror}") from None
        yield listening


@contextlib.contextmanager
def tcp_socket(address: tuple[str, int], told: Path) -> Iterator[socket.socket]:
    """Listens on an address, which the file `told` has as Prometheus reads it (file_sd_configs).

    UnisError: it cannot, or `told` is there and no server has written it.
    """
    _require_ours(told)
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as listening:
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(_BACKLOG)
            write_atomically(told, json.dumps([{"targets": [name_of(listening)]}]) + "\n", 0o644)
        except OSError as error:
            raise UnisError(f"cannot listen on {written(address)}: {error.strerror}") from None
        try:
            yield listening
        finally:
            told.unlink(missing_ok=True)


def _require_ours(told: Path) -> None:
    try:
        it = told.stat()
        small = stat.S_ISREG(it.st_mode) and it.st_size <= _LONGEST
        found = json.loads(told.read_bytes()) if small else None
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        found = None
    match found:
        case [{"targets": [str(target)], **others}] if not others:
            with contextlib.suppress(ValueError):
                loopback(target)
                return  # of a server that was killed
    raise UnisError(
        f"{told} is not a list of one target on a loopback address, so no `unis serve` has written "
        "it: it is left alone; name another socket by --socket"
    )


def name_of(listening: socket.socket) -> str:
    """Of a TCP socket, with the port that the kernel chose where that was 0."""
    return written(listening.getsockname())


def written(address: tuple[str, int]) -> str:
    """As in a URL."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
