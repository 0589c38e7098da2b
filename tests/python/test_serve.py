"""`unis serve`: who may listen where, what is bounded, and what is left when it ends."""

import http.client
import json
import re
import signal
import socket
import stat
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.needs import need_root
from tests.python.answering import answering
from tests.python.commands import run, stale_run
from tests.serving import SECONDS, answered, over_unix, serving
from unis.errors import UnisError
from unis.runtime.directory import machine_lock
from unis.runtime.files import LOCK_SECONDS
from unis.serve import listening
from unis.serve.listening import loopback, name_of, tcp_socket, unix_socket
from unis.serve.server import CONNECTIONS
from unis.v1 import engine_pb2 as pb


def ended(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    process.send_signal(number)
    _, said = process.communicate(timeout=SECONDS)
    return process.returncode, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_at_once_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path, "--metrics-listen", "127.0.0.1:0") as (process, path):
        told = json.loads((tmp_path / "serve.json").read_text())
        there = over_unix(path)
        assert answered(there) == (200, "ok\n")
        with socket.socket(socket.AF_UNIX) as idle:  # holds nothing up
            idle.connect(str(path))
            assert ended(process, number) == (0, "")
    assert [target.partition(":")[0] for target in told[0]["targets"]] == ["127.0.0.1"]
    assert [it.name for it in tmp_path.iterdir() if it.name.startswith("serve")] == []


def test_what_a_killed_one_left_is_replaced_and_two_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, path):
        ended(process, signal.SIGKILL)
    assert path.is_socket()
    with serving(tmp_path) as (process, path):
        assert answered(over_unix(path))[0] == 200
        code, said = run("serve", "--socket", path)
        assert (code, said.splitlines()) == (1, [f"another `unis serve` listens on {path}"])
        assert answered(over_unix(path))[0] == 200


def test_over_tcp_only_this_machine_s_names_are_answered(tmp_path: Path) -> None:
    with serving(tmp_path, "--metrics-listen", "127.0.0.1:0") as (_, path):
        target = json.loads(path.with_suffix(".json").read_text())[0]["targets"][0]
        statuses = {
            host: answered(http.client.HTTPConnection(target), "GET", "/metrics", host=host)[0]
            for host in (
                target,
                "LocalHost:9464",
                "[::1]:9464",
                "10.0.0.1",
                "evil.example:9464",
                "",
            )
        }
        assert [*statuses.values()] == [200, 200, 200, 200, 421, 421]
        assert answered(over_unix(path), "GET", "/metrics", host="whatever")[0] == 421
        again = ["--socket", tmp_path / "b.sock", "--metrics-listen", target]
        code, said = run("serve", *again)
        assert (code, said) == (2, f"cannot listen on {target}: Address already in use\n")
        assert not (tmp_path / "b.sock").exists()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_metrics_cannot_be_changed(tmp_path: Path, method: str) -> None:
    with serving(tmp_path) as (_, path):
        for where, status in [("/metrics", 405), ("/healthz", 405), ("/v1/runs", 405)]:
            assert answered(over_unix(path), method, where)[0] == status
        assert answered(over_unix(path), "GET", "/../etc/passwd")[0] == 404
        assert answered(over_unix(path))[0] == 200


def test_a_request_has_an_end(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, path), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(SECONDS)
        client.connect(str(path))
        with suppress(BrokenPipeError):
            client.sendall(
                b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: " + b"x" * (4 << 20)
            )
        with suppress(ConnectionResetError):
            assert client.recv(100).startswith(b"HTTP/1.1 400")
        assert answered(over_unix(path))[0] == 200


def test_one_connection_too_many_is_closed_and_the_others_are_served(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, path), ExitStack() as stack:

        def connected() -> socket.socket:
            it = stack.enter_context(socket.socket(socket.AF_UNIX))
            it.settimeout(SECONDS)
            it.connect(str(path))
            return it

        first = connected()
        others = [connected() for _ in range(CONNECTIONS)]
        assert others[-1].recv(1) == b""
        first.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert first.recv(100).startswith(b"HTTP/1.1 200")


def test_systemd_hears_that_it_is_ready_and_lives(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.settimeout(SECONDS)
        systemd.bind(str(tmp_path / "notify"))
        with serving(tmp_path, NOTIFY_SOCKET=str(tmp_path / "notify")):
            assert [systemd.recv(100) for _ in range(2)] == [b"READY=1", b"WATCHDOG=1"]


def test_it_has_descriptors_and_memory_of_its_own_alone(tmp_path: Path) -> None:
    """After a hundred scrapes it has as many as before."""
    with serving(tmp_path) as (process, path):

        def descriptors() -> int:
            return len([*Path(f"/proc/{process.pid}/fd").iterdir()])

        for _ in range(3):
            answered(over_unix(path), "GET", "/metrics")
        before = descriptors()
        for _ in range(100):
            answered(over_unix(path), "GET", "/metrics")
        end = time.monotonic() + SECONDS
        while descriptors() > before:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_it_ends_while_an_engine_hangs(tmp_path: Path) -> None:
    asked, goes_on = threading.Event(), threading.Event()

    def hang() -> pb.Stats:
        asked.set()
        goes_on.wait()
        return pb.Stats()

    with answering(tmp_path, "a", hang), serving(tmp_path) as (process, path):
        scrape = over_unix(path)
        scrape.request("GET", "/metrics")
        assert asked.wait(SECONDS)
        assert ended(process, signal.SIGTERM) == (0, "")
        goes_on.set()
    assert not path.exists()


def test_runs_that_it_may_not_look_at_are_told(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, path):
        folder = stale_run(tmp_path, "a").path
        folder.chmod(0o777)
        for where in ("/metrics", "/healthz"):
            said = f"{folder} can be changed by another user, so it is not read\n"
            assert answered(over_unix(path), path=where) == (503, said)
        folder.chmod(0o700)
        assert answered(over_unix(path), path="/metrics")[0] == 200


@pytest.mark.system
def test_it_needs_no_capability(tmp_path: Path) -> None:
    """As root, whose the sockets are."""
    need_root()
    bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    told = pb.Stats(run="a", decisions=5)
    with answering(tmp_path, "a", lambda: told), serving(tmp_path, below=bare) as (process, path):
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
        text = answered(over_unix(path), path="/metrics")[1]
        assert 'unis_decisions_total{run="a"} 5.0' in text


# ------------------------------------------------------------------ where it listens


def test_the_socket_is_for_root_and_a_group(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with unix_socket(path, None):
        assert stat.S_IMODE(path.lstat().st_mode) == 0o660
        with (
            pytest.raises(UnisError, match="another `unis serve` listens"),
            unix_socket(path, None),
        ):
            pass
        path.unlink()
        with unix_socket(path, None):
            pass
        path.write_text("somebody else's")
    assert path.read_text() == "somebody else's"
    with pytest.raises(UnisError, match="is no socket"), unix_socket(path, None):
        pass
    with (
        pytest.raises(UnisError, match="there is no group `nobodys`"),
        unix_socket(path, "nobodys"),
    ):
        pass


def test_an_end_waits_for_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_END_SECONDS", 0.05)
    path = tmp_path / "a.sock"
    with ExitStack() as held:
        with unix_socket(path, None):
            held.enter_context(machine_lock())
            begin = time.monotonic()
        assert time.monotonic() - begin < LOCK_SECONDS / 2
        assert path.is_socket(), "the next server replaces it"
    with unix_socket(path, None):
        pass
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ('[{"targets": ["127.0.0.1:9464"]}]\n', True),
        ('[{"targets": ["[::1]:9464"]}]\n', True),
        ('[{"targets": ["192.0.2.1:9100"]}]\n', False),
        ('[{"targets": ["node"]}]\n', False),
        ('[{"targets": ["127.0.0.1:9464"], "labels": {}}]', False),
        ('{"targets": ["a"]}', False),
        ("not JSON", False),
        ("[" * 100_000, False),
        ("", False),
    ],
)
def test_a_file_of_others_beside_the_socket_is_let_alone(
    tmp_path: Path, text: str, ours: bool
) -> None:
    told = tmp_path / "notes.json"
    told.write_text(text)
    if ours:
        with tcp_socket(("127.0.0.1", 0), told) as made:
            assert json.loads(told.read_text()) == [{"targets": [name_of(made)]}]
        assert not told.exists()
        return
    with (
        pytest.raises(UnisError, match=r"notes\.json is not a list of one target"),
        tcp_socket(("127.0.0.1", 0), told),
    ):
        pass
    assert told.read_text() == text


@pytest.mark.parametrize("path", ["missing/serve.sock", "long" * 40], ids=["missing", "long"])
def test_a_socket_that_cannot_be_made_is_one_sentence(tmp_path: Path, path: str) -> None:
    code, said = run("serve", "--socket", tmp_path / path)
    assert (code, len(said.splitlines())) == (2, 1), said
    assert said.startswith(f"cannot listen on {tmp_path / path}: ")


@pytest.mark.parametrize(
    ("text", "address"), [("127.0.0.1:9464", ("127.0.0.1", 9464)), ("[::1]:0", ("::1", 0)),
                          ("127.8.0.1:1", ("127.8.0.1", 1))],
)  # fmt: skip
def test_addresses_of_this_machine(text: str, address: tuple[str, int]) -> None:
    assert loopback(text) == address


@pytest.mark.parametrize(
    "text",
    ["0.0.0.0:9464", "[::]:9464", "10.0.0.1:9464", "localhost:9464", ":9464", "127.0.0.1",
     "127.0.0.1:70000", "127.0.0.1:²", "[::ffff:10.0.0.1]:1", "0:1", ""],
)  # fmt: skip
def test_any_other_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        loopback(text)
    code, said = run("serve", "--metrics-listen", text)
    assert code == 2
    assert "127.0.0.1" in said
