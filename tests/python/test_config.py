"""What `unis config` tells of links, source and sink."""

import json
import re
from pathlib import Path

import pytest

from tests.python.commands import run
from tests.python.planned import small, told
from tests.python.strategies import Data
from unis.links import veth
from unis.runtime import interfaces

ENDS = [("ingress", "fw"), ("fw", "nat"), ("nat", "monitor"), ("monitor", "egress")]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Config":
    buffer = tmp_path / "rmem_default"
    buffer.write_text("212992\n")
    monkeypatch.setattr(veth, "_BUFFER", buffer)
    return Config(tmp_path)


class Config:
    """The command."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, data: Data, *options: str) -> str:
        for function in data["functions"].values():
            function["program"] = "/bin/true"
        file = self._folder / "x.yaml"
        file.write_text(json.dumps(data))
        code, text = run("config", file, *options)
        assert code == 0, text
        return text


def linked(**keys: object) -> Data:
    return small(links=[{"from": a, "to": b, **keys} for a, b in ENDS])


def slots(text: str) -> list[int]:
    return [int(row[1]) for row in re.finditer(r"^c\.\d .* (\d+)$", text, re.MULTILINE)]


def test_a_link_on_mmsg_holds_what_the_buffer_of_a_socket_does(config: Config) -> None:
    """But where the engine receives, which has a ring."""
    text = config(linked(kind="veth", driver="mmsg", slots=512))
    assert slots(text) == [256, 256, 256, 512]
    assert "veth, driver mmsg, batch 32" in text
    assert slots(config(linked(kind="veth", slots=512))) == [512] * 4


def test_of_branches_the_links_to_the_engine_have_its_room(config: Config) -> None:
    keys = {"kind": "veth", "driver": "mmsg", "slots": 512}
    edges = [("ingress", "fw"), ("fw", "nat"), ("fw", "monitor"), ("nat", "monitor"),
             ("monitor", "egress")]  # fmt: skip
    weights = [{"weight": 1} if origin == "fw" else {} for origin, _ in edges]
    graph = [{"from": a, "to": b, **more} for (a, b), more in zip(edges, weights, strict=True)]
    data = small(
        chains={"c": {"graph": graph}}, links=[{"from": a, "to": b, **keys} for a, b in edges]
    )
    # Of the links before and behind a branch the engine has the other end.
    assert slots(config(data)) == [1024, 256, 256, 1024, 512, 512]


@pytest.mark.parametrize("shown", [True, False], ids=["here", "old kernel, in a container"])
def test_gamma_counts_the_room_that_is_told(
    config: Config, monkeypatch: pytest.MonkeyPatch, shown: bool
) -> None:
    if not shown:
        monkeypatch.setattr(veth, "_BUFFER", Path("/nonexistent"))
    assert "γ 0.75: the paper's; the shortest link of a function has 256 slots" in config(
        linked(kind="veth", driver="mmsg")
    )
    # The engine receives there, from its ring.
    last = small(links=[{"from": "monitor", "to": "egress", "kind": "veth", "driver": "mmsg"}])
    for kind in ("veth", "memif"):
        last["links"] += [{"from": a, "to": b, "kind": kind} for a, b in ENDS[:-1]]
        assert "γ 0.88" in config(last)
        del last["links"][1:]


def test_what_waits_for_a_function_on_mmsg_is_held_against_the_thresholds() -> None:
    links = [{"from": "fw", "to": "nat", "kind": "veth", "driver": "mmsg"}]
    (said,) = told(small(links=links, scheduler={"theta_min": 300}))
    assert "the link from `fw` to `nat` holds 256 packets, and θmin is 300" in said


def test_rings_are_explained_where_there_are_any(config: Config) -> None:
    assert "rings of" not in config(linked(kind="veth"))
    mixed = small(links=[{"from": "ingress", "to": "fw", "kind": "ring"}])
    assert "rings of" in config(mixed)


def test_source_and_sink_are_named(config: Config) -> None:
    text = config(small(traffic={"rate": "5kpps"}))
    assert "source synthetic (size 64, flows 256), rate 5kpps; sink measure" in text
    assert re.search(r"chain c: source → c\.0 → .* → sink$", text, re.MULTILINE)


def test_an_interface_that_is_not_there_is_told_and_the_plan_shown(config: Config) -> None:
    source, sink = ({"kind": "interface", "interface": name} for name in ("nosuch0", "nosuch1"))
    data = small(traffic={"source": source, "sink": sink})
    text = config(data)
    assert re.search(r"chain c: nosuch0 → c\.0 → .* → nosuch1$", text, re.MULTILINE)
    for name in ("nosuch0", "nosuch1"):
        assert f"the chain cannot start here: there is no interface {name} here: `ip link`" in text


def test_what_is_odd_about_an_interface_is_told(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interfaces, "look_at", lambda names: [f"{names} is odd"])
    data = small(traffic={"sink": {"kind": "interface", "interface": "eth7"}})
    assert "['eth7'] is odd" in config(data)
