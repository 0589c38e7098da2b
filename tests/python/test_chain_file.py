"""The chain file: what is valid survives a round trip, what is not is told with its line."""

import copy
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from strategies import Data, chain_files, mappings

from unis.chain.load import load
from unis.chain.machine import Machine
from unis.chain.model import ChainFile
from unis.chain.problem import ChainFileError, dotted

TWO_CPUS = Machine(frozenset({0, 1}))
CHECKS = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])

VALID = """\
apiVersion: unis/v1
name: demo
traffic:
  source: {kind: synthetic, size: 64}
  rate: max
scheduler:
  policy: unis
chains:
  - name: edge
    ring: 2048
    functions:
      - name: a
        program: sh
        cpu: 1
      - name: b
        program: sh
        cpu: 1
      - name: c
        program: sh
        cpu: 1
"""


def dumped(data: Data) -> str:
    stream = io.StringIO()
    YAML().dump(data, stream)
    return stream.getvalue()


def write(directory: Path, text: str) -> Path:
    file = directory / "chain.yaml"
    file.write_text(text)
    (directory / "capture.pcap").write_bytes(bytes.fromhex("d4c3b2a1") + bytes(20))
    return file


def problems(directory: Path, text: str, machine: Machine | None = TWO_CPUS) -> list[str]:
    file = write(directory, text)
    with pytest.raises(ChainFileError) as caught:
        load(file, machine)
    return str(caught.value).replace(str(file), "chain.yaml").splitlines()


@CHECKS
@given(chain_files())
def test_valid_files_load_and_survive_a_round_trip(tmp_path: Path, data: Data) -> None:
    loaded = load(write(tmp_path, dumped(data))).file
    again = loaded.model_dump(by_alias=True, exclude_none=True)
    assert load(write(tmp_path, dumped(again))).file == loaded
    assert ChainFile.model_validate_json(loaded.model_dump_json(by_alias=True)).name == loaded.name


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
    told = problems(tmp_path, text, machine=None)
    assert len(told) == 1
    assert told[0].startswith(
        f"chain.yaml:{line}: {dotted((*path, 'zzz_unknown'))}: is an unknown key;"
    )


WRONG_VALUES: list[tuple[str, Any]] = [
    ("ring", 1000), ("ring", "big"), ("cpu", -1), ("cpu", 1.5), ("cpu", "one"), ("program", ""),
    ("policy", "best"), ("gamma", 0), ("gamma", "a"), ("batch", 0), ("rate", "fast"),
    ("rate", 1000), ("kind", "magic"), ("src_port", 70000), ("cost_ns", 0), ("cost_ns", {}),
    ("yield_every", -1), ("link", "wire"), ("name", "Ü"), ("name", ["a"]), ("functions", []),
    ("functions", 3), ("chains", None), ("occupancy", "maybe"), ("lead_us", -1), ("args", "--a"),
    ("apiVersion", "unis/v9"), ("match", {}), ("flows", 0), ("size", 63), ("after", 7),
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
    told = problems(tmp_path, text, machine=None)
    rows = text.splitlines()
    for row in told:
        _, line, where, sentence = row.split(":", 3)
        assert where.strip().startswith(dotted(path) or key)
        assert f"{key}:" in rows[int(line) - 1]
        assert len(sentence) > 10


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("unis/v1", "unis/v2", "chain.yaml:1: apiVersion: is `unis/v2`; this UNiS reads unis/v1"),
        ("ring: 2048", "ring: 1000", "chain.yaml:10: chains[0].ring: 1000 is no ring size; it is a "
         "power of two from 128 to 1048576, as 512"),
        ("policy: unis", "polcy: unis",
         "chain.yaml:7: scheduler.polcy: is an unknown key; did you mean `policy`?"),
        ("  - name: edge", "  - name: Edge", "chain.yaml:9: chains[0].name: `Edge` cannot be a "
         "name; use up to 24 of a-z, 0-9, - and _, a letter or digit first (`ingress` is taken)"),
        ("name: b", "name: a", "chain.yaml:15: chains[0].functions[1].name: `a` is the name of an "
         "earlier function of this chain; give each its own"),
        ("name: demo", "name: demo\nname: x",
         "chain.yaml:3: name: stands here twice, first in line 2; keep one"),
        ("rate: max", "rate: 10", "chain.yaml:5: traffic.rate: `10` is no rate; write max, or a "
         "number with unit as 2.5Mpps or 1Gbps"),
        ("kind: synthetic, size: 64", "kind: pcap, file: none.pcap",
         "chain.yaml:4: traffic.source.file: cannot read DIR/none.pcap: No such file or directory; "
         "name a pcap or pcapng file"),
        ("kind: synthetic, size: 64", "kind: pcap, file: chain.yaml",
         "chain.yaml:4: traffic.source.file: chain.yaml is neither pcap nor pcapng; name a "
         "capture written by tcpdump or the like"),
        ("policy: unis", "theta_max: 50",
         "chain.yaml:7: scheduler.theta_max: θmax (50) must be above θmin (56), or no function "
         "ever runs"),
    ],
)  # fmt: skip
def test_sentences(tmp_path: Path, old: str, new: str, expected: str) -> None:
    told = problems(tmp_path, VALID.replace(old, new, 1))
    assert [row.replace(str(tmp_path), "DIR") for row in told] == [expected]


@pytest.mark.parametrize(
    ("cpu", "sentence"),
    [
        (2, "CPU 2 does not exist here (0-1); choose from 1, or try the chain with"),
        (0, "CPU 0 is for traffic and the scheduler; choose from 1"),
    ],
)
def test_cpu_that_cannot_be_used(tmp_path: Path, cpu: int, sentence: str) -> None:
    told = problems(tmp_path, VALID.replace("cpu: 1", f"cpu: {cpu}"))
    assert len(told) == 1
    assert told[0].startswith("chain.yaml:14: chains[0].functions[0].cpu: " + sentence)
    load(write(tmp_path, VALID.replace("cpu: 1", f"cpu: {cpu}")))  # the simulator takes any


def test_missing_program(tmp_path: Path) -> None:
    told = problems(tmp_path, VALID.replace("program: sh", "program: no-such", 1))
    assert told[0].startswith(
        "chain.yaml:13: chains[0].functions[0].program: there is no program `no-such` beside"
    )


def test_program_beside_the_chain_file_comes_first(tmp_path: Path) -> None:
    from unis.chain.machine import find_program

    own = tmp_path / "sh"
    own.write_text("#!/bin/true\n")
    own.chmod(0o755)
    assert find_program("sh", tmp_path) == own


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        ({"a": "c"}, "functions[0].after: the order is a cycle: a → b → c → a; let "
         "the first function come after `ingress`"),
        ({"b": "c"}, "functions[1].after: the order is a cycle: b → c → b; let the "
         "first function come after `ingress`"),
        ({"c": "a"}, "functions[2].after: `b` and `c` both come after `a`; a chain is one line "
         "of functions"),
        ({"b": "nobody"}, "functions[1].after: there is no function `nobody` in this chain; "
         "choose one of a, b, c or `ingress`"),
        ({"a": "a"}, "functions[0].after: `a` comes after itself; name the function before "
         "it, or `ingress`"),
    ],
)  # fmt: skip
def test_order_that_is_no_line(tmp_path: Path, after: dict[str, str], sentence: str) -> None:
    text = VALID
    for name, before in after.items():
        text = text.replace(
            f"name: {name}\n        program: sh\n        cpu: 1\n",
            f"name: {name}\n        program: sh\n        cpu: 1\n        after: {before}\n",
        )
    told = problems(tmp_path, text)
    assert len(told) == 1
    where, _, rest = told[0].partition(": ")
    assert rest == f"chains[0].{sentence}"
    assert "after:" in text.splitlines()[int(where.split(":")[1]) - 1]


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    text = VALID.replace("cpu: 1", "cpu: 9\n        after: c", 1).replace("ring: 2048", "ring: 3")
    told = problems(tmp_path, text)
    keys = [row.split(": ")[1] for row in told]
    assert keys == ["chains[0].ring", "chains[0].functions[0].cpu", "chains[0].functions[0].after"]


@pytest.mark.parametrize(
    "text",
    ["", "a: [", "- 1", "a: b: c", "&a [*a]", "\x00", "text", "x: &b {y: *b}", "? [1]\n: 2"],
)
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


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ChainFileError, match=r"nothing\.yaml:1: cannot be read: No such file"):
        load(tmp_path / "nothing.yaml")


def test_too_many_functions(tmp_path: Path) -> None:
    rows = "".join(f"      - {{name: x{i}, program: sh, cpu: 1}}\n" for i in range(29))
    told = problems(tmp_path, VALID + rows)
    assert "32 functions are more than the 31 that DPDK has ports for" in told[0]


def test_a_chain_that_never_gets_a_packet(tmp_path: Path) -> None:
    told = problems(
        tmp_path,
        VALID + "  - name: rest\n    functions: [{name: z, program: sh, cpu: 1}]\n",
    )
    assert told[0].startswith("chain.yaml:21: chains[1]: never gets a packet, for `edge`")
