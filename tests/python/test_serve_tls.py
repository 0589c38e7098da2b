"""`unis serve --listen`: TLS and tokens on a real socket; and peers of the Unix socket by user."""

import datetime
import http.client
import ipaddress
import json
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.needs import need_root
from tests.python.commands import run
from tests.serving import SECONDS, answered, over_unix, serving

_NAME = "a-test"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    local = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    cert = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
        .add_extension(local, critical=False).sign(key, hashes.SHA256())
    )  # fmt: skip
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    files[0].write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )  # fmt: skip
    return files


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_who_shows_a_token_over_tls_is_answered(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    cert, key = pair
    tokens = tmp_path / "tokens"
    found = {}
    for role in ("look", "operate"):
        code, said = run("serve", "--new-token", f"{role}er:{role}", "--tokens", tokens)
        assert code == 0, said
        found[role] = said.splitlines()[0]
    port = free_port()
    options = ["--listen", f"127.0.0.1:{port}", "--tls-cert", str(cert), "--tls-key", str(key),
               "--tokens", str(tokens)]  # fmt: skip
    context = ssl.create_default_context(cafile=str(cert))

    def asked(method: str, path: str, token: str = "") -> int:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", port, context=context, timeout=SECONDS
        )
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return answered(connection, method, path, **headers)[0]

    with serving(tmp_path, *options, UNIS_RUN_DIR=str(tmp_path / "run")) as (_, path):
        assert asked("GET", "/healthz") == 200
        assert asked("GET", "/") == 200
        assert [asked("GET", "/v1/runs"), asked("GET", "/v1/runs", "x" * 43)] == [401, 401]
        assert [asked("GET", "/v1/runs", token) for token in found.values()] == [200, 200]
        assert asked("GET", "/metrics", found["look"]) == 200
        assert asked("DELETE", "/v1/runs/none", found["look"]) == 403
        assert asked("DELETE", "/v1/runs/none", found["operate"]) == 404
        with socket.create_connection(("127.0.0.1", port), SECONDS) as plain:
            plain.sendall(b"GET /v1/runs HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"HTTP/1.1 200" not in plain.recv(1000)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.load_verify_locations(cert)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with (
            socket.create_connection(("127.0.0.1", port), SECONDS) as below,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            old.wrap_socket(below, server_hostname="127.0.0.1")
        assert answered(over_unix(path), "GET", "/v1/runs")[0] == 200


def test_what_is_missing_for_tls_is_told(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    cert, key = pair
    where: list[str | Path] = ["serve", "--socket", tmp_path / "s.sock", "--listen", "127.0.0.1:0"]
    code, said = run(*where, "--tls-cert", cert)
    assert (code, "--tls-key, --tokens" in said) == (2, True)
    (tmp_path / "none").touch(0o600)
    code, said = run(*where, "--tls-cert", cert, "--tls-key", cert, "--tokens", tmp_path / "none")
    assert (code, str(cert) in said) == (2, True)
    code, said = run("serve", "--tokens", tmp_path / "none")
    assert (code, "needs --listen" in said) == (2, True)
    code, said = run("serve", "--listen", "here:1")
    assert (code, "is no address" in said) == (2, True)
    assert key.exists()


@pytest.mark.system
def test_peers_are_who_the_kernel_says(tmp_path: Path) -> None:
    """Another user, with and without the groups, at the real socket."""
    need_root()
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.stat().st_mode & 0o001 == 0:
            folder.chmod(folder.stat().st_mode | 0o011)
    code = (
        "import http.client, socket, sys\n"
        "c = http.client.HTTPConnection('localhost')\n"
        "c.sock = socket.socket(socket.AF_UNIX)\n"
        "c.sock.connect(sys.argv[1])\n"
        "c.request(sys.argv[2], sys.argv[3])\n"
        "print(c.getresponse().status)\n"
    )

    def asked(path: Path, method: str, groups: list[int]) -> str:
        words = [sys.executable, "-I", "-c", code, str(path), method, "/v1/runs"]
        words[-1] += "/none" if method == "DELETE" else ""
        done = subprocess.run(
            words, user=65534, group=65534, extra_groups=groups, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        return done.stdout.strip() or done.stderr.splitlines()[-1].partition(":")[0]

    options = ["--group", "daemon", "--operators", "adm"]
    daemon, adm = 1, 4
    with serving(tmp_path, *options, UNIS_RUN_DIR=str(tmp_path / "run")) as (_, path):
        assert os.stat(path).st_mode & 0o777 == 0o660  # noqa: PTH116
        assert asked(path, "GET", []) == "PermissionError"
        assert asked(path, "GET", [daemon]) == "200"
        assert asked(path, "DELETE", [daemon]) == "403"
        assert asked(path, "DELETE", [daemon, adm]) == "404"
        assert asked(path, "GET", [adm]) == "PermissionError"
        path.chmod(0o666)  # somebody opens it: the peer is asked all the same
        assert asked(path, "GET", []) == "403"
        assert asked(path, "DELETE", []) == "403"
        status, text = answered(over_unix(path), "DELETE", "/v1/runs/none")
        assert (status, json.loads(text)["reason"]) == (404, "NotFound")
