"""Who may do what over `unis serve`: peers, tokens, and pages of other sites."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.python.asgi import NOBODY, ROOT, ask, runs_below, served
from unis.errors import UnisError
from unis.serve.access import Access, Caller, Peer, Role, Token, add_token, hashed, read_tokens

OPERATORS, LOOKERS = 4001, 4002
OPERATOR = Peer(1000, frozenset({1000, OPERATORS}))
LOOKER = Peer(1001, frozenset({LOOKERS}))
BOTH = Access(operators=OPERATORS, lookers=LOOKERS)


@pytest.fixture(autouse=True)
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs_below(tmp_path, monkeypatch)


def every_change() -> list[tuple[str, str]]:
    """All that is not only looked at, as the description tells it."""
    paths: dict[str, dict[str, Any]] = served().openapi()["paths"]
    found = [
        (method.upper(), re.sub(r"{\w+(:path)?}", "x", path))
        for path, methods in paths.items()
        for method in methods
        if method not in ("get", "head")
    ]
    assert len(found) >= 8
    return found


@pytest.mark.parametrize(
    ("peer", "role"),
    [(ROOT, Role.OPERATE), (OPERATOR, Role.OPERATE), (LOOKER, Role.LOOK), (NOBODY, None)],
)
def test_what_peers_may(peer: Peer, role: Role | None) -> None:
    assert BOTH.of_peer(peer).role == role
    at_most = Access(operators=OPERATORS, lookers=LOOKERS, read_only=True).of_peer(peer).role
    assert at_most == (None if role is None else Role.LOOK)


def test_without_groups_only_root_may() -> None:
    assert Access().of_peer(ROOT).role == Role.OPERATE
    for groups in ({0}, {OPERATORS}, set[int]()):
        assert Access().of_peer(Peer(1000, frozenset(groups))).role is None


def test_no_call_without_rights_changes_anything(tmp_path: Path) -> None:
    (tmp_path / "tokens").touch(0o600)
    token = add_token(tmp_path / "tokens", "eye", Role.LOOK)
    app = served(Access(OPERATORS, LOOKERS, read_tokens(tmp_path / "tokens")))
    strangers: list[tuple[dict[str, Any], int]] = [
        ({"peer": NOBODY}, 403), ({"peer": LOOKER}, 403),
        ({"peer": None}, 403),  # over TCP without TLS
        ({"peer": None, "scheme": "https"}, 401),
        ({"peer": None, "scheme": "https", "authorization": "Bearer x"}, 401),
        ({"peer": None, "scheme": "https", "authorization": f"Basic {token}"}, 401),
        ({"peer": None, "scheme": "https", "authorization": f"Bearer {token}"}, 403),
    ]  # fmt: skip
    before = sorted((tmp_path / "run").rglob("*"))
    for (method, path), (who, status) in itertools.product(every_change(), strangers):
        answer = ask(app, method, path, "apiVersion: unis/v1\nname: x\n", **who)
        assert answer.status == status, (method, path, who)
        assert answer.data["kind"] == "Status"
    assert sorted((tmp_path / "run").rglob("*")) == before
    read_only = served(Access(read_only=True))
    for method, path in every_change():
        assert ask(read_only, method, path).status == 403
    assert "--read-only" in ask(read_only, "DELETE", "/v1/runs/x").data["message"]


def test_what_strangers_may_look_at() -> None:
    app = served(BOTH)
    for path in ("/v1/runs", "/v1", "/openapi.json", "/metrics", "/v1/events"):
        assert ask(app, "GET", path, peer=NOBODY).status == 403, path
        assert ask(app, "GET", path, peer=None, scheme="https").status == 401, path
    for path in ("/metrics", "/healthz"):
        assert ask(app, "GET", path, peer=None).status == 200, path
    for path in ("/v1/runs", "/", "/openapi.json"):
        assert ask(app, "GET", path, peer=None).status == 403, path
    assert ask(app, "GET", "/", peer=None, scheme="https").status == 200
    challenge = ask(app, "GET", "/v1/runs", peer=None, scheme="https").headers
    assert challenge["www-authenticate"].startswith("Bearer")
    assert ask(app, "GET", "/v1/runs", peer=LOOKER).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 404),
        ({"host": "localhost:8080", "origin": "http://localhost:8080"}, 404),
        ({"host": "localhost:8080", "origin": "https://evil.example"}, 403),
        ({"host": "localhost", "origin": "null"}, 403),
        ({"host": "localhost", "sec_fetch_site": "cross-site"}, 403),
        ({"host": "localhost", "sec_fetch_site": "same-site"}, 403),
        ({"host": "evil.example", "origin": "http://evil.example"}, 421),
        ({"host": "evil.example:8080"}, 421),
        ({"host": "evil:8080", "origin": "http://evil:8080"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": ""}, 421),
        ({"host": "127.0.0.1:8080", "sec_fetch_site": "same-origin"}, 404),
    ],
)
def test_a_page_of_another_site_can_change_nothing(headers: dict[str, Any], status: int) -> None:
    """As root's browser would send it over a socket that is forwarded by ssh."""
    assert ask(served(), "DELETE", "/v1/runs/x", **headers).status == status


def test_who_changes_too_often_waits() -> None:
    app = served(Access(operators=OPERATORS))
    statuses = [ask(app, "DELETE", "/v1/runs/x").status for _ in range(40)]
    assert statuses[:20] == [404] * 20
    assert 429 in statuses
    assert ask(app, "DELETE", "/v1/runs/x", peer=OPERATOR).status == 404  # another caller
    assert ask(app, "GET", "/v1/runs").status == 200


# ------------------------------------------------------------------ tokens


def test_a_token_is_told_once_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    token = add_token(file, "ops", Role.OPERATE)
    other = add_token(file, "eye", Role.LOOK)
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    access = Access(tokens=read_tokens(file))
    assert access.of_token(f"Bearer {token}") == Caller("token ops", Role.OPERATE, "the token of "
                                                        "ops may only look")  # fmt: skip
    assert access.of_token(f"bearer {other}").role == Role.LOOK
    with pytest.raises(UnisError, match="has a token `ops` already"):
        add_token(file, "ops", Role.LOOK)
    with pytest.raises(UnisError, match="no name"):
        add_token(file, "a b", Role.LOOK)
    file.chmod(0o620)
    with pytest.raises(UnisError, match="chmod 600"):
        read_tokens(file)


@pytest.mark.parametrize(
    "line", ["ops", "ops operate", "ops root " + "0" * 64, "o look " + "0" * 63]
)
def test_a_line_that_is_none_is_told_with_its_number(tmp_path: Path, line: str) -> None:
    (tmp_path / "tokens").write_text(f"# mine\n\n{line}\n")
    (tmp_path / "tokens").chmod(0o600)
    with pytest.raises(UnisError, match=r"tokens:3: "):
        read_tokens(tmp_path / "tokens")


@given(st.text(max_size=80))
def test_no_other_header_is_a_token(header: str) -> None:
    access = Access(tokens=(Token("ops", Role.OPERATE, hashed("t" * 43)),))
    assume(header.strip().partition(" ")[2].strip() != "t" * 43)
    assert access.of_token(header).role is None
    assert access.of_token(f"Bearer {'t' * 43}").role is Role.OPERATE
