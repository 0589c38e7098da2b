"""Which chains can be followed, and where their packets pass."""

import itertools

import pytest

from tests.python.planned import planned, small
from tests.python.strategies import Data
from unis.errors import UnisError
from unis.parts import route
from unis.parts.events import PacketPlace
from unis.parts.route import check

_PATH = ("ingress", "fw", "nat", "monitor", "egress")
_MMSG = {"kind": "veth", "driver": "mmsg"}


def links(**more: object) -> list[Data]:
    return [{"from": a, "to": b, **more} for a, b in itertools.pairwise(_PATH)]


def test_packets_pass_the_devices_of_functions_and_then_that_of_the_sink(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned(small(links=links(**_MMSG), defaults={"cpu": 1, "namespace": "own"}))
    seen: list[tuple[str, str | None]] = []

    def place(device: str, namespace: str | None) -> PacketPlace:
        seen.append((device, namespace))
        return PacketPlace(1, len(seen))

    monkeypatch.setattr(route, "_place", place)
    found = route.route(plan, {"fw": 11, "nat": 12, "monitor": 13}, 9)
    assert [(stage.name, stage.thread) for stage in found.stages] == [
        ("fw", 11), ("nat", 12), ("monitor", 13),
    ]  # fmt: skip
    names = [name for name, _ in seen]
    # The far end of each link, but of the last one: there the engine has end 0.
    assert [name[-1] for name in names] == ["b", "b", "b", "a"]
    assert len({name[:-1] for name in names}) == 4
    assert [space for _, space in seen] == ["unis-x.fw", "unis-x.nat", "unis-x.monitor", None]
    assert found.last == PacketPlace(1, 4)
    assert found.engine == 9


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({}, "is of kind ring; packets are followed on links of kind veth"),
        ({"links": links(kind="veth")}, "fw reads its packets from a ring .net_af_packet0.*mmsg"),
        ({"chains": {"c": {"path": ["fw"], "match": [{"src_port": 1}]},
                     "d": {"path": ["nat", "monitor"]}}},
         "it has 2 chains"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_told(parts: Data, why: str) -> None:
    with pytest.raises(UnisError, match=f"^cannot follow the packets of this chain: .*{why}"):
        check(planned(small(**parts)))


def test_a_function_that_came_into_the_file_after_the_start_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(route, "_place", lambda *_: PacketPlace(1, 1))
    with pytest.raises(UnisError, match="nat is not in the run: the chain file has changed"):
        route.route(planned(small(links=links(**_MMSG))), {"fw": 11, "monitor": 13}, 9)
