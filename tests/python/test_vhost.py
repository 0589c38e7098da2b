"""Links of kind vhost: which end has which driver, and where the two find the engine."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.python.planned import planned, small
from unis.errors import UnisError
from unis.links.kind import LinkPlan, LinkSpec, PortEnds
from unis.links.vhost import Vhost

ENDS = [("ingress", "fw"), ("fw", "nat"), ("nat", "monitor"), ("monitor", "egress")]
ON_VHOST = [{"from": origin, "to": to, "kind": "vhost"} for origin, to in ENDS]


def a_vhost(*, engine: bool) -> LinkPlan:
    spec = LinkSpec("r", "c.1", 256, engine=engine, folder=Path("/run/f"))
    return LinkPlan("c.1", "vhost", 256, Vhost().details(spec, 0))


def device(link: LinkPlan, end: int) -> str:
    return Vhost().device(PortEnds("p", 3, link, link, end))


def test_of_two_functions_the_first_is_the_device_and_the_other_the_driver() -> None:
    link = a_vhost(engine=False)
    assert device(link, 0) == "net_vhost3,iface=/run/f/c.1.device.sock,queues=1,client=1"
    assert device(link, 1).startswith("net_virtio_user3,path=/run/f/c.1.sock,queues=1,")
    settings = link.message().vhost
    assert (settings.driver_socket, settings.device_socket) == (
        "/run/f/c.1.sock", "/run/f/c.1.device.sock",
    )  # fmt: skip


def test_beside_the_engine_a_function_is_the_driver() -> None:
    link = a_vhost(engine=True)
    assert "queue_size=256" in device(link, 1)
    assert "mac=02:" in device(link, 1)
    assert device(link, 1) == device(link, 1)
    assert not link.message().vhost.device_socket


def test_a_chain_may_be_on_them_alone() -> None:
    plan = planned(small(links=ON_VHOST))
    assert [link.kind for link in plan.links] == ["vhost"] * 4
    for function in plan.functions:
        assert function.group == "own"
        assert function.argv.count("--single-file-segments") == 1
        # The engine serves both sockets: a function that dies takes no other with it.
        assert plan.with_clients([function.name]) == {function.name}
        assert plan.served_by(function) == []
    drivers = [port.device.split("0,")[0].split("1,")[0] for port in plan.function("nat").ports]
    assert drivers == ["net_virtio_user", "net_vhost"]


def test_other_kinds_need_no_such_argument() -> None:
    plan = planned(small(links=[{"from": "nat", "to": "monitor", "kind": "memif"}]))
    assert all("--single-file-segments" not in function.argv for function in plan.functions)


def test_a_container_sees_the_folder_of_its_sockets() -> None:
    functions = {name: {"program": "sh", "container": {}} for name in ("fw", "nat", "monitor")}
    container = planned(small(functions=functions, links=ON_VHOST)).function("nat").container
    assert container
    assert any(mount.writable for mount in container.mounts)


@pytest.mark.parametrize(
    ("link", "function", "mend"),
    [
        ({"slots": 32768}, {}, "up to 16384"),
        ({"driver": "mmsg"}, {}, "applies to"),
        ({}, {"queues": 2}, "one queue each way"),
        ({}, {"user": "nobody"}, "whose socket is one user's alone"),
    ],
)
def test_what_it_cannot_be_is_refused(
    link: dict[str, object], function: dict[str, object], mend: str
) -> None:
    links = [{**each, **link} for each in ON_VHOST]
    functions = {name: {"program": "sh"} for name in ("fw", "monitor")}
    with pytest.raises((UnisError, ValidationError), match=mend):
        planned(small(functions={**functions, "nat": {"program": "sh", **function}}, links=links))


def test_a_port_on_another_kind_is_a_mistake() -> None:
    ring = LinkPlan("c.1", "ring", 256)
    with pytest.raises(ValueError, match="is no vhost"):
        Vhost().device(PortEnds("p", 0, ring, ring))
