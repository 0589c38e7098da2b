"""Descriptors of SOL006 as chain files: order of paths, matches, links, programs, and errors."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.python.descriptors import PROGRAMS, element, nsd, position, read, refused, wrapped
from tests.python.planned import planned
from tests.python.strategies import Data, scaled
from unis import built
from unis.chain.document import read_as_written
from unis.chain.problem import Location
from unis.errors import UnisError
from unis.etsi.importer import Wishes, imported
from unis.etsi.programs import StatedPrograms

EXAMPLES = built.clone() / "examples" / "etsi"
EDGE = [EXAMPLES / f"{name}.yaml" for name in ("edge_nsd", "firewall_vnfd", "nat_vnfd")]
CHECKS = settings(
    max_examples=scaled(60), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TWO = (element("fw", 0), element("nat", 1))


def vdu(**more: object) -> Data:
    return {"id": "one", **{key.replace("_", "-"): value for key, value in more.items()}}


def said(value: str) -> list[Data]:
    return [{"key": "unis-program", "value": value}]


# ------------------------------------------------------------------ order


def test_the_example_is_the_chain_that_its_page_shows() -> None:
    documents = [read_as_written(file) for file in EDGE]
    found = imported(documents, Wishes(StatedPrograms({"fw": ["firewall"]}), cpu=3))
    assert found.data == {
        "apiVersion": "unis/v1",
        "name": "edge-ns",
        "defaults": {"cpu": 3},
        "functions": {
            "fw": {"program": "firewall"},
            "nat": {"program": "nat", "args": ["--public", "192.0.2.1"]},
        },
        "chains": {
            "web": {
                "match": [{"dst": "192.168.0.0/24", "dst_port": 80, "protocol": "udp"}],
                "path": ["fw", "nat"],
                "slo": {"p95_latency": "2ms"},
            },
            "rest": {"path": ["fw"]},
        },
    }
    assert found.renamed == []


def test_what_is_imported_can_be_planned() -> None:
    programs = StatedPrograms({"fw": ["sh"], "nat": ["sh"]})
    plan = planned(imported([read_as_written(file) for file in EDGE], Wishes(programs)).data)
    assert [[hop.function for hop in chain.hops] for chain in plan.chains] == [
        ["fw", "nat"],
        ["fw"],
    ]


def test_what_is_said_of_a_profile_counts_before_what_is_said_of_its_vnfd() -> None:
    said = StatedPrograms({"firewall-vnf": ["firewall"]}, commands={"fw": ["testpmd"]})
    found = imported([read_as_written(file) for file in EDGE], Wishes(said))
    assert found.data["functions"]["fw"] == {"command": ["testpmd"]}


def test_positions_of_the_standard_are_the_points_of_each_vnf_in_turn() -> None:
    """Two positions at one VNF, in and out, are one function."""
    found = imported(
        [read_as_written(EXAMPLES / "link.json")],
        Wishes(StatedPrograms({"monitor-vnf": ["monitor"]})),
    )
    assert found.data["chains"] == {"all": {"path": ["monitor"], "slo": {"p95_latency": "1ms"}}}
    assert found.data["traffic"] == {"rate": "1Gbps"}
    assert [str(each).rpartition(": ")[2] for each in found.renamed] == [
        "is called `link`; a name in a chain file is unique, of a-z, 0-9, - and _"
    ]
    assert any("].rule: not carried over: is free text" in str(each) for each in found.left)


def test_the_order_is_stated_not_that_of_the_list(tmp_path: Path) -> None:
    found = read(tmp_path, wrapped(nsd(position(*reversed(TWO)))))
    assert found.data["chains"]["web"]["path"] == ["fw", "nat"]


def test_positions_follow_one_another_as_they_are_listed(tmp_path: Path) -> None:
    there = [{**position(element("nat", 0)), "id": "a"}, {**position(element("fw", 0)), "id": "b"}]
    assert read(tmp_path, wrapped(nsd(*there))).data["chains"]["web"]["path"] == ["nat", "fw"]


@pytest.mark.parametrize(
    ("positions", "where", "what"),
    [
        ([], "vnffgd[0].nfpd[0]", "has no position; add"),
        ([{"id": "p"}], "position-desc-id[0]", "is a position without a VNF; add"),
        ([position()], "cp-profile-id[0]", "is a position without a VNF; add"),
        (
            [position(element("fw", 0), {**element("nat", 0), "id": "b"})],
            "constituent-profile-elements[1]",
            "there are two first positions; give each",
        ),
        (
            [position(element("fw", 0), element("nat"))],
            "constituent-profile-elements[1]",
            "has no order, and another element has",
        ),
        (
            [position(*TWO, {**element("fw", 2), "id": "again"})],
            "constituent-profile-elements[2]",
            "passes the VNF `fw` again, which is number 1 of the path already",
        ),
        (
            [position(element("ids", 0))],
            "constituent-profile-elements[0]",
            "names the VNF `ids`, which is no vnf-profile; choose one of fw, nat",
        ),
        (
            [{**position(*TWO), "nfp-position-element-id": ["x"]}],
            "nfp-position-element-id[0]",
            "there is no nfp-position-element `x`",
        ),
    ],
)
def test_paths_that_are_none(tmp_path: Path, positions: list[Data], where: str, what: str) -> None:
    told = refused(tmp_path, wrapped(nsd(*positions)))
    assert where in told
    assert what in told
    assert "0.json:" in told


def test_every_path_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    service = nsd(position(*TWO))
    more = [{"id": name, "position-desc-id": [position(element(name, 0))]} for name in ("x", "y")]
    service["vnffgd"][0]["nfpd"] += more
    told = refused(tmp_path, wrapped(service)).splitlines()
    assert [line.partition(" names the VNF ")[2][:3] for line in told] == ["`x`", "`y`"]


def test_a_vnf_outside_of_its_graph(tmp_path: Path) -> None:
    service = nsd(position(*TWO))
    service["vnffgd"][0]["vnf-profile-id"] = ["fw"]
    assert "`nat`, which is not in vnf-profile-id" in refused(tmp_path, wrapped(service))


@pytest.mark.parametrize("kind", ["pnf-profile", "ns-profile"])
def test_what_is_no_vnf_is_no_position(tmp_path: Path, kind: str) -> None:
    service = nsd()
    graph = service["vnffgd"][0]
    graph["nfp-position-element"] = [{"id": "e", "desc": {kind: {f"{kind}-id": "dpi"}}}]
    place = {"id": "1", "nfp-position-element-id": ["e"]}
    graph["nfpd"] = [{"id": "web", "position-desc": [place]}]
    assert "which UNiS does not run; take it out" in refused(tmp_path, wrapped(service))


def test_one_position_of_several_vnfs_is_no_path(tmp_path: Path) -> None:
    service = nsd()
    graph = service["vnffgd"][0]
    graph["nfp-position-element"] = [
        {"id": name, "desc": {"vnf-profile": {"vnf-profile-id": name}}} for name in ("fw", "nat")
    ]
    place = {"id": "1", "nfp-position-element-id": ["fw", "nat"]}
    graph["nfpd"] = [{"id": "web", "position-desc": [place]}]
    assert "is one position of several VNFs (fw, nat); give" in refused(tmp_path, wrapped(service))


# ------------------------------------------------------------------ names


def test_ids_become_names_each_its_own(tmp_path: Path) -> None:
    service = nsd(position(*TWO), id="Edge Service/1")
    profiles = service["df"][0]["vnf-profile"]
    profiles[0]["id"], profiles[1]["id"] = "x-Fw", "x-FW"
    service["vnffgd"][0]["nfpd"][0]["position-desc-id"] = [
        position(element("x-Fw", 0), element("x-FW", 1))
    ]
    programs = StatedPrograms({"x-Fw": ["a"], "x-FW": ["b"]})
    found = read(tmp_path, wrapped(service), wishes=Wishes(programs))
    assert found.data["name"] == "edge-service-1"
    assert found.data["chains"]["web"]["path"] == ["vnf-x-fw", "vnf-x-fw-2"]
    assert len(found.renamed) == 3


def test_paths_of_one_id_are_called_after_their_graphs(tmp_path: Path) -> None:
    service = nsd(position(*TWO, match_attributes=[{"id": "m", "destination-port": 80}]))
    second = copy.deepcopy(service["vnffgd"][0])
    second["id"] = "other"
    service["vnffgd"].append(second)
    found = read(tmp_path, wrapped(service))
    assert list(found.data["chains"]) == ["graph-web", "other-web"]


# ------------------------------------------------------------------ matches


def test_matches(tmp_path: Path) -> None:
    attributes = [
        {
            "id": "a", "ip-proto": "6", "source-ip-address": "10.1.2.3", "source-port": 0,
            "destination-ip-address": "10.0.0.0/8", "destination-port": "443",
        },
        {"id": "b", "ip-proto": 132},
    ]  # fmt: skip
    found = read(tmp_path, wrapped(nsd(position(*TWO, match_attributes=attributes))))
    assert found.data["chains"]["web"]["match"] == [
        {"src": "10.1.2.3/32", "dst": "10.0.0.0/8", "dst_port": 443, "protocol": "tcp"},
        {"protocol": 132},
    ]
    assert "match-attributes[0].source-port: not carried over: port 0 stands for all" in "\n".join(
        map(str, found.left)
    )


@pytest.mark.parametrize(
    ("attribute", "what"),
    [
        ({"source-ip-address": "2001:db8::1"}, "IPv4 addresses and prefixes only"),
        ({"destination-port": "5001:5011"}, "a port from 0 to 65535; write an entry for each"),
        ({"destination-port": 65536}, "a port from 0 to 65535"),
        ({"ip-proto": 256}, "a number of an IP protocol from 0 to 255"),
    ],
)
def test_a_match_that_a_chain_cannot_have_is_not_left_out(
    tmp_path: Path, attribute: Data, what: str
) -> None:
    attributes = [{"id": "m", **attribute}]
    told = refused(tmp_path, wrapped(nsd(position(*TWO, match_attributes=attributes))))
    assert f".match-attributes[0].{next(iter(attribute))}" in told
    assert what in told


def test_a_match_of_another_kind_is_not_left_out(tmp_path: Path) -> None:
    attributes = [{"id": "m", "ip-proto": 6, "vlan-id": 7}]
    told = refused(tmp_path, wrapped(nsd(position(*TWO, match_attributes=attributes))))
    assert ".match-attributes[0]: has `vlan-id`, which is no match that a chain can have" in told


def test_a_chain_chooses_its_packets_once(tmp_path: Path) -> None:
    attributes = [{"id": "m", "ip-proto": 6}]
    there = [
        {**position(element(name, 0), match_attributes=attributes), "id": name}
        for name in ("fw", "nat")
    ]
    assert "keep those of the first position" in refused(tmp_path, wrapped(nsd(*there)))


# ------------------------------------------------------------------ links


def linked(latencies: list[object], rate: object = None) -> Data:
    """fw and nat on a link each, with a profile for it."""
    service = nsd(
        position(element("fw", 0, **{"cpd-id": "a"}), element("nat", 1, **{"cpd-id": "a"}))
    )
    flavour = service["df"][0]
    links, profiles = [], []
    for name, latency in zip(("fw", "nat"), latencies, strict=True):
        quality = {} if latency is None else {"qos": {"latency": latency}}
        links.append({"id": f"l-{name}", "df": [{"id": "f", **quality}]})
        profiles.append(
            {
                "id": f"p-{name}", "virtual-link-desc-id": f"l-{name}", "flavour-id": "f",
                "max-bitrate-requirements": {"root": rate or 0},
            }
        )  # fmt: skip
    for profile in flavour["vnf-profile"]:
        point = {"constituent-base-element-id": profile["id"], "constituent-cpd-id": "a"}
        profile["virtual-link-connectivity"] = [
            {"virtual-link-profile-id": f"p-{profile['id']}", "constituent-cpd-id": [point]}
        ]
    flavour["virtual-link-profile"] = profiles
    return {**service, "virtual-link-desc": links}


def test_the_goal_is_the_sum_of_the_links(tmp_path: Path) -> None:
    data = read(tmp_path, wrapped(linked([2, "3"], "1500000"))).data
    assert data["chains"]["web"]["slo"] == {"p95_latency": "5ms"}
    assert data["traffic"] == {"rate": "1500kbps"}


def test_the_rate_is_that_of_the_link_that_packets_come_by(tmp_path: Path) -> None:
    """The profile lists another link first."""
    data = linked([2, 3], 1_000_000)
    ends = {"ingress-constituent-cpd-id": "a", "egress-constituent-cpd-id": "b"}
    data["vnffgd"][0]["nfpd"][0]["position-desc-id"] = [position(element("fw", 0, **ends))]
    (flavour,) = data["df"]
    flavour["virtual-link-profile"][1]["max-bitrate-requirements"] = {"root": 9_000_000}
    connected = flavour["vnf-profile"][0]["virtual-link-connectivity"]
    point = {"constituent-base-element-id": "fw", "constituent-cpd-id": "b"}
    connected.insert(0, {"virtual-link-profile-id": "p-nat", "constituent-cpd-id": [point]})
    assert read(tmp_path, wrapped(data)).data["traffic"] == {"rate": "1Mbps"}


@pytest.mark.parametrize(
    ("latencies", "why"),
    [([2, None], "another link of the chain states no latency"), ([0, 0], "0 ms is no goal")],
)
def test_latencies_that_make_no_goal_are_told(
    tmp_path: Path, latencies: list[object], why: str
) -> None:
    found = read(tmp_path, wrapped(linked(latencies)))
    assert "slo" not in found.data["chains"]["web"]
    assert "traffic" not in found.data
    assert why in "\n".join(map(str, found.left))


@pytest.mark.parametrize("latency", ["soon", -1, True, 1.5])
def test_a_latency_that_is_no_number(tmp_path: Path, latency: object) -> None:
    assert "qos.latency: is" in refused(tmp_path, wrapped(linked([latency, 1])))


def test_a_link_that_is_not_there(tmp_path: Path) -> None:
    service = linked([1, 1])
    del service["virtual-link-desc"][1]
    told = refused(tmp_path, wrapped(service))
    assert "there is no virtual-link-desc `l-nat`; choose one of l-fw" in told


# ------------------------------------------------------------------ programs


def test_a_vnf_without_a_program(tmp_path: Path) -> None:
    service = wrapped(nsd(position(*TWO)), vnfd=[{"id": "fw-vnf", "vdu": [vdu()]}])
    told = refused(tmp_path, service, wishes=Wishes())
    assert "vnfd[0]: names no program that UNiS could start; say --program fw=" in told
    assert "is of the VNFD `nat-vnf`, which no file has; name its file too" in told


@pytest.mark.parametrize(
    ("value", "what"), [("", "names no program"), ("'a", "is no command line (No closing")]
)
def test_a_program_that_is_no_command_line(tmp_path: Path, value: str, what: str) -> None:
    service = nsd(position(element("fw", 0)))
    vnfd = {"id": "fw-vnf", "vdu": [vdu(configurable_properties=said(value))]}
    assert what in refused(tmp_path, wrapped(service, vnfd=[vnfd]), wishes=Wishes())


def test_of_several_vdus_the_one_with_a_program(tmp_path: Path) -> None:
    vdus = [vdu(), {**vdu(configurable_properties=said("'my fw' -x 1")), "id": "two"}]
    vnfd = {"id": "fw-vnf", "vdu": vdus}
    found = read(tmp_path, wrapped(nsd(position(element("fw", 0))), vnfd=[vnfd]), wishes=Wishes())
    assert found.data["functions"] == {"fw": {"program": "my fw", "args": ["-x", "1"]}}
    assert "nfv.vnfd[0].vdu[0]: not carried over: a function is one process" in "\n".join(
        map(str, found.left)
    )


@pytest.mark.parametrize("there", [True, False])
def test_an_image_counts_where_it_is_a_layout(tmp_path: Path, *, there: bool) -> None:
    vnfd = {
        "id": "fw-vnf",
        "sw-image-desc": [{"id": "i", "name": "fw", "image": "images/fw"}],
        "vdu": [vdu(sw_image_desc="i")],
    }
    asked: list[tuple[str, str]] = []

    def folder(file: Path, image: str) -> str | None:
        asked.append((file.name, image))
        return f"../{image}" if there else None

    found = read(
        tmp_path,
        wrapped(nsd(position(element("fw", 0))), vnfd=[vnfd]),
        wishes=Wishes(StatedPrograms({"fw": ["firewall"]}, folder=folder)),
    )
    assert asked == [("0.json", "images/fw")]
    container = {"container": {"image": "../images/fw"}} if there else {}
    assert found.data["functions"]["fw"] == {"program": "firewall", **container}
    lines = "\n".join(map(str, found.left))
    assert ("names no folder with an OCI image layout" in lines) is not there


def test_a_container_of_the_standard_is_one_here(tmp_path: Path) -> None:
    vnfd = {
        "id": "fw-vnf",
        "os-container-desc": [{"id": "c", "requested-cpu-resources": 1000}],
        "vdu": [vdu(os_container_desc=["c"])],
    }
    found = read(tmp_path, wrapped(nsd(position(element("fw", 0))), vnfd=[vnfd]))
    assert found.data["functions"]["fw"] == {"program": "firewall", "container": {}}
    assert "os-container-desc[0].requested-cpu-resources: not" in "\n".join(map(str, found.left))


def test_a_program_for_nobody(tmp_path: Path) -> None:
    wishes = Wishes(StatedPrograms({**PROGRAMS.programs, "typo": ["x"]}))
    told = refused(tmp_path, wrapped(nsd(position(*TWO))), wishes=wishes)
    assert "`typo` of --program, --command or --image is neither" in told
    assert "fw, fw-vnf, nat, nat-vnf" in told


def test_a_point_that_the_vnfd_lacks(tmp_path: Path) -> None:
    service = nsd(position(element("fw", 0, **{"ingress-constituent-cpd-id": "in"})))
    vnfd = {"id": "fw-vnf", "ext-cpd": [{"id": "left"}]}
    told = refused(tmp_path, wrapped(service, vnfd=[vnfd]))
    assert "there is no ext-cpd `in` in the VNFD `fw-vnf`; choose one of left" in told


# ------------------------------------------------------------------ files


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ({"tosca_definitions_version": "tosca_simple_yaml_1_2"}, "is TOSCA (SOL001)"),
        ({"nsd:nsd-catalog": {"nsd": []}}, "OSM's own model of before its release 9"),
        ({"apiVersion": "unis/v1"}, "is no descriptor; expected JSON or YAML of SOL006"),
        ({"nfv": {"vnfd": [{"id": "a"}]}}, "no file has an NSD"),
        ({"nsd": [{"name": "x"}]}, "has no `id`; add that of the NSD"),
        ({"nsd": [{"id": "a"}, {"id": "a"}]}, "the NSD `a` is in "),
        ({"nsd": [{"id": "a"}, {"id": "b"}]}, "choose one of a, b by --nsd"),
        ({"nsd": [{"id": "a"}]}, "has no df"),
        ({"nsd": [{"id": "a", "df": [{"id": "x"}, {"id": "y"}]}]}, "x, y by --flavour"),
        ({"nsd": [{"id": "a", "df": [{"id": "x"}]}]}, "has no vnffgd with an nfpd"),
        ({"nsd": [{"id": "a", "df": {"id": "x"}}]}, "nsd[0].df: is not a list"),
        ({"nsd": ["a"]}, "nsd[0]: is not a mapping"),
    ],
)
def test_files_that_hold_no_service(tmp_path: Path, data: Data, what: str) -> None:
    assert what in refused(tmp_path, data)


@pytest.mark.parametrize("text", ["<nfv/>", "- a", "", "5"])
def test_files_of_another_kind(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.xml"
    file.write_text(text)
    with pytest.raises(UnisError, match="expected JSON or YAML of SOL006"):
        imported([read_as_written(file)], Wishes())


def test_a_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    """No variable is filled in, no key left out, JSON may have tabs and halves of characters."""
    file = tmp_path / "x.json"
    file.write_text('{\n\t"x-a": "$HOME ${NO}",\n \t"b": "\\ud83d\\ude00 \\ud83d"\n}\n')
    assert read_as_written(file).data == {"x-a": "$HOME ${NO}", "b": "\U0001f600 \ufffd"}


@pytest.mark.parametrize("text", ["[" * 5000, "a: &a [1]\nb: [" + "*a, " * 20_000 + "]"])
def test_a_file_is_bounded(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(UnisError):
        read_as_written(file)


# ------------------------------------------------------------------ nothing is left out silently


def mappings_of(value: Any, location: Location = ()) -> Iterator[Location]:
    if isinstance(value, dict):
        yield location
    for key, child in (
        value.items() if isinstance(value, dict) else enumerate(value)
        if isinstance(value, list) else ()
    ):  # fmt: skip
        yield from mappings_of(child, (*location, key))


def at(value: Any, location: Location) -> Any:
    for part in location:
        value = value[part]
    return value


@CHECKS
@given(data=st.data())
def test_an_unknown_part_is_told_wherever_it_stands(data: st.DataObject) -> None:
    documents = [read_as_written(file) for file in EDGE]
    which = data.draw(st.integers(0, len(documents) - 1))
    tree = documents[which].data
    places = [place for place in mappings_of(tree) if "match-attributes" not in place]
    where = data.draw(st.sampled_from(places))
    at(tree, where)["vendor:unheard-of"] = data.draw(st.sampled_from(["x", {"y": [1]}, [], 5]))
    found = imported(documents, Wishes(StatedPrograms({"fw": ["firewall"]})))
    added = (*where, "vendor:unheard-of")
    left = [each.problem.location for each in found.left if each.file == EDGE[which]]
    assert any(added[: len(location)] == location for location in left)


@CHECKS
@given(data=st.data())
def test_whatever_is_wrong_is_told_in_a_sentence(data: st.DataObject) -> None:
    """A part is removed, or replaced by something else: a chain, or an error with its file."""
    documents = [read_as_written(file) for file in [*EDGE, EXAMPLES / "link.json"]]
    which = data.draw(st.integers(0, len(documents) - 1))
    tree = documents[which].data
    where = data.draw(st.sampled_from(list(mappings_of(tree))))
    part = at(tree, where)
    key = data.draw(st.sampled_from(list(part)))
    other = st.one_of(
        st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3), st.just([]),
        st.just({}), st.lists(st.text(max_size=2), max_size=3), st.just([{"id": "fw"}] * 2),
    )  # fmt: skip
    part[key] = data.draw(other)
    programs = StatedPrograms({"fw": ["firewall"], "monitor": ["monitor"]})
    nsd_wished = data.draw(st.sampled_from(["edge-ns", "Link"]))
    try:
        told = str(imported(documents, Wishes(programs, nsd=nsd_wished)).data["chains"])
    except UnisError as error:
        told = str(error)
    assert "'path': ['" in told or any(str(document.file) in told for document in documents)
