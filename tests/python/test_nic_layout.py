"""Which link is on which port of a NIC: by any numbers of ports, virtual functions and links."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unis.nics.layout import (
    NicPort,
    VfsFor,
    VfsWanted,
    choices,
    lay_out,
    mac_of,
    shortages,
    vfs_to_make,
)

# Ports of one device, whose VFs alternate on the bus, and ports of devices of their own.
_ADDRESSES = ["0000:01:00.0", "0000:01:00.1", "0000:02:00.0", "0000:83:00.0"]


@st.composite
def ports(draw: st.DrawFn) -> list[NicPort]:
    chosen = draw(st.lists(st.sampled_from(_ADDRESSES), min_size=1, max_size=4, unique=True))
    return [
        NicPort(
            address=address,
            interface=f"eth{at}",
            vfs=draw(st.integers(2, 9)),
            stride=4 if address.startswith("0000:01") else 2,
        )
        for at, address in enumerate(chosen)
    ]


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[NicPort], list[VfsWanted]]:
    there = draw(ports())
    names = st.sampled_from([None, *(port.address for port in there)])
    return there, draw(st.lists(st.builds(VfsWanted, names), max_size=14))


@st.composite
def chains_at_wires(draw: st.DrawFn) -> tuple[list[NicPort], list[VfsWanted]]:
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    return draw(ports()), [one for length in lengths for one in at_wires(length)]


def at_wires(functions: int) -> list[VfsWanted]:
    links = [VfsWanted()] * (functions - 1)
    return [VfsWanted(way=VfsFor.WIRE_IN), *links, VfsWanted(way=VfsFor.WIRE_OUT)]


@given(asked())
def test_every_link_has_two_functions_of_one_port_and_none_is_given_twice(
    them: tuple[list[NicPort], list[VfsWanted]],
) -> None:
    there, wanted = them
    if [*shortages(there, wanted)]:
        return
    found = lay_out(there, wanted)
    assert len(found) == len(wanted)
    taken = Counter(address for pair in found for address in pair.addresses)
    assert set(taken.values()) <= {1}
    assert len({pair.id for pair in found}) == len(found)
    for pair, one in zip(found, wanted, strict=True):
        assert one.address in (None, pair.port.address)
        assert pair.port in there
        assert max(pair.vfs) < pair.port.vfs
    assert [options[0] for options in choices(there, wanted)] == found


@given(asked())
def test_links_are_refused_only_where_there_is_no_room(
    them: tuple[list[NicPort], list[VfsWanted]],
) -> None:
    there, wanted = them
    told = [*shortages(there, wanted)]
    pinned = Counter(one.address for one in wanted if one.address)
    fits = len(wanted) <= sum(port.vfs // 2 for port in there) and all(
        pinned[port.address] <= port.vfs // 2 for port in there
    )
    assert bool(told) != fits


@given(ports(), st.integers(0, 16))
def test_the_ports_of_a_function_come_in_the_order_of_their_addresses(
    there: list[NicPort], links: int
) -> None:
    """EAL numbers them so. The end that receives has the lower address of its link."""
    if [*shortages(there, [VfsWanted()] * links)]:
        return
    found = lay_out(there, [VfsWanted()] * links)
    for into, out in pairwise(found):
        assert into.addresses[0] < out.addresses[1]
    assert found[:-1] == lay_out(there, [VfsWanted()] * max(0, links - 1)), "one more moves none"


@given(asked())
def test_a_port_gets_no_more_functions_than_it_needs(
    them: tuple[list[NicPort], list[VfsWanted]],
) -> None:
    there, wanted = them
    if [*shortages(there, wanted)]:
        return
    found = lay_out(there, wanted)
    on = Counter(pair.port.address for pair in found)
    for port in there:
        assert vfs_to_make(there, found)[port.address] == 2 * on[port.address] <= port.vfs


@given(chains_at_wires())
def test_chains_at_wires_have_two_functions_for_each_of_theirs(
    them: tuple[list[NicPort], list[VfsWanted]],
) -> None:
    there, wanted = them
    if [*shortages(there, wanted)]:
        return
    found = lay_out(there, wanted)
    taken = Counter(address for room in found for address in room.addresses)
    assert set(taken.values()) == {1}
    assert taken.total() == sum(2 if one.way is VfsFor.LINK else 1 for one in wanted)
    assert all(room.port in there and max(room.vfs) < room.port.vfs for room in found)
    for at, (one, room) in enumerate(zip(wanted, found, strict=True)):
        if len(there) == 1 and one.way is not VfsFor.WIRE_IN:
            assert found[at - 1].addresses[0] < room.addresses[-1], "as the function's ports"
    options = choices(there, wanted)
    assert [each[0] for each in options] == found
    for port in there:
        of_port = [room for room in found if room.port == port]
        assert vfs_to_make(there, found)[port.address] == sum(room.count for room in of_port)
    # A link that comes later has its place beside all that is there, or none that begins there.
    for one, rooms in zip(wanted, options, strict=True):
        for room in rooms if one.way is VfsFor.LINK else ():
            if room.id not in {there.id for there in found}:
                assert not {*room.addresses} & {*taken}


@pytest.mark.parametrize(
    ("functions", "of_ports", "wires_fit", "source_and_sink_fit"),
    [
        (3, [7], True, False),  # 6 of 7, where 8 are needed beside source and sink
        (4, [7], False, False),
        (4, [7, 7], True, True),
        (7, [7, 7], True, False),
    ],
)
def test_a_chain_at_wires_fits_where_one_beside_source_and_sink_does_not(
    functions: int, of_ports: list[int], wires_fit: bool, source_and_sink_fit: bool
) -> None:
    there = [NicPort(_ADDRESSES[2 * at], f"eth{at}", vfs) for at, vfs in enumerate(of_ports)]
    assert (not [*shortages(there, at_wires(functions))]) == wires_fit
    assert (not [*shortages(there, [VfsWanted()] * (functions + 1))]) == source_and_sink_fit


def test_a_shortage_tells_what_a_chain_at_wires_needs() -> None:
    assert [*shortages([NicPort(_ADDRESSES[0], "eth0", 7)], at_wires(4))] == [
        (
            None,
            "3 links, two each and of one port, and 2 wires on eth0 need 8 virtual functions, and "
            "there can be 7; name another NIC under sriov.nics",
        )
    ]


def test_addresses_are_those_that_the_kernel_gives() -> None:
    igb = NicPort("0000:01:00.0", "eth0", 7)
    assert [igb.address_of(vf) for vf in (0, 1, 3, 4)] == [
        "0000:01:10.0", "0000:01:10.2", "0000:01:10.6", "0000:01:11.0",
    ]  # fmt: skip
    # 64 VFs of a port at 0000:03:00.1 go on behind the end of the bus.
    ice = NicPort("0000:03:00.1", "eth1", 200, offset=128, stride=1)
    assert ice.address_of(127) == "0000:04:00.0"


@given(st.text(), st.text())
def test_mac_addresses_are_local_and_of_one_station(one: str, other: str) -> None:
    first = int(mac_of(one).split(":")[0], 16)
    assert first & 0b11 == 0b10
    assert (mac_of(one) == mac_of(other)) == (one == other)
