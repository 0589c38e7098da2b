"""What the engine is told of functions that somebody else started."""

from dataclasses import replace
from pathlib import Path

from unis.engine.limits import broken, limit
from unis.plan.attached import (
    AttachedFunction,
    AttachedPath,
    AttachedPlan,
    DeviceId,
    End,
    MemifEnd,
    PacketEnd,
    PacketSocket,
    RingEnd,
    plan_attached,
)
from unis.plan.model import Places
from unis.v1 import engine_pb2 as pb

PLACES = Places(
    directory=Path("/run/x"), folders=Path("/run/y"), engine_socket=Path("/run/x/engine.sock"),
    port_driver=Path("/run/x/driver.so"), mmsg_driver=Path("/run/x/mmsg.so"),
    port_plugin=Path("/run/x/plugin.so"),
)  # fmt: skip


def memif(inode: int, *, client: bool = False) -> MemifEnd:
    return MemifEnd(inode=inode, slots=1024, buffer_bytes=2048, client=client)


def function(name: str, *paths: tuple[End, End]) -> AttachedFunction:
    return AttachedFunction(name, 4711, 1, 50.0, tuple(AttachedPath(*path) for path in paths))


def plan(*functions: AttachedFunction, group: str | None = None) -> AttachedPlan:
    return plan_attached("run", 1, 0, PLACES, group, "unis").with_attached(functions)


def deployed(*functions: AttachedFunction) -> pb.DeployRequest:
    request = plan(*functions).deploy({}, "id")
    assert broken(request) == []
    return request


def ways(request: pb.DeployRequest) -> list[list[str]]:
    return [[hop.function for hop in chain.hops] for chain in request.chains]


def test_paths_are_joined_in_the_order_in_which_packets_pass_them() -> None:
    last = function("last", (RingEnd("b"), RingEnd("c")))
    first = function("first", (RingEnd("a"), RingEnd("b")))
    request = deployed(last, first)
    assert ways(request) == [["first", "last"]]
    assert request.foreign
    assert [link.name for link in request.links] == ["b", "c", "a"]
    assert not any(link.HasField("slots") for link in request.links)
    assert (request.chains[0].ingress, request.chains[0].egress) == ("a", "c")


def test_both_ways_over_memifs_are_two_chains_and_a_port_each() -> None:
    def two_way(name: str, left: MemifEnd, right: MemifEnd) -> AttachedFunction:
        return function(name, (left, right), (right, left))

    request = deployed(
        two_way("one", memif(1), memif(2, client=True)),
        two_way("two", memif(2), memif(3, client=True)),
    )
    assert ways(request) == [["one", "two"], ["two", "one"]]
    assert [len(one.ports) for one in request.functions] == [2, 2]
    assert [port.end for port in request.functions[0].ports] == [0, 1]
    assert [link.memif.inode for link in request.links] == [1, 2, 3]


def test_what_two_servers_of_one_memif_send_does_not_meet() -> None:
    one = function("one", (memif(1), memif(2)))
    two = function("two", (memif(2), memif(3)))
    assert ways(deployed(one, two)) == [["one"], ["two"]], "the engine refuses the memif"


def test_a_circle_is_one_chain() -> None:
    names = ("one", "two", "three")
    ends = [memif(at) for at in range(1, 4)]
    functions = [
        function(name, (ends[at], MemifEnd(ends[(at + 1) % 3].inode, 1024, 2048, client=True)))
        for at, name in enumerate(names)
    ]
    assert ways(deployed(*functions)) == [list(names)]


def test_the_engine_joins_a_group_only_where_there_are_rings() -> None:
    assert plan(group="rte").engine.argv[-3:] == ("--foreign", "--join", "rte")
    assert plan().engine.argv[-1] == "--foreign"
    assert plan().hugepages_mb == 0


def test_both_ends_of_a_memif_have_the_same_queues() -> None:
    def attached(*ends: MemifEnd) -> AttachedPlan:
        functions = [function(f"f{at}", (end, RingEnd("r"))) for at, end in enumerate(ends)]
        return plan().with_attached(functions)

    server = MemifEnd(7, 1024, 2048, client=False, queues_to_server=3, queues_to_client=1)
    assert attached(server, replace(server, client=True)).disputed() == set()
    other = replace(server, client=True, queues_to_server=2, queues_to_client=2)
    assert attached(server, other).disputed() == {"memif-7"}


HERE, ELSEWHERE = 0xF0000001, 0xF0000002


def on(index: int, peer: DeviceId | None = None, namespace: int = HERE) -> PacketEnd:
    socket = PacketSocket(inode=100 + index, slots=512, slot_bytes=2048, ring_bytes=2 << 20)
    return PacketEnd(DeviceId(namespace, index), peer, (socket,))


def test_two_programs_on_a_pair_of_veths_share_a_link_in_whatever_namespaces() -> None:
    near = on(7, DeviceId(ELSEWHERE, 2))
    far = on(2, DeviceId(HERE, 7), ELSEWHERE)
    request = deployed(
        function("left", (on(3), near), (near, on(3))), function("right", (far, far))
    )
    assert ways(request) == [["left", "right", "left"]]
    links = {link.name: link for link in request.links}
    assert sorted(links) == ["packet-3-1", "packet-7-1"]
    assert not any(link.HasField("slots") for link in request.links)
    left, right = request.functions
    assert [(port.rx, port.tx, port.end) for port in left.ports] == [
        ("packet-3-1", "packet-3-1", 0),
        ("packet-7-1", "packet-7-1", 0),
    ]
    assert [(port.rx, port.end) for port in right.ports] == [("packet-7-1", 1)]
    assert [one.inode for one in right.ports[0].sockets] == [102]


def test_interfaces_of_one_number_in_two_namespaces_are_two() -> None:
    one, other = (
        function(name, (on(3, namespace=at), on(4, namespace=at)))
        for name, at in (("one", HERE), ("other", ELSEWHERE))
    )
    assert ways(deployed(one, other)) == [["one"], ["other"]]
    names = [link.name for link in deployed(one, other).links]
    assert len(set(names)) == 4
    assert max(map(len, names)) <= int(limit("LinkConfig.name").max_bytes or 0)
