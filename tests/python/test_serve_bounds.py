"""How long a client may hold a connection, and which CPUs the server has."""

import asyncio
import grp
import os
from pathlib import Path

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.needs import need
from tests.python.commands import stale_run
from unis.serve import server
from unis.serve.access import Access
from unis.serve.app import application
from unis.serve.listening import unix_socket
from unis.serve.scraper import Scraper
from unis.serve.server import BoundedProtocol

_SECONDS = 60  # a bound, not an expectation


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\nAccept: "])
def test_a_client_that_never_ends_its_request_is_closed(
    sent: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_CONNECTION_SECONDS", 0.05)

    async def connected() -> bytes:
        config = uvicorn.Config(
            application(Scraper(), Access(read_only=True), [0]),
            http=BoundedProtocol,
            log_config=None,
        )
        config.load()
        state = ServerState()
        loop = asyncio.get_running_loop()
        served = await loop.create_unix_server(
            lambda: BoundedProtocol(config, state, {}, loop), str(tmp_path / "a.sock")
        )
        async with served:
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "a.sock"))
            writer.write(sent)
            return await asyncio.wait_for(reader.read(), _SECONDS)

    assert asyncio.run(connected()) == b""


@pytest.mark.system
def test_it_keeps_off_the_functions_cpus_while_they_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = os.sched_getaffinity(0)
    need(len(mine) > 1, "needs two CPUs")
    one, other = sorted(mine)[:2]
    told: list[str] = []
    monkeypatch.setattr(server, "tell_systemd", told.append)
    heart = server._Heart(mine, lambda: told.append("ready"))
    run = stale_run(tmp_path, "a", cpus=[other])
    asyncio.run(heart.beat())
    assert os.sched_getaffinity(0) == mine - {other}
    stale_run(tmp_path, "b", cpus=sorted(mine))
    asyncio.run(heart.beat())
    assert os.sched_getaffinity(0) == mine, "no CPU is left, so it has all"
    for folder in (run.path, run.path.with_name("b")):
        (folder / "state.json").unlink()
    stale_run(tmp_path, "c", cpus=[one])
    asyncio.run(heart.beat())
    assert os.sched_getaffinity(0) == mine - {one}, "what was kept off comes back"
    assert told == ["READY=1", "ready", "WATCHDOG=1", "WATCHDOG=1"]


@pytest.mark.system
def test_the_group_may_connect(tmp_path: Path) -> None:
    need(os.geteuid() == 0, "needs root")
    group = grp.getgrgid(1)  # daemon
    path = tmp_path / "a.sock"
    with unix_socket(path, group.gr_name):
        assert (path.stat().st_uid, path.stat().st_gid) == (0, 1)
        assert path.stat().st_mode & 0o777 == 0o660
