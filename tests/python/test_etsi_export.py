"""Chain files as descriptors: what is carried comes back the same, and the rest is told."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tests.python.commands import json_of, run
from tests.python.planned import small
from tests.python.strategies import NAMES, Data, scaled
from unis import built
from unis.chain.document import read_as_written
from unis.chain.load import LoadedChain, load
from unis.chain.model import ChainFile
from unis.etsi.exporter import ExportedChain, exported
from unis.etsi.importer import Wishes, imported
from unis.etsi.programs import StatedPrograms
from unis.etsi.tree import DescriptorError

EXAMPLES = built.clone() / "examples"
CHECKS = settings(
    max_examples=scaled(60), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)
NOT_EMPTY = WORDS.filter(bool)


def loaded(tmp_path: Path, data: Data) -> LoadedChain:
    stream = io.StringIO()
    YAML().dump(json.loads(json.dumps(data).replace("$", "$$")), stream)
    file = tmp_path / "chain.yaml"
    file.write_text(stream.getvalue())
    return load(file)


def back(tmp_path: Path, found: ExportedChain) -> ChainFile:
    """What the import makes of descriptors."""
    file = tmp_path / "descriptors.json"
    file.write_text(json.dumps(found.data))
    stated = StatedPrograms(folder=lambda _, image: image)
    return ChainFile.model_validate(imported([read_as_written(file)], Wishes(stated)).data)


@st.composite
def carried(draw: st.DrawFn) -> Data:
    """A chain file with nothing that a descriptor cannot have, but for the CPU of all functions."""
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    functions = {name: draw(_functions()) for name in names}
    chains: dict[str, Any] = {}
    for chain in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        path = draw(st.lists(st.sampled_from(names), min_size=1, max_size=5, unique=True))
        match = draw(st.lists(_matches(), min_size=1, max_size=3))
        chains[chain] = {"path": path, "match": match}
        if draw(st.booleans()):
            chains[chain]["slo"] = {"p95_latency": f"{draw(st.integers(1, 10**6))}ms"}
    last = next(reversed(chains.values()))
    if draw(st.booleans()):
        del last["match"]
    used = {name for chain in chains.values() for name in chain["path"]}
    data: Data = {
        "apiVersion": "unis/v1",
        "name": draw(NAMES),
        "defaults": {"cpu": 1},
        "functions": {name: part for name, part in functions.items() if name in used},
        "chains": chains,
    }
    if len(chains) == 1 and draw(st.booleans()):
        unit = draw(st.sampled_from(["", "k", "M"]))
        data["traffic"] = {"rate": f"{draw(st.integers(1, 999))}{unit}bps"}
    return data


@st.composite
def _functions(draw: st.DrawFn) -> Data:
    if draw(st.booleans()):
        function: Data = {"command": [draw(NOT_EMPTY), *draw(st.lists(WORDS, max_size=3))]}
    else:
        function = {"program": draw(NOT_EMPTY), "args": draw(st.lists(WORDS, max_size=3))}
    if draw(st.booleans()):
        function["container"] = draw(st.one_of(st.just({}), st.builds(dict, image=NOT_EMPTY)))
    return function


def _matches() -> st.SearchStrategy[Data]:
    ports = st.integers(1, 65535)
    prefixes = st.sampled_from(["10.0.0.0/8", "192.0.2.1/32"])
    return st.fixed_dictionaries(
        {"protocol": st.one_of(st.sampled_from(["icmp", "tcp", "udp"]), st.integers(18, 255))},
        optional={"src": prefixes, "dst": prefixes, "src_port": ports, "dst_port": ports},
    )


@CHECKS
@given(data=carried())
def test_what_is_carried_comes_back_the_same(tmp_path: Path, data: Data) -> None:
    chain = loaded(tmp_path, data)
    found = exported(chain)
    assert back(tmp_path, found) == chain.file
    assert list(back(tmp_path, found).functions) == list(chain.file.functions)
    assert [each.problem.location for each in found.left] == [("defaults",)]
    assert len(found.notes) >= len(chain.file.functions)


def left_of(tmp_path: Path, **parts: object) -> list[str]:
    found = exported(loaded(tmp_path, small(**parts)))
    back(tmp_path, found)
    return [str(each).partition(": ")[2] for each in found.left]


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ({"scheduler": {"policy": "rr"}}, "scheduler: not carried over: a descriptor says nothing"),
        ({"platform": {"cpus": [0]}}, "platform: not carried over: names CPUs, devices"),
        ({"traffic": {"rate": "2Mpps"}}, "traffic: not carried over"),
        (
            {"traffic": {"rate": "1Gbps", "source": {"kind": "synthetic"}}},
            "traffic.source: not carried over: a descriptor does not say where packets come from",
        ),
        ({"links": [{"from": "fw", "to": "nat"}]}, "links: not carried over: a descriptor has no"),
        (
            {"chains": {"c": {"path": ["fw", "nat", "monitor"], "slo": {"p95_latency": "100us"}}}},
            "chains.c.slo: not carried over",
        ),
        (
            {"functions": {n: {"program": "x", "cost_ns": 5} for n in ("fw", "nat", "monitor")}},
            "functions.fw.cost_ns: not carried over: a descriptor has no costs of packets",
        ),
    ],
)
def test_what_a_descriptor_cannot_have_is_told(
    tmp_path: Path, parts: dict[str, object], what: str
) -> None:
    assert any(line.startswith(what) for line in left_of(tmp_path, **parts))


def test_the_long_form_of_a_goal_is_the_same_goal(tmp_path: Path) -> None:
    slo = {"on-demand": {"p95_latency": "3ms"}}
    found = exported(
        loaded(tmp_path, small(chains={"c": {"path": ["fw", "nat", "monitor"], "slo": slo}}))
    )
    assert [each.problem.location for each in found.left] == [("defaults",)]
    goals = back(tmp_path, found).chains["c"].slo
    assert goals is not None
    assert goals.p95_ns == 3e6


def test_a_way_back_is_a_path_and_that_is_told(tmp_path: Path) -> None:
    path = ["fw", "nat", "monitor"]
    chains = {"there": {"match": [{"dst_port": 80}], "path": path}, "back": {"reverse_of": "there"}}
    found = exported(loaded(tmp_path, small(chains=chains)))
    assert back(tmp_path, found).chains["back"].path == path[::-1]
    assert any("chains.back.reverse_of: is written as a path" in str(each) for each in found.notes)


@pytest.mark.parametrize(
    ("chain", "what"),
    [
        (
            {"graph": [{"from": "ingress", "to": "fw"}, {"from": "fw", "to": "egress"}]},
            "chains.c.graph: a forwarding path has no branches",
        ),
        ({"path": ["fw"], "match": [{"src_port": 0}]}, "chains.c.match[0].src_port: is 0, which"),
    ],
)
def test_chains_that_no_path_can_be(tmp_path: Path, chain: Data, what: str) -> None:
    data = small(functions={"fw": {"program": "sh"}}, chains={"c": chain})
    with pytest.raises(DescriptorError) as caught:
        exported(loaded(tmp_path, data))
    assert what in str(caught.value)


# ------------------------------------------------------------------ commands


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    files = [
        EXAMPLES / "etsi" / f"{name}.yaml" for name in ("edge_nsd", "firewall_vnfd", "nat_vnfd")
    ]
    chain, descriptors, again = (tmp_path / name for name in ("a.yaml", "d.yaml", "b.yaml"))
    code, said = run("etsi", "import", *files, "-o", chain, "--program", "fw=firewall --cost '$5'")
    assert (code, "chain web: fw → nat" in said) == (0, True)
    assert "vnfd.virtual-storage-desc: not carried over: a function uses this machine" in said
    assert load(chain).file.functions["fw"].args == ["--cost", "$5"]
    code, said = run("etsi", "export", chain, "-o", descriptors)
    assert (code, "unis-program, which only UNiS reads" in said) == (0, True)
    code, said = run("etsi", "import", descriptors, "-o", again)
    assert code == 0
    assert again.read_text() == chain.read_text()


def test_json_has_what_is_not_carried(tmp_path: Path) -> None:
    words = [
        "etsi",
        "export",
        str(EXAMPLES / "demo.yaml"),
        "-o",
        str(tmp_path / "d.json"),
        "--json",
    ]
    told = json.loads(json_of(*words))
    assert {"path": "scheduler", "line": 9} in [
        {key: each[key] for key in ("path", "line")} for each in told["not_carried"]
    ]
    assert "etsi-nfv-descriptors:nfv" in json.loads((tmp_path / "d.json").read_text())
    words = ["etsi", "import", str(tmp_path / "d.json"), "-o", str(tmp_path / "c.yaml"), "--json"]
    told = json.loads(json_of(*words))
    assert told["chains"] == {"edge": ["firewall", "nat", "monitor"]}
    assert all(each["why"].startswith("not carried over: ") for each in told["not_carried"])


def test_an_image_is_relative_to_the_chain_file(tmp_path: Path) -> None:
    """A layout beside the descriptor, and a folder that --image names."""
    nsd, fw, nat = ((EXAMPLES / "etsi" / f"{name}.yaml").read_text()
                    for name in ("edge_nsd", "firewall_vnfd", "nat_vnfd"))  # fmt: skip
    package, other = tmp_path / "package", tmp_path / "rootfs"
    for folder in (package / "debian-12.qcow2", other, tmp_path / "out"):
        folder.mkdir(parents=True)
    (package / "debian-12.qcow2" / "oci-layout").write_text("{}")
    for name, text in (("nsd", nsd), ("fw", fw), ("nat", nat)):
        (package / name).write_text(text)
    out = tmp_path / "out" / "chain.yaml"
    code, said = run(
        "etsi", "import", *(package / name for name in ("nsd", "fw", "nat")), "-o", out,
        "--program", "fw=firewall", "--image", f"nat-vnf={other}",
    )  # fmt: skip
    assert code == 0, said
    images = {name: part.container for name, part in load(out).file.functions.items()}
    assert {name: part and part.image for name, part in images.items()} == {
        "fw": "../package/debian-12.qcow2", "nat": "../rootfs",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--program", "fw"], "write ID='NAME ARGUMENTS'"),
        (["--program", "fw='"], "No closing quotation"),
        (["--program", "fw= "], "write ID='NAME ARGUMENTS'"),
        (["--program", "fw=a", "--command", "fw=b"], "has a --program too"),
        (["--program", "fw=a", "--program", "fw=b"], "`fw` is named twice"),
        (["--image", "fw=/no/such/folder"], "there is no folder"),
        (["--image", "fw=/usr", "--image", "fw=/opt"], "`fw` is named twice"),
        (["--program", "fw=a", "--nsd", "no"], "there is no NSD `no`; choose one of edge-ns"),
        (["--program", "fw=a", "--flavour", "no"], "there is no df `no`; choose one of default-df"),
        ([], "firewall_vnfd.yaml:2: vnfd: names no program"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, words: list[str], what: str) -> None:
    files = [
        EXAMPLES / "etsi" / f"{name}.yaml" for name in ("edge_nsd", "firewall_vnfd", "nat_vnfd")
    ]
    code, said = run("etsi", "import", *files, "-o", tmp_path / "c.yaml", *words)
    assert code == 2
    assert what in " ".join(said.replace("│", " ").split())
    assert not (tmp_path / "c.yaml").exists()


def test_a_chain_file_that_would_not_be_valid_is_not_written(tmp_path: Path) -> None:
    """Two paths without match: the second would never get a packet."""
    text = (EXAMPLES / "etsi" / "edge_nsd.yaml").read_text()
    nsd = tmp_path / "nsd.yaml"
    kept = text[: text.index("                  match-attributes:")]
    nsd.write_text(kept + text[text.index("            - id: rest\n") :])
    vnfds = [EXAMPLES / "etsi" / f"{name}_vnfd.yaml" for name in ("firewall", "nat")]
    out = tmp_path / "c.yaml"
    code, said = run("etsi", "import", nsd, *vnfds, "-o", out, "--program", "fw=firewall")
    assert (code, out.exists()) == (2, False)
    assert "c.yaml would be no chain file: chains.rest: never gets a packet" in said
