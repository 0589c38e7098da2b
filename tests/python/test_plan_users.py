"""Users of functions, what these may do, and where their sockets are."""

import itertools
import pwd
from pathlib import Path

import pytest

from tests.python.planned import planned, small, told
from tests.python.strategies import Data
from unis.plan.model import Plan

FOLDERS = Path("/run/unis/functions")


def on_memif(*names: str, **more: object) -> Data:
    """The three functions in a line, those of the names behind a memif."""
    path = ["ingress", "fw", "nat", "monitor"]
    links = [
        {"from": before, "to": behind, "kind": "memif"}
        for before, behind in itertools.pairwise(path)
        if behind in names
    ]
    return small(links=links, **more)


def with_users(data: Data, **users: str) -> Data:
    functions = {
        name: {**part, **({"user": users[name]} if name in users else {})}
        for name, part in data["functions"].items()
    }
    return data | {"functions": functions}


def sockets(plan: Plan) -> dict[str, Path]:
    return {link.name: link.socket.parent for link in plan.links if link.socket}


def test_a_user_has_a_folder_with_the_sockets_of_its_function() -> None:
    plan = planned(with_users(on_memif("nat"), nat="nobody"))
    assert plan.function("nat").user == "nobody"
    assert plan.function("nat").capabilities == ()
    assert plan.function("nat").folder == FOLDERS / "x.nat"
    assert set(sockets(plan).values()) == {FOLDERS / "x.nat"}
    assert plan.function("fw").folder is None
    assert plan.function("fw").capabilities == ("dac_override", "ipc_lock")
    roots = planned(with_users(on_memif("nat"), nat="root"))
    assert roots.function("nat").folder is None
    assert set(sockets(roots).values()) == {Path("/run/unis/x")}


def test_functions_of_one_user_may_share_a_memif() -> None:
    data = with_users(on_memif("nat", "monitor"), nat="nobody", monitor="nobody")
    assert set(sockets(planned(data)).values()) == {FOLDERS / "x.nat", FOLDERS / "x.monitor"}


@pytest.mark.parametrize("users", [{"nat": "nobody"}, {"nat": "nobody", "monitor": "daemon"}])
def test_functions_of_two_users_may_not(users: dict[str, str]) -> None:
    (sentence,) = told(with_users(on_memif("nat", "monitor"), **users))
    assert "`nat` and `monitor` have a memif between them" in sentence
    assert f"run as nobody and {users.get('monitor', 'root')}; give both the same" in sentence


def test_functions_of_two_users_may_share_a_veth() -> None:
    """It has no file."""
    data = with_users(on_memif("nat", "monitor"), nat="nobody", monitor="daemon")
    for link in data["links"]:
        link["kind"] = "veth"
    assert planned(data).function("nat").user == "nobody"


def test_a_user_on_rings_is_told_of_memif() -> None:
    (sentence,) = told(with_users(small(), nat="nobody"))
    assert "('functions', 'nat', 'user') `nat` is on rings, in the engine's DPDK group" in sentence
    assert "{from: …, to: nat, kind: memif}" in sentence


@pytest.mark.parametrize(
    ("user", "says"),
    [("no-such", "there is no user `no-such` here"), ("toor", "another name of root")],
)
def test_a_user_that_is_none(monkeypatch: pytest.MonkeyPatch, user: str, says: str) -> None:
    real = pwd.getpwnam
    monkeypatch.setattr(pwd, "getpwnam", lambda name: real("root" if name == "toor" else name))
    (sentence,) = told(with_users(on_memif("nat"), nat=user))
    assert says in sentence


def test_a_user_of_the_defaults_is_told_there() -> None:
    sentences = told(small(defaults={"cpu": 1, "user": "nobody"}))
    assert len(sentences) == 3
    assert all(sentence.startswith("('defaults', 'user')") for sentence in sentences)


def test_capabilities_add_to_what_root_keeps() -> None:
    functions = small()["functions"]
    functions["fw"] = {"program": "sh", "capabilities": ["net_raw", "ipc_lock"]}
    functions["nat"] = {"program": "sh", "capabilities": ["net_raw"], "user": "nobody"}
    plan = planned(on_memif("nat", functions=functions))
    assert plan.function("fw").capabilities == ("dac_override", "ipc_lock", "net_raw")
    assert plan.function("nat").capabilities == ("net_raw",)
