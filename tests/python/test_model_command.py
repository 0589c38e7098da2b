"""`unis model`: what it prints and writes, and what it says of files that are wrong."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.python.commands import run
from tests.python.modelled import XEON
from tools.schemas import schema_text
from unis import built
from unis.capacity.files import load_machine
from unis.capacity.here import this_machine
from unis.chain.problem import ChainFileError
from unis.engine import names
from unis.measure import primitives
from unis.measure.primitives import MedianNs, Primitive, Primitives

EDGE = built.clone() / "examples" / "edge.yaml"
TWO = """
apiVersion: unis/v1
name: two
defaults: {cpu: 1}
functions:
  a: {program: a, cost_ns: 100}
  b: {program: b, cost_ns: 300, cpu: 2}
  c: {program: c, cost_ns: 50}
chains:
  one: {path: [a], match: [{dst: 10.0.0.0/8}]}
  other: {path: [b, c]}
"""


def model(*words: str | Path) -> dict[str, Any]:
    code, said = run("model", *words, "--json")
    assert code == 0, said
    return dict(json.loads(said[said.index("{") : said.rindex("}") + 1]))


def by_name(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(row for row in rows if name in (row.get("name"), row.get("question")))


def test_the_example_names_its_bottleneck_and_the_gains() -> None:
    code, said = run("model", EDGE, "--machine", XEON)
    assert code == 0
    assert "the bottleneck is CPU 1" in said
    assert "Over SR-IOV" in said
    for question in (
        "one more core", "PCIe 4", "batch 128", "one function less", "all links of kind memif",
    ):  # fmt: skip
        assert question in said
    assert "is not known, so it is no limit here" in said
    assert "At 50% of the maximum: CPU 1 5" in said


def test_the_example_by_hand() -> None:
    """75 ns are 150 cycles at 2 GHz, and three switches of 1.5 µs in turns of 2048 are 4.4."""
    found = model(EDGE, "--machine", XEON)
    main, hardware = found["arrangements"]
    assert main["total_mpps"] == pytest.approx(2e3 / (150 + 3 * 3000 / 2048), rel=1e-6)
    spent = 150 + 3 * 3000 / 2048 + 3 * 2 * 39.1
    assert hardware["total_mpps"] == pytest.approx(2e3 / spent, rel=1e-6)
    faster = by_name(found["answers"], "CPUs 10 % faster")
    assert faster["gain"] == pytest.approx(0.1)
    assert by_name(found["answers"], "PCIe 4")["gain"] == pytest.approx(0, abs=1e-9)
    core = by_name(found["answers"], "one more core")
    assert core["total_mpps"] == pytest.approx(10e3 / 672, rel=1e-5)
    cpu = by_name(main["resources"], "CPU 1")
    assert cpu["gain_of_one_percent"] == pytest.approx(main["total_mpps"] * 1e4, rel=1e-4)


def test_the_papers_chain_of_four_is_limited_by_pcie(tmp_path: Path) -> None:
    """12.5 Mpps of libmoon forwarders, each with a core of its own; with PCIe 3 it is the CPU."""
    functions = "".join(f"  f{at}: {{program: libmoon, cpu: {at + 1}}}\n" for at in range(4))
    file = tmp_path / "four.yaml"
    file.write_text(
        f"apiVersion: unis/v1\nname: four\nfunctions:\n{functions}"
        "chains: {c: {path: [f0, f1, f2, f3]}}\n"
    )
    found = model(file, "--machine", XEON, "--links", "sriov")
    (main,) = found["arrangements"]
    assert main["total_mpps"] == pytest.approx(12.5, rel=1e-6)
    assert main["bottlenecks"] == ["x520 PCIe to host", "x520 PCIe from host"]
    # More of one way alone gains nothing.
    assert {row["gain_of_one_percent"] for row in main["resources"]} == {0}
    assert main["gain_together"] == pytest.approx(0.125e6, rel=1e-5)
    assert by_name(found["answers"], "PCIe 3")["bottlenecks"] == [
        "x520 port 0 in", "x520 port 1 out",
    ]  # fmt: skip
    half = next(row for row in found["readings"] if "both ways together" in row["question"])
    assert half["total_mpps"] == pytest.approx(6.25, rel=1e-6)


def test_crossings_are_where_the_curves_cross() -> None:
    """Below it software links pass more; from it on the line limits both."""
    found = model(EDGE, "--machine", XEON)
    crossing = next(row for row in found["crossings"] if "as much passes" in row["told"])
    size = crossing["at"]
    at = {
        bytes_: [each["total_mpps"] for each in
                 model(EDGE, "--machine", XEON, "--size", str(bytes_))["arrangements"]]
        for bytes_ in (size - 1, size)
    }  # fmt: skip
    assert at[size - 1][0] > at[size - 1][1] * (1 + 1e-6)
    assert at[size][0] == pytest.approx(at[size][1])


def test_several_chains_share_by_max_min_or_by_the_total(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TWO)
    fair = model(file, "--machine", XEON)["arrangements"][0]["mpps"]
    assert fair["one"] > fair["other"] == pytest.approx(1e3 / 300, rel=1e-3)
    most = model(file, "--machine", XEON, "--total")["arrangements"][0]["mpps"]
    assert sum(most.values()) >= sum(fair.values()) * (1 - 1e-6)
    owned = ["--tenant", "one=t", "--tenant", "other=t"]
    tenants = model(file, "--machine", XEON, *owned)["arrangements"][0]["tenants_mpps"]
    assert tenants == {"t": pytest.approx(sum(fair.values()), rel=1e-3)}
    code, said = run("model", file, "--machine", XEON)
    assert (code, "By chain: one " in said, "smallest" in said) == (0, True, True)


@pytest.mark.parametrize(
    ("asked", "mpps"),
    [
        ("size=1518", 10e3 / (1538 * 8)),
        ("ghz=1", 1e3 / (150 + 3 * 3000 / 2048)),
        ("functions=1", 10e3 / 672),
        ("turn=3000", 2e3 / (150 + 3)),
        ("link=sriov", 2e3 / (150 + 3 * 3000 / 2048 + 3 * 78.2)),
    ],
)
def test_questions_of_the_user(asked: str, mpps: float) -> None:
    found = model(EDGE, "--machine", XEON, "--what-if", asked)
    assert found["answers"][0]["total_mpps"] == pytest.approx(mpps, rel=1e-5)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--what-if", "pcie=9"], "pcie=9: expected a whole number from 1 to 5"),
        (["--what-if", "pcie"], "`pcie`: write KEY=VALUE"),
        (["--what-if", "cpus=0"], "cpus=0: expected a whole number from 1 to 4,096"),
        (["--what-if", "cpus=40"], "the machine has no CPU for 40 CPUs of functions"),
        (["--what-if", "x=1"], "`x` cannot be changed; known: cpus, ghz"),
        (["--what-if", "link=rope"], "no costs of links of kind `rope`; it has ring, memif"),
        (["--links", "rope"], "links of kind `rope`"),
        (["--driver", "e1000"], "there is no driver `e1000`"),
        (["--pcie", "wide"], "invalid PCIe mode `wide`"),
        (["--tenant", "no=me"], "there is no chain `no`: edge"),
        (["--cost", "no=3"], "there is no function `no`"),
        (["--size", "63"], "63"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(words: list[str], told: str) -> None:
    code, said = run("model", EDGE, "--machine", XEON, *words)
    assert code == 2
    assert told in " ".join(said.replace("│", " ").split())


def test_options_change_what_is_reckoned() -> None:
    kernel = model(
        EDGE, "--machine", XEON, "--driver", "ixgbe", "--vf-driver", "ixgbevf", "--links", "sriov",
        "--cost", "firewall=350", "--cost", "nat=350", "--cost", "monitor=350",
    )  # fmt: skip
    (main,) = kernel["arrangements"]
    assert main["total_mpps"] == pytest.approx(2e3 / (3 * 2040.82 + 3 * 3000 / 2048), rel=1e-4)


def test_the_function_whose_absence_gains_most_is_named() -> None:
    costs = ["--cost", "firewall=50", "--cost", "nat=90", "--cost", "monitor=60"]
    found = model(EDGE, "--machine", XEON, *costs)
    fewer = by_name(found["answers"], "one function less (nat)")
    assert fewer["total_mpps"] == pytest.approx(2e3 / (220 + 2 * 3000 / 2048), rel=1e-6)


def test_a_limit_changes_at_the_byte_where_the_line_gets_slower_than_the_cpu() -> None:
    found = model(EDGE, "--machine", XEON)
    cycles = 150 + 3 * 3000 / 2048
    size = next(size for size in range(64, 1519) if 1e10 / ((size + 20) * 8) < 2e9 / cycles)
    assert size % 16 != 0  # between two points of the curve
    told = next(row for row in found["crossings"] if row["told"].startswith("links of the file"))
    assert (told["over"], told["at"]) == ("bytes", size)


def test_each_number_that_it_rests_on_is_told_once_by_its_place_in_the_file() -> None:
    def of(*words: str) -> set[str]:
        where = [each["where"] for each in model(EDGE, "--machine", XEON, *words)["parameters"]]
        assert len(where) == len({*where})
        return {each for each in where if each.startswith(("cpus", "nics", "wake"))}

    once = {
        "cpus.frequency", "nics.x520.line_rate", "nics.x520.gap", "nics.x520.pcie.bandwidth",
        "nics.x520.pcie.descriptor", "wake",
    }  # fmt: skip
    assert of() == once
    assert of("--pcie", "padded") == {*once, "nics.x520.pcie.cache_line"}
    assert {"nics.x520.pcie.header", "nics.x520.pcie.payload"} < of("--pcie", "tlp")


def test_a_cpu_that_the_machine_lacks_is_told(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TWO.replace("cpu: 2", "cpu: 8"))
    code, said = run("model", file, "--machine", XEON)
    assert code == 2
    assert "b is on CPU 8, and xeon-x520 has CPUs 0 to 7" in " ".join(said.split())


def test_another_chain_is_no_advice_and_other_links_have_their_name() -> None:
    code, said = run("model", EDGE, "--links", "veth")
    told = " ".join(said.split())
    assert code == 0
    assert "one function less" in told
    assert "one function less" not in told[: told.index("links of kind veth:")]


def test_profiles_give_costs_to_functions_or_programs(tmp_path: Path) -> None:
    file = tmp_path / "profiles.yaml"
    file.write_text("functions:\n  nat: {solo_mpps: 4}\n  other: {solo_mpps: 1}\n")
    found = model(EDGE, "--machine", XEON, "--profiles", file)
    nat = next(each for each in found["parameters"] if each["where"] == "functions.nat")
    assert (nat["value"], nat["unit"], nat["source"]) == (250, "ns", "measured")
    file.write_text("functions: {nat: 4}\n")
    code, said = run("model", EDGE, "--profiles", file)
    assert (code, "functions.nat: is no profile" in " ".join(said.split())) == (2, True)
    file.write_text("x: 1\n")
    code, said = run("model", EDGE, "--profiles", file)
    assert (code, "has no `functions`" in said) == (2, True)


def test_tenants_of_the_file_share_first(tmp_path: Path) -> None:
    file = tmp_path / "owned.yaml"
    file.write_text(
        "apiVersion: unis/v1\nname: owned\ndefaults: {cpu: 1}\nfunctions:\n"
        "  a: {program: a, cost_ns: 100}\n  b: {program: b, cost_ns: 100}\n"
        "  c: {program: c, cost_ns: 100}\nchains:\n"
        "  a1: {path: [a], tenant: one, match: [{dst: 10.1.0.0/16}]}\n"
        "  a2: {path: [b], tenant: one, match: [{dst: 10.2.0.0/16}]}\n"
        "  b: {path: [c], tenant: two}\n"
    )
    by_file = model(file, "--machine", XEON)["arrangements"][0]
    assert by_file["tenants_mpps"]["one"] == pytest.approx(by_file["tenants_mpps"]["two"], rel=1e-5)
    assert by_file["mpps"]["b"] == pytest.approx(2 * by_file["mpps"]["a1"], rel=1e-5)
    others = ["--tenant", "a2=two", "--tenant", "b=three"]
    assert [*model(file, "--machine", XEON, *others)["arrangements"][0]["tenants_mpps"]] == [
        "one", "two", "three",
    ]  # fmt: skip


def test_links_of_kind_sriov_in_the_file_are_the_nic_s_switch() -> None:
    found = model(EDGE.parent / "sriov.yaml", "--machine", XEON)
    assert [each["name"] for each in found["arrangements"]] == ["SR-IOV"]
    bus = by_name(found["arrangements"][0]["resources"], "x520 PCIe to host")
    assert bus["per_packet"] == {"edge": {"received": 2 * 80 * 8}}
    code, said = run("model", EDGE.parent / "sriov.yaml")
    assert code == 2
    assert "links of kind sriov, and the machine has no NIC" in " ".join(said.split())


def test_the_batch_is_that_of_the_file_s_links(tmp_path: Path) -> None:
    """160 cycles a burst at each of two ports."""
    file = EDGE.parent / "kernel-chain.yaml"
    assert model(file, "--machine", XEON)["setting"]["batch"] == 32
    text = file.read_text().replace("batch: 32", "batch: 16")
    other = tmp_path / "kernel-chain.yaml"
    other.write_text(text)
    assert model(other, "--machine", XEON)["setting"]["batch"] == 16
    assert model(other, "--machine", XEON, "--batch", "8")["setting"]["batch"] == 8
    found = model(EDGE, "--machine", XEON, "--links", "sriov")
    spent = 150 + 3 * 3000 / 2048 + 3 * 78.2
    fewer = by_name(found["answers"], "batch 8")
    assert fewer["total_mpps"] == pytest.approx(2e3 / (spent + 6 * 15), rel=1e-6)


def test_a_machine_that_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "here.yaml"
    file.write_text(this_machine().model_dump_json(by_alias=True, exclude_none=True, indent=2))
    assert load_machine(file) == this_machine()


def test_a_veth_here_costs_what_was_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 and 200 ns a frame, 50 a call, and a tenth of a ns a byte."""

    def row(name: str, ns: float, size: int, batch: int) -> Primitive:
        whole = ns + 50 / batch + size / 10
        median = MedianNs(samples=6, median_ns=whole, low_ns=whole, high_ns=whole)
        return Primitive(
            group="packet", name=name, labels={"frame_bytes": size, "batch": batch},
            provider="x", ns=median,
        )  # fmt: skip

    rows = [
        row(name, ns, size, batch)
        for name, ns in (("recvmmsg", 100), ("sendmmsg", 200))
        for size, batch in ((60, 1), (60, 64), (1514, 64))
    ]
    monkeypatch.setattr(primitives, "kept", lambda: Primitives.of(1, 0, rows))
    veth = this_machine().links["veth"]
    assert veth.per_burst is not None
    assert veth.per_byte is not None
    values = [veth.receive.value, veth.send.value, veth.per_burst.value, veth.per_byte.value]
    assert values == pytest.approx([100, 200, 50, 0.1])
    assert veth.send.source == "measured"
    monkeypatch.setattr(primitives, "kept", lambda: Primitives.of(1, 0, rows[1:]))
    assert this_machine().links["veth"].send.source == "assumed"


def test_without_a_machine_file_it_is_this_machine() -> None:
    found = model(EDGE)
    assert found["machine"] == "here"
    assert [each["name"] for each in found["arrangements"]] == ["links of the file"]
    assert any("no NIC" in remark for remark in found["remarks"])
    # Else a chain over such links would seem to pass what it passes on rings.
    assert {*this_machine().links} == {*names.links()} - {"sriov"}


def test_a_cost_that_nobody_knows_is_assumed_and_told(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "apiVersion: unis/v1\nname: x\ndefaults: {cpu: 1}\n"
        "functions: {strange: {program: /no/strange}}\nchains: {c: {path: [strange]}}\n"
    )
    code, said = run("model", file, "--machine", XEON)
    assert code == 0
    assert "the cost of strange is assumed" in said
    assert "unis estimate" in said


def test_what_is_written_obeys_its_schema_and_the_page_has_all_of_it(tmp_path: Path) -> None:
    code, said = run("model", EDGE, "--machine", XEON, "-o", tmp_path / "out")
    assert code == 0, said
    data = json.loads((tmp_path / "out" / "model.json").read_text())
    jsonschema.Draft202012Validator(json.loads(schema_text("model.schema.json"))).validate(data)
    page = (tmp_path / "out" / "model.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    for each in data["arrangements"]:
        for row in each["resources"]:
            assert row["name"] in page
    for answer in [*data["answers"], *data["readings"]]:
        assert answer["question"] in page
    assert page.count("<polyline") == len(data["curves"]) == 4
    for parameter in data["parameters"]:
        assert f"<td>{parameter['where']}</td>" in page
    for crossing in data["crossings"]:
        assert crossing["told"] in page


def test_every_number_of_the_papers_machine_has_a_source_and_says_where_it_is_from() -> None:
    machine = load_machine(XEON)
    numbers = dict(machine.parameters())
    assert len(numbers) > 40
    assert [name for name, number in numbers.items() if not number.note] == []
    assert {number.source for number in numbers.values()} <= {"published", "derived", "assumed"}
    # Nobody published what receiving, sending or a link costs by itself.
    costs = [name for name in numbers if name.startswith(("drivers.", "links.", "functions."))]
    assert {numbers[name].source for name in costs} == {"assumed"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("unit: CPUs", "unit: cores", "cpus.count: has the unit `cores`; must be CPUs"),
        ("value: 2.0e9", "value: 0", "cpus.frequency: is 0 Hz; must be at least 1"),
        ("value: 2.0e9", "value: -1", "cpus.frequency.value: is `-1`; must be at least 0.0"),
        ("value: 2.0e9", "value: .inf", "cpus.frequency.value: is `inf`; must be a finite number"),
        ("source: published, note: section IV-A}\n\nnics", "note: x}\n\nnics",
         "cpus.frequency.source: is missing; add it"),
        ("{value: 2, unit: generation", "{value: 6, unit: generation",
         "nics.x520.pcie.generation: is generation 6; must be 1, 2, 3, 4, 5"),
        ("driver: net_ixgbe\n", "driver: e1000\n",
         "nics.x520.driver: `e1000` is not in drivers: ixgbe, ixgbevf, net_ixgbe, net_ixgbevf"),
        ("switch: {value: 1500", "swich: {value: 1500",
         "swich: is an unknown key; did you mean `switch`?"),
        ("unis/machine/v1", "unis/v1",
         "apiVersion: is `unis/v1`; this UNiS reads unis/machine/v1: this is a chain file, and a "
         "machine file is expected here"),
    ],
)  # fmt: skip
def test_a_machine_file_that_is_wrong_says_where(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    text = XEON.read_text()
    assert old in text
    file = tmp_path / "wrong.yaml"
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(ChainFileError) as caught:
        load_machine(file)
    (line,) = str(caught.value).splitlines()
    where, _, sentence = line.partition(": ")
    assert sentence == told
    assert where.startswith(f"{file}:")
    code, said = run("model", EDGE, "--machine", file)
    assert (code, told in " ".join(said.split())) == (2, True)


@pytest.mark.parametrize("text", ["", "- 1\n", "word\n"])
def test_what_is_no_machine_file_says_how_one_begins(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(ChainFileError, match="begin it with apiVersion: unis/machine/v1"):
        load_machine(file)


def test_a_machine_file_that_is_not_there_is_told() -> None:
    code, said = run("model", EDGE, "--machine", "/no/machine.yaml")
    assert code == 2
    assert "/no/machine.yaml" in said


def test_other_readings_of_the_bus_add_up_what_goes_both_ways(tmp_path: Path) -> None:
    """A NIC whose TLPs take more to the host than from it: half of each way would not do."""
    file = tmp_path / "tlp.yaml"
    file.write_text(XEON.read_text().replace("value: 32.0e9", "value: 4.0e9"))
    found = model(EDGE, "--machine", file, "--pcie", "tlp")
    ways = [row for row in found["arrangements"][0]["resources"] if "PCIe" in row["name"]]
    bits = [sum(row["per_packet"]["edge"].values()) for row in ways]
    assert len({*bits}) == 2
    shared = next(row for row in found["readings"] if "both ways together" in row["question"])
    assert shared["total_mpps"] == pytest.approx(ways[0]["capacity"] / sum(bits) / 1e6, rel=1e-6)


def test_gains_of_several_chains_say_of_what(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TWO)
    told = run("model", file, "--machine", XEON)[1]
    assert "of the smallest throughput." in told
    assert "of the smallest throughput." not in run("model", file, "--machine", XEON, "--total")[1]


def test_the_headline_tells_how_many_cpus_are_compared() -> None:
    assert "(busy CPUs: 1.0 instead of 1.5)" in run("model", EDGE, "--machine", XEON)[1]
