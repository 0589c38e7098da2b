"""Workload files, and the commands that read them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unis import built
from unis.chain.problem import ChainFileError
from unis.cli.app import app
from unis.slo.model import load
from unis.slo.resq_profiles import PROFILES

EXAMPLES = built.clone() / "examples" / "slo"
RIGHT = """apiVersion: unis/slo/v1
name: w
servers:
  a: {count: 2, cores: 2, ways: 4}
functions:
  nf:
    solo_mpps: 2.0
    percent_by_ways: [50, 100]
    p95_us_by_percent_of_load: {50.0: 10, 100.0: 20}
slos:
  s: {function: nf, throughput: 90 %, p95_latency: 20 us}
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "w.yaml"
    file.write_text(text)
    return file


OTHERS = {"cluster.yaml", "edge.yaml"}  # servers that promises come to; a chain with SLOs


@pytest.mark.parametrize(
    "file",
    sorted(file for file in EXAMPLES.glob("*.yaml") if file.name not in OTHERS),
    ids=lambda file: file.name,
)
def test_every_example_is_read(file: Path) -> None:
    assert load(file).slos


def test_what_stands_in_a_file(tmp_path: Path) -> None:
    workload = load(written(tmp_path, RIGHT))
    (slo,) = workload.slos
    assert slo.mpps == pytest.approx(1.8)
    assert slo.p95_us == 20
    assert slo.profile.share(1) == 0.5
    assert workload.margin == 0.03
    other = RIGHT.replace("90 %", "500 kpps").replace("20 us", "1.5 ms")
    (slo,) = load(written(tmp_path, other)).slos
    assert (slo.mpps, slo.p95_us) == (0.5, 1500)


def test_of_a_file_of_another_kind_only_that_is_told(tmp_path: Path) -> None:
    text = "apiVersion: unis/v1\nname: x\nchains: {c: {path: [a]}}\n"
    with pytest.raises(ChainFileError) as told:
        load(written(tmp_path, text))
    (sentence,) = str(told.value).splitlines()
    assert sentence.endswith("a chain file, and a workload or cluster file is expected here")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "unis/slo/v1",
            "unis/v1",
            "w.yaml:1: apiVersion: is `unis/v1`; this UNiS reads unis/slo",
        ),
        ("cores: 2", "cores: 0", "w.yaml:4: servers.a.cores: is `0`; must be at least 1"),
        ("ways: 4", "wais: 4", "did you mean `ways`?"),
        ("[50, 100]", "[100, 50]", "w.yaml:6: functions.nf: invalid profile: it passes less"),
        ("[50, 100]", "[]", "is empty; add at least one"),
        ("100.0: 20", "100.0: 5", "its latency falls"),
        ("function: nf", "function: nn", "w.yaml:11: slos.s.function: `nn` is not known"),
        ("90 %", "ninety", 'slos.s.throughput: is `ninety`; write "90 %"'),
        ("90 %", "0 %", "slos.s.throughput"),
        ("20 us", "soon", "slos.s.p95_latency: invalid duration `soon`; expected a number"),
        ("name: w", "name: ''", "is empty; fill it in"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ChainFileError) as raised:
        load(written(tmp_path, RIGHT.replace(old, new, 1)))
    assert said in str(raised.value)


MEMORY = """apiVersion: unis/slo/v1
name: w
servers:
  a: {count: 2, sockets: 2, cores: 4, ways: 4, memory_gbps: 20}
memory_percent: 65
functions:
  stats: {cores: 2, gbps_by_ways: [2, 1], percent_by_memory: {33.0: 95, 65.0: 90}}
  mazunat: {gbps_by_ways: [1.5]}
slos:
  s: {function: stats, throughput: 80 %, p95_latency: 100 us}
  m: {function: mazunat, throughput: 60 %, p95_latency: 100 us}
"""


def test_sockets_cores_and_memory_in_a_file(tmp_path: Path) -> None:
    workload = load(written(tmp_path, MEMORY))
    assert workload.memory == 0.65
    (server,) = workload.servers
    assert (server.sockets, server.memory_gbps) == (2, 20)
    stats, mazunat = (slo.profile for slo in workload.slos)
    assert (stats.cores, stats.gbps(1), stats.gbps(7)) == (2, 2, 1)
    assert stats.solo_mpps == PROFILES["stats"].solo_mpps  # what the file does not say is known
    assert stats.share_at(0.65) == pytest.approx(0.9)
    assert mazunat.share_at(0.65) == pytest.approx(0.847)
    unsaid = MEMORY.replace("memory_percent: 65\n", "").replace("65.0: 90", "90.0: 80")
    assert load(written(tmp_path, unsaid)).memory == 0.9
    assert load(written(tmp_path, RIGHT)).memory is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (", memory_gbps: 20", "", "w.yaml:4: servers.a: has no memory_gbps"),
        ("memory_percent: 65", "memory_percent: 95", "w.yaml:5: memory_percent: is `95`; must be"),
        ("sockets: 2", "sockets: 0", "w.yaml:4: servers.a.sockets: is `0`; must be at least 1"),
        ("{gbps_by_ways: [1.5]}", "{}", "w.yaml:11: slos.m.function: `mazunat` has no gbps_by_"),
        (
            ", 65.0: 90",
            "",
            "w.yaml:10: slos.s.function: `stats` has no percent_by_memory beyond",
        ),
        (
            "65.0: 90",
            "65.0: 96",
            "w.yaml:7: functions.stats: invalid profile: where 65% of the",
        ),
        ("[2, 1]", "[2, -1]", "w.yaml:7: functions.stats.gbps_by_ways"),
        ("stats: {cores: 2,", "nf: {cores: 2,", "functions.nf.solo_mpps: is missing; add it"),
        ("cores: 2", "cores: none", "w.yaml:7: functions.stats.cores: is `none`; must be a whole"),
    ],
)
def test_what_is_wrong_about_memory_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(ChainFileError) as raised:
        load(written(tmp_path, MEMORY.replace(old, new, 1)))
    assert said in str(raised.value)


def test_a_plan_with_memory_says_what_it_costs() -> None:
    file = str(EXAMPLES / "memory.yaml")
    code, said = run("plan", file)
    assert code == 0
    assert "9 servers, exact" in said
    assert "no placement needs fewer (proven)" in said
    assert "mazunat 84.7%" in said
    code, said = run("plan", file, "--greedy")
    assert code == 0
    assert "17 servers, first fit" in said
    code, said = run("plan", file, "--shared")
    assert code == 2
    assert "--shared knows ways and cores only" in said


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words])
    return done.exit_code, done.output


def test_a_plan_is_shown_with_its_proof() -> None:
    code, said = run("plan", str(EXAMPLES / "paper-sensitive.yaml"))
    assert code == 0
    assert "35 servers, exact" in said
    assert "no placement needs fewer (proven)" in said
    code, said = run("plan", str(EXAMPLES / "paper-sensitive.yaml"), "--greedy")
    assert code == 0
    assert "45 servers, first fit" in said
    code, said = run("plan", str(EXAMPLES / "shared.yaml"), "--shared")
    assert code == 0
    assert "servers, shared cores" in said


def test_a_plan_for_programs() -> None:
    code, said = run("plan", str(EXAMPLES / "paper-insensitive.yaml"), "--json")
    assert code == 0
    assert len(json.loads(said)["machines"]) == 22


def test_what_cannot_be_kept_is_refused_and_the_rest_is_placed(tmp_path: Path) -> None:
    more = RIGHT + "  fast: {function: nf, throughput: 10 %, p95_latency: 5 us}\n"
    code, said = run("plan", str(written(tmp_path, more)))
    assert code == 1
    assert "refused: fast: no load of nf keeps 95 % of packets within 5 µs" in said
    assert "1 server, exact" in said
    much = RIGHT.replace("90 %", "9 Mpps")
    code, said = run("plan", str(written(tmp_path, much)))
    assert code == 1
    assert "the servers cannot hold these promises" in said
    code, said = run("plan", str(written(tmp_path, more.replace("90 %", "9 Mpps"))))
    assert code == 1
    assert "refused on any number of servers: fast: no load" in said
    alone = RIGHT.replace("p95_latency: 20 us", "p95_latency: 5 us")
    page = tmp_path / "plan.html"
    code, said = run("plan", str(written(tmp_path, alone)), "--report", str(page))
    assert code == 1
    for told in (said, page.read_text()):
        assert "nothing is placed" in told
        assert "proven" not in told


def test_two_ways_at_once_are_refused() -> None:
    code, said = run("plan", str(EXAMPLES / "shared.yaml"), "--shared", "--greedy")
    assert code == 2
    assert "--greedy" in said
