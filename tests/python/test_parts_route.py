"""Which chains can be followed, and where their packets pass."""

import itertools

import pytest

from tests.python.planned import planned, small
from tests.python.strategies import Data
from unis.errors import UnisError
from unis.parts.accounting import SINK, SOURCE
from unis.parts.route import check, route

_PATH = ("ingress", "fw", "nat", "monitor", "egress")
_MMSG = {"kind": "veth", "driver": "mmsg"}


def links(**more: object) -> list[Data]:
    return [{"from": a, "to": b, **more} for a, b in itertools.pairwise(_PATH)]


def test_packets_pass_the_functions_in_order_between_source_and_sink() -> None:
    plan = planned(small(links=links(**_MMSG), defaults={"cpu": 1, "namespace": "own"}))
    found = route(plan, {"monitor": 13, "fw": 11, "nat": 12}, 9)
    assert found.functions == ["fw", "nat", "monitor"]
    assert found.programs == {SOURCE: 9, SINK: 9, "fw": 11, "nat": 12, "monitor": 13}
    assert found.copied_to == ["fw", "nat", "monitor"]


@pytest.mark.parametrize("kind", ["ring", "memif", "veth", "xdp", "bridge"])
def test_the_kernel_copies_to_no_function_that_has_a_ring(kind: str) -> None:
    plan = planned(small(links=links(kind=kind)))
    assert route(plan, {"fw": 11, "nat": 12, "monitor": 13}, 9).copied_to == []


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"links": links(kind="ovs")}, "is of kind ovs, and UNiS cannot see"),
        ({"functions": {name: {"program": "sh", "plugin": name != "nat"}
                        for name in ("fw", "nat", "monitor")}}, "nat has `plugin: false`"),
        ({"chains": {"c": {"path": ["fw"], "match": [{"src_port": 1}]},
                     "d": {"path": ["nat", "monitor"]}}},
         "it has 2 chains; name a file with one"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_told(parts: Data, why: str) -> None:
    with pytest.raises(UnisError, match=f"^cannot follow the packets of this chain: .*{why}"):
        check(planned(small(**parts)))


def test_a_function_that_came_into_the_file_after_the_start_is_told() -> None:
    with pytest.raises(UnisError, match="nat is not in the run: the chain file has changed"):
        route(planned(small(links=links(**_MMSG))), {"fw": 11, "monitor": 13}, 9)
