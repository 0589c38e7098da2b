"""The chain file: what is valid survives a round trip, what is not is told with its line."""

import copy
import io
import itertools
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tests.python.planned import path_of
from tests.python.strategies import Data, chain_files, mappings, scaled
from unis.chain.graph import Edge, Graph
from unis.chain.load import load
from unis.chain.model import ChainFile
from unis.chain.problem import ChainFileError, dotted

CHECKS = settings(
    max_examples=scaled(40), suppress_health_check=[HealthCheck.function_scoped_fixture]
)

VALID = """\
apiVersion: unis/v1
name: demo
traffic:
  source: {kind: synthetic, size: 64}
  rate: max
scheduler:
  policy: unis
defaults: {cpu: 1}
functions:
  a:
    program: sh
  b:
    program: sh
    cost_ns: 50
  c:
    program: sh
chains:
  edge:
    ring: 2048
    path: [a, b, c]
links:
  - {from: a, to: b, slots: 512}
"""


def dumped(data: Data) -> str:
    stream = io.StringIO()
    YAML().dump(data, stream)
    return stream.getvalue()


def write(directory: Path, text: str) -> Path:
    file = directory / "chain.yaml"
    file.write_text(text)
    return file


def problems(directory: Path, text: str) -> list[str]:
    file = write(directory, text)
    with pytest.raises(ChainFileError) as caught:
        load(file)
    return str(caught.value).replace(str(file), "chain.yaml").splitlines()


@CHECKS
@given(chain_files())
def test_valid_files_load_and_survive_a_round_trip(tmp_path: Path, data: Data) -> None:
    loaded = load(write(tmp_path, dumped(data))).file
    again = loaded.model_dump(by_alias=True, exclude_none=True)
    assert load(write(tmp_path, dumped(again))).file == loaded
    assert ChainFile.model_validate_json(loaded.model_dump_json(by_alias=True)).name == loaded.name


def test_a_file_that_names_the_controller_of_before_loads(tmp_path: Path) -> None:
    text = (
        "apiVersion: unis/v1\nname: x\nscheduler: {controller: CONTROLLER}\n"
        "functions: {a: {program: macswap, cpu: 1}}\nchains: {one: {path: [a]}}\n"
    )
    loaded = [
        load(write(tmp_path, text.replace("CONTROLLER", name))).file
        for name in ("cgroup", "signal")
    ]
    assert loaded[0] == loaded[1]


@CHECKS
@given(chain_files(), st.data())
def test_an_unknown_key_anywhere_is_told_with_its_line(
    tmp_path: Path, data: Data, draw: st.DataObject
) -> None:
    places = mappings(data)
    path, mapping = places[draw.draw(st.integers(0, len(places) - 1))]
    mapping["zzz_unknown"] = 1
    text = dumped(data)
    line = 1 + next(index for index, row in enumerate(text.splitlines()) if "zzz_unknown" in row)
    told = problems(tmp_path, text)
    assert len(told) == 1
    assert told[0].startswith(
        f"chain.yaml:{line}: {dotted((*path, 'zzz_unknown'))}: is an unknown key;"
    )


WRONG_VALUES: list[tuple[str, Any]] = [
    ("ring", 1000), ("ring", "big"), ("cpu", -1), ("cpu", 1.5), ("cpu", "one"), ("program", ""),
    ("policy", "best"), ("gamma", 0), ("gamma", 1.5), ("gamma", "a"), ("rate", "fast"),
    ("rate", 1000), ("kind", "magic"), ("src_port", 70000), ("cost_ns", 0), ("cost_ns", {}),
    ("yield_every", -1), ("name", "Ü"), ("name", ["a"]), ("functions", {}), ("functions", 3),
    ("chains", None), ("occupancy", "maybe"), ("lead_us", -1), ("lead_us", 1e9), ("args", "--a"),
    ("apiVersion", "unis/v9"), ("match", {}), ("flows", 0), ("size", 63), ("path", []),
    ("path", ["no-such"]), ("reverse_of", "no-such"), ("slots", 100), ("from", "no-such"),
    ("restart", "always"), ("env", {"1A": "x"}), ("defaults", []), ("links", {}),
    ("fair_slice_ms", 0.05), ("fair_slice_ms", 101), ("queues", 0), ("queues", True),
    ("queues", 17), ("queues", [1, 2]),
]  # fmt: skip


@CHECKS
@given(chain_files(), st.sampled_from(WRONG_VALUES), st.data())
def test_a_wrong_value_is_told_with_its_line(
    tmp_path: Path, data: Data, wrong: tuple[str, Any], draw: st.DataObject
) -> None:
    key, value = wrong
    places = [(path, mapping) for path, mapping in mappings(data) if key in mapping]
    assume(places)
    path, mapping = draw.draw(st.sampled_from(places))
    mapping[key] = copy.deepcopy(value)
    text = dumped(data)
    told = problems(tmp_path, text)
    rows = text.splitlines()
    for row in told:
        _, line, where, sentence = row.split(":", 3)
        assert where.strip().startswith(dotted(path) or key)
        there = rows[int(line) - 1]
        # An item of a list, and a key of a mapping, have lines of their own.
        assert f"{key}:" in there or there.strip() in ("- no-such", "1A: x")
        assert len(sentence) > 10


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("unis/v1", "unis/v2", "1: apiVersion: is `unis/v2`; this UNiS reads unis/v1"),
        ("apiVersion: unis/v1\n", "", "1: apiVersion: is missing; add `apiVersion: unis/v1`"),
        ("ring: 2048", "ring: 1000", "19: chains.edge.ring: 1000 slots: it is a power of two from "
         "64 to 1048576, as 512"),
        ("policy: unis", "polcy: unis",
         "7: scheduler.polcy: is an unknown key; did you mean `policy`?"),
        ("    cost_ns: 50", "    cost_nss: 50",
         "14: functions.b.cost_nss: is an unknown key; did you mean `cost_ns`?"),
        ("  edge:", "  Edge:", "18: chains.Edge: `Edge` cannot be a name; use up to 21 of a-z, "
         "0-9, - and _, a letter or digit first"),
        ("  edge:", "  ingress:", "18: chains.ingress: `ingress` cannot stand here; an edge or "
         "link may come from `ingress` and lead to `egress`, and nothing else is called so"),
        ("name: demo", "name: demo\nname: x",
         "3: name: stands here twice, first in line 2; keep one"),
        ("rate: max", "rate: 10", "5: traffic.rate: invalid rate `10`; expected max, or a number "
         "and a unit, such as 2.5Mpps"),
        ("rate: max", "rate: 9000Tpps", "5: traffic.rate: invalid rate `9000Tpps`; expected max, "
         "or a number and a unit, such as 2.5Mpps"),
        ("rate: max", "rate: 9000Gpps",
         "5: traffic.rate: `9000Gpps` is more than 1e+12pps; write max for as fast as it goes"),
        ("kind: synthetic, size: 64}\n  rate: max", "kind: port, device: net_tap0}\n  rate: 1Mpps",
         "5: traffic.rate: packets of a port, interface or wire come when they come; leave the "
         "rate out, or make packets with kind: synthetic"),
        ("rate: max", "rate: 1kpps\n  arrivals: bursty",
         "6: traffic.arrivals: invalid kind of arrivals `bursty`; expected one of constant, "
         "poisson"),
        ("rate: max", "arrivals: poisson", "5: traffic.arrivals: at rate max packets are sent "
         "whenever there is room; give a rate, as 2.5Mpps"),
        ("kind: synthetic, size: 64}\n  rate: max",
         "kind: port, device: net_tap0}\n  arrivals: poisson",
         "5: traffic.arrivals: packets of a port, interface or wire come when they come; leave the "
         "arrivals out, or make packets with kind: synthetic"),
        ("    cost_ns: 50", "    queues: two", "14: functions.b.queues: invalid number of "
         "queues `two`; expected 1 to 16, or {rx: 1, tx: 2} where the program receives by another "
         "number than it sends by"),
        ("    cost_ns: 50", "    queues: {tx: 17}",
         "14: functions.b.queues.tx: is `17`; must be at most 16"),
        ("    cost_ns: 50", "    queues: {txx: 2}",
         "14: functions.b.queues.txx: is an unknown key; did you mean `tx`?"),
        ("    cost_ns: 50", "    kernel: {policy: rr, nice: 3}", "14: functions.b.kernel.nice: is "
         "for other and batch; write priority for this one"),
        ("    cost_ns: 50", "    kernel: {policy: idle, slice_ms: 3}",
         "14: functions.b.kernel.slice_ms: is for other and batch"),
        ("    cost_ns: 50", "    kernel: {policy: batch, priority: 3}",
         "14: functions.b.kernel.priority: is for rr and fifo; write nice for the others"),
        ("    cost_ns: 50", "    kernel: {priority: 50}",
         "14: functions.b.kernel.priority: is `50`; must be at most 49"),
        ("policy: unis", "theta_max: 50", "7: scheduler.theta_max: θmax (50) must be above θmin "
         "(56), or no function ever runs"),
        ("policy: unis", "gamma: 1.5", "7: scheduler.gamma: invalid share of the egress `1.5`; "
         "expected auto, or above 0, up to 1"),
        ("defaults: {cpu: 1}", "defaults: {cpu: 1, restart: always}",
         "8: defaults.restart: is `always`; must be 'never' or 'on-failure'"),
        ("[a, b, c]", "[a, b, d, c]", "20: chains.edge.path[2]: there is no function `d`; choose "
         "one of a, b, c, or add it to functions"),
        ("[a, b, c]", "[a, b, x-ray, c]", "20: chains.edge.path[2]: `x-ray` is left out, as keys "
         "x-… are; give it another name"),
        ("[a, b, c]", "[a, b, c, a]", "20: chains.edge.path[3]: `a` stands twice in this path; a "
         "chain passes a function once"),
        ("[a, b, c]", "[a, b]",
         "15: functions.c: is in the path of no chain; add it to one, or take it out"),
        ("    path: [a, b, c]", "    match: []", "18: chains.edge: must have one of path: "
         "[FUNCTION, …], graph: [EDGE, …] and reverse_of: CHAIN, and has none"),
        ("from: a, to: b", "from: a, to: c", "22: links[0]: no chain goes from `a` to `c`; name "
         "two that follow one another in a path"),
        ("from: a, to: b", "from: a, to: x", "22: links[0].to: there is no function `x`; choose "
         "one of a, b, c, or `egress`"),
        ("ring: 2048", "slo: {p95_latency: 1ms, on-demand: {p95_latency: 1ms}}",
         "19: chains.edge.slo: has one of p95_latency, on-demand and reserved"),
        ("ring: 2048", "slo: {}",
         "19: chains.edge.slo: has one of p95_latency, on-demand and reserved"),
        ("ring: 2048",
         "slo: {reserved: {throughput: 2Mpps, p95_latency: 1ms, maximum_rate: 1Mpps}}",
         "19: chains.edge.slo.reserved.maximum_rate: is below the throughput that is promised"),
        ("ring: 2048", "slo: {reserved: {throughput: 1Gbps, p95_latency: 1ms}}",
         "19: chains.edge.slo.reserved.throughput: invalid packet rate `1Gbps`; expected a "
         "number and a unit, such as 2.5Mpps"),
        ("from: a", "form: a", "22: links[0].form: is an unknown key; did you mean `from`?"),
        ("links:", "platform: {cpus: [0, 1]}\nlinks:", "21: platform.cpus[1]: CPU 1 is that of a, "
         "b, c; traffic and scheduler need another"),
    ],
)  # fmt: skip
def test_sentences(tmp_path: Path, old: str, new: str, expected: str) -> None:
    told = problems(tmp_path, VALID.replace(old, new, 1))
    assert f"chain.yaml:{expected}" in told
    assert len(told) == (2 if "form: a" in new else 1)


def test_a_function_without_a_cpu(tmp_path: Path) -> None:
    told = problems(tmp_path, VALID.replace("defaults: {cpu: 1}\n", ""))
    assert told == [
        f"chain.yaml:{line}: functions.{name}.cpu: is missing; add it, or a cpu under defaults for "
        "all"
        for line, name in ((9, "a"), (11, "b"), (14, "c"))
    ]


def test_defaults_are_filled_in(tmp_path: Path) -> None:
    text = VALID.replace("{cpu: 1}", "{cpu: 3, user: me, env: {A: 1, B: 2}, yield_every: 8}")
    text = text.replace("cost_ns: 50", "env: {B: 3}\n    yield_every: 0\n    cpu: 4")
    file = load(write(tmp_path, text)).file
    a, b = file.function("a"), file.function("b")
    assert (a.cpu, a.user, a.env, a.yield_every) == (3, "me", {"A": "1", "B": "2"}, 8)
    assert (b.cpu, b.user, b.env, b.yield_every) == (4, "me", {"A": "1", "B": "3"}, 0)
    assert a.restart == "never"
    assert file.cpus == {3, 4}


@pytest.mark.parametrize(
    ("slo", "p95_ns", "most_pps"),
    [
        ("{p95_latency: 1.5ms}", 1.5e6, None),
        ("{on-demand: {p95_latency: 80us}}", 8e4, None),
        ("{reserved: {throughput: 2.5 Mpps, p95_latency: 100 us}}", 1e5, 2.5e6),
        ("{reserved: {throughput: 2Mpps, p95_latency: 100us, maximum_rate: 3Mpps}}", 1e5, 3e6),
    ],
)
def test_service_level_objectives(
    tmp_path: Path, slo: str, p95_ns: float, most_pps: float | None
) -> None:
    goals = (
        load(write(tmp_path, VALID.replace("ring: 2048", f"slo: {slo}"))).file.chains["edge"].slo
    )
    assert goals
    assert goals.p95_ns == p95_ns
    found: Any = goals.model_dump(by_alias=True)
    for key in goals.key:
        found = found[key]
    assert found == goals.latency
    assert (goals.reserved.most_pps if goals.reserved else None) == most_pps


BACK = "  back:\n    reverse_of: "


@pytest.mark.parametrize(
    ("chains", "sentence"),
    [
        (f"{BACK}none\n", "there is no other chain `none`; choose one of edge"),
        (f"{BACK}back\n", "there is no other chain `back`; choose one of edge"),
        (f"{BACK}edge\n    path: [a]\n", "must have one of path: [FUNCTION, …]"),
        (f"{BACK}edge\n  two:\n    reverse_of: edge\n", "`back` is the way back of `edge` already"),
        (f"{BACK}edge\n  two:\n    reverse_of: back\n", "`back` has no path of its own"),
    ],
)
def test_ways_back_that_cannot_be(tmp_path: Path, chains: str, sentence: str) -> None:
    text = VALID.replace("links:", chains + "links:")
    text = text.replace("ring: 2048", "match: [{dst_port: 1}]")
    assert sum(sentence in row for row in problems(tmp_path, text)) == 1


def test_a_way_back(tmp_path: Path) -> None:
    text = VALID.replace("links:", f"{BACK}edge\nlinks:")
    text = text.replace("ring: 2048", "match: [{dst_port: 1}]")
    file = load(write(tmp_path, text)).file
    assert path_of(file, "back") == ["c", "b", "a"]
    assert Graph.of(file).chains["back"].edges[0] == Edge("ingress", "c")


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    text = VALID.replace("ring: 2048", "ring: 3").replace("[a, b, c]", "[a, b, c, d]")
    text = text.replace("cost_ns: 50", "cost_ns: ${NO_SUCH_VARIABLE}").replace("max", "fast")
    keys = [row.split(": ")[1] for row in problems(tmp_path, text)]
    assert keys == [
        "traffic.rate",
        "functions.b.cost_ns",
        "chains.edge.ring",
        "chains.edge.path[3]",
    ]


OLD = """\
apiVersion: unis/v1
name: demo
chains:
  - name: edge
    functions:
      - {name: fw, program: firewall, cpu: 1}
      - {name: nat, program: nat, cpu: 1}
"""


def test_an_old_file_is_told_what_to_write_now(tmp_path: Path) -> None:
    told = problems(tmp_path, OLD)
    assert len(told) == 1
    assert told[0].startswith("chain.yaml:3: chains: is in the old format, a list;")
    assert "write chains: {edge: {path: [fw, nat]}} and functions: {fw: {program: …}, …}" in told[0]


# ------------------------------------------------------------------ YAML


def test_variables(tmp_path: Path) -> None:
    text = VALID.replace("cpu: 1", 'cpu: "${CPU}"').replace("size: 64", "size: '${SIZE:-imix}'")
    text = text.replace("cost_ns: 50", 'args: ["${CPU}", "$$x", "${EMPTY:-7}", "${EMPTY-7}"]')
    variables = {"CPU": "3", "EMPTY": ""}
    chain = load(write(tmp_path, text), variables={**variables, "OTHER": "4"})
    assert chain.variables == variables
    loaded = chain.file
    assert loaded.function("a").cpu == 3  # a number, as if it stood there
    assert loaded.functions["b"].args == ["3", "$x", "7", ""]
    source = loaded.traffic.source
    assert source.kind == "synthetic"
    assert source.size == "imix"


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("${NO_SUCH}", "the variable NO_SUCH is not set; set it, or write ${NO_SUCH:-default}"),
        ("$HOME", "`$HOME` has a $ that begins no ${NAME}; write $$ for a dollar"),
    ],
)
def test_variables_that_are_missing(tmp_path: Path, value: str, sentence: str) -> None:
    told = problems(tmp_path, VALID.replace("cost_ns: 50", f"user: {value}"))
    assert told == [f"chain.yaml:14: functions.b.user: {sentence}"]


def test_keys_with_x_and_merged_mappings(tmp_path: Path) -> None:
    text = VALID.replace("name: demo", "name: demo\nx-mine: &mine {program: sh, cost_ns: 7}")
    text = text.replace(
        "    program: sh\n    cost_ns: 50", "    <<: *mine\n    cost_ns: 8\n    x-y: 1"
    )
    function = load(write(tmp_path, text)).file.functions["b"]
    assert (function.program, function.cost_ns) == ("sh", 8)


def bomb(item: str) -> str:
    """Nine aliases of nine aliases of …; 9⁹ values when written out."""
    rows = [f"a: &a {item.replace('X', 'x')}"]
    for name, before in itertools.pairwise("abcdefghi"):
        rows.append(f"{before}: &{before} " + item.replace("X", ", ".join([f"*{name}"] * 9)))
    return "\n".join(rows)


@pytest.mark.parametrize("text", [bomb("[X]"), bomb("{<<: [X]}").replace("[x]", "{}")])
def test_aliases_of_aliases_end(tmp_path: Path, text: str) -> None:
    told = problems(tmp_path, text)
    assert "has more than 20000 values once its aliases are written out" in told[0]


@pytest.mark.parametrize(
    "text",
    ["", "a: [", "- 1", "a: b: c", "&a [*a]", "\x00", "text", "x: &b {y: *b}", "? [1]\n: 2",
     "a: &a {<<: *a}", "a: {<<: 3}", "chains: [1]", "[" * 5000, "a: " + "x" * (1 << 21)],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_what_is_no_chain_file(tmp_path: Path, text: str) -> None:
    told = problems(tmp_path, text)
    assert all(row.startswith("chain.yaml:") for row in told)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "any.yaml"
    file.write_text(text, encoding="utf-8", errors="ignore")
    with pytest.raises(ChainFileError):
        load(file)


def test_relative_paths_begin_where_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(VALID.replace("\n", "\ndirectory: /etc/office\n", 1))
    assert load(file).directory == Path("/etc/office")
    file.write_text(VALID)
    assert load(file).directory == tmp_path
    file.write_text(VALID.replace("\n", "\ndirectory: office\n", 1))
    with pytest.raises(ChainFileError, match=r"a.yaml:2: directory: `office` is not absolute"):
        load(file)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ChainFileError, match=r"nothing\.yaml: cannot be read: No such file"):
        load(tmp_path / "nothing.yaml")


def test_too_many_functions(tmp_path: Path) -> None:
    rows = "".join(f"  x{i}: {{program: sh}}\n" for i in range(29))
    told = problems(tmp_path, VALID.replace("chains:", rows + "chains:"))
    assert "chain.yaml:9: functions: has 32 parts; 31 at most" in told


def test_a_chain_that_never_gets_a_packet(tmp_path: Path) -> None:
    told = problems(tmp_path, VALID.replace("links:", "  rest: {path: [c]}\nlinks:"))
    assert told[0].startswith("chain.yaml:21: chains.rest: never gets a packet, because `edge`")


def test_a_file_of_very_many_values_is_given_up_while_it_is_read(tmp_path: Path) -> None:
    assert problems(tmp_path, "- a\n" * 30_000) == [
        "chain.yaml:20000: has more than 20000 values; use fewer"
    ]


def test_an_anchor_that_stands_twice_warns_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(write(tmp_path, VALID + "x-one: &a 1\nx-two: &a 2\n"))


@pytest.mark.parametrize("wrong", ["[1]", "{a: 1}", "[{protocol: udp}]"])
def test_a_list_or_mapping_is_no_size_and_no_protocol(tmp_path: Path, wrong: str) -> None:
    path = write(tmp_path, VALID.replace("size: 64", f"size: {wrong}"))
    with pytest.raises(ChainFileError, match="invalid packet size"):
        load(path)
    text = VALID.replace("ring: 2048", f"match: [{{protocol: {wrong}}}]")
    with pytest.raises(ChainFileError, match="protocol"):
        load(write(tmp_path, text))


@pytest.mark.parametrize("version", ["1.3", "1.9", "9.9", "2.0"])
def test_other_versions_of_yaml_are_refused_with_a_sentence(tmp_path: Path, version: str) -> None:
    file = tmp_path / "chain.yaml"
    file.write_text(f"%YAML {version}\n---\napiVersion: unis/v1\n")
    with pytest.raises(ChainFileError, match="is not YAML"):
        load(file)
