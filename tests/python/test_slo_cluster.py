"""Promises asked of a cluster: its book, requests from files, and the commands."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from unis import built
from unis.chain.problem import ChainFileError
from unis.cli.app import app
from unis.slo.book import Book, booked, opened
from unis.slo.cluster import Cluster, LatencyRequest, OnDemandPromise, cluster_of, requests
from unis.slo.model import load_cluster
from unis.slo.placement import Refusal
from unis.slo.profile import Slo
from unis.slo.resq_profiles import PROFILES

EXAMPLES = built.clone() / "examples" / "slo"
CLUSTER = """\
apiVersion: unis/slo/v1
name: c
servers:
  a: {count: 2, cores: 4, ways: 6, on-demand: {cores: 1, ways: 1}}
functions:
  nf:
    solo_mpps: 2.0
    percent_by_ways: [60, 80, 100]
    p95_us_by_percent_of_load: {50.0: 10, 100.0: 20}
"""
ASKED = """\
apiVersion: unis/slo/v1
name: asked
servers: {a: {count: 1, cores: 1, ways: 1}}
slos:
  s: {function: firewall, throughput: 80 %, p95_latency: 100 us, count: 2}
"""


def written(tmp_path: Path, name: str, text: str) -> Path:
    file = tmp_path / name
    file.write_text(text)
    return file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def a_cluster(tmp_path: Path) -> Cluster:
    return cluster_of(load_cluster(written(tmp_path, "c.yaml", CLUSTER)))


def without(tmp_path: Path, cluster: Cluster, name: str) -> Cluster:
    """Released, as by the command."""
    book = booked(cluster)
    assert name in book.names
    again = a_cluster(tmp_path)
    opened(book.without([name]), again)
    return again


# ---------------------------------------------------------------------- requests


def test_a_chain_asks_for_what_its_slos_say() -> None:
    profiles = load_cluster(EXAMPLES / "cluster.yaml").profiles
    reserved, on_demand = requests(EXAMPLES / "edge.yaml", profiles)
    assert isinstance(reserved, Slo)
    # The most that may come is what is set aside for.
    assert (reserved.name, reserved.profile.name, reserved.mpps) == ("office.edge", "edge", 1.8)
    assert reserved.p95_us == pytest.approx(100)
    assert on_demand == LatencyRequest("office.watched", "monitor", 1000.0)


def test_a_profile_that_is_not_there_is_told_with_its_line() -> None:
    with pytest.raises(ChainFileError, match=r"edge.yaml:16: .*no profile `edge`"):
        requests(EXAMPLES / "edge.yaml", PROFILES)


def test_promises_of_a_workload_file_are_asked_for_one_by_one(tmp_path: Path) -> None:
    names = [one.name for one in requests(written(tmp_path, "w.yaml", ASKED), PROFILES)]
    assert names == ["s-0", "s-1"]


def test_a_chain_without_slos_asks_for_nothing() -> None:
    with pytest.raises(ChainFileError, match="nothing is asked for"):
        requests(built.clone() / "examples" / "demo.yaml", PROFILES)


# ---------------------------------------------------------------------- the cluster


def test_what_is_leased_on_demand_is_not_reserved(tmp_path: Path) -> None:
    cluster = a_cluster(tmp_path)
    given = [cluster.reserve(Slo(f"s{at}", PROFILES["firewall"], 0.3, 100.0)) for at in range(7)]
    # Two servers of four cores, of which one is leased.
    assert [isinstance(of, Refusal) for of in given] == [False] * 6 + [True]
    on_demand = [cluster.demand(f"d{at}", "anything", 50.0) for at in range(3)]
    assert [of.number for of in on_demand if isinstance(of, OnDemandPromise)] == [0, 1]
    assert isinstance(on_demand[2], Refusal)
    again = without(tmp_path, cluster, "d0").demand("d3", "anything", 50.0)
    assert isinstance(again, OnDemandPromise)
    assert again.number == 0


def test_another_instance_is_on_another_server(tmp_path: Path) -> None:
    cluster = a_cluster(tmp_path)
    cluster.demand("d", "nf", 50.0)
    second = cluster.another("d")
    assert second == OnDemandPromise("d..2", "nf", 50.0, "a", 1)
    full = cluster.another("d..2")  # as an agent calls it
    assert isinstance(full, Refusal)
    assert "no server without an instance" in full.why
    assert isinstance(cluster.another("none"), Refusal)
    assert [*without(tmp_path, cluster, "d..2").on_demand] == ["d"]


def test_a_name_stands_for_one_promise(tmp_path: Path) -> None:
    cluster = a_cluster(tmp_path)
    cluster.reserve(Slo("s", PROFILES["firewall"], 0.3, 100.0))
    assert isinstance(cluster.demand("s", "nf", 50.0), Refusal)
    cluster.demand("d", "nf", 50.0)
    assert isinstance(cluster.reserve(Slo("d", PROFILES["firewall"], 0.3, 100.0)), Refusal)


def test_a_latency_that_no_load_keeps_is_refused_on_demand_too(tmp_path: Path) -> None:
    refused = a_cluster(tmp_path).demand("d", "nf", 5.0)
    assert isinstance(refused, Refusal)
    assert "10 µs, which is the nearest" in refused.why


def test_a_book_holds_all_of_it(tmp_path: Path) -> None:
    cluster = a_cluster(tmp_path)
    for at in range(5):
        cluster.reserve(Slo(f"s{at}", cluster.profiles["nf"], 1.5, 20.0))
        cluster.demand(f"d{at}", "nf", 50.0)
        if cluster.online.due:
            cluster.online.learn()
    book = booked(cluster)
    again = a_cluster(tmp_path)
    opened(Book.model_validate_json(book.model_dump_json()), again)
    assert booked(again) == book
    assert again.online.learned == cluster.online.learned
    assert book.learned.of_ways


# ---------------------------------------------------------------------- commands


def test_promises_come_stay_and_go(tmp_path: Path) -> None:
    cluster = written(tmp_path, "c.yaml", CLUSTER)
    asked = written(tmp_path, "w.yaml", ASKED)
    dry = run("admit", cluster, asked, "--dry-run")
    assert (dry.exit_code, [*tmp_path.glob("*.json")]) == (0, [])
    first = run("admit", cluster, asked, "--json")
    assert first.exit_code == 0
    answers = json.loads(first.stdout)
    assert [of["admitted"] for of in answers] == [True, True]
    assert [of["promise"] for of in answers] == ["s-0", "s-1"]
    assert answers[0]["where"][0]["server"] == "a"
    again = run("admit", cluster, asked)
    assert again.exit_code == 1
    assert "promised already" in again.output
    assert "s-1" in run("cluster", "show", cluster).stdout
    shown = json.loads(run("cluster", "show", cluster, "--json").stdout)
    assert [(of["promise"], of["where"]) for of in shown["reserved"]] == [
        (of["promise"], of["where"]) for of in answers
    ]
    servers = {(at["server"], at["number"]) for of in answers for at in of["where"]}
    assert (shown["servers"], shown["not_kept"]) == (len(servers), [])
    # All or none of what is named.
    assert run("cluster", "release", cluster, "s-0", "none").exit_code == 2
    assert "2 reserved promises" in run("cluster", "show", cluster).stdout
    assert run("cluster", "release", cluster, "s-0").exit_code == 0
    assert "1 reserved promises" in run("cluster", "show", cluster).stdout


def test_answers_for_programs_say_which_they_are(tmp_path: Path) -> None:
    cluster = written(tmp_path, "c.yaml", CLUSTER)
    asked = written(tmp_path, "w.yaml", ASKED.replace("count: 2", "count: 9"))
    said = run("admit", cluster, asked, "--json")
    assert said.exit_code == 1
    answers = json.loads(said.stdout)
    refused = [of for of in answers if not of["admitted"]]
    assert {of["kind"] for of in answers if of["admitted"]} == {"reserved"}
    assert refused
    assert all(of["tried"] and "kind" not in of and of["why"] for of in refused)


def test_twenty_promises_are_shown_and_all_if_asked(tmp_path: Path) -> None:
    cluster = written(tmp_path, "c.yaml", CLUSTER.replace("{count: 2", "{count: 30"))
    asked = written(tmp_path, "w.yaml", ASKED.replace("count: 2", "count: 22"))
    assert run("admit", cluster, asked).exit_code == 0
    few, every = run("cluster", "show", cluster), run("cluster", "show", cluster, "--all")
    assert "and 2 more" in few.stdout
    assert [f"s-{at} " in few.stdout for at in (19, 20)] == [True, False]
    assert "more" not in every.stdout
    assert all(f"s-{at} " in every.stdout for at in range(22))


def test_servers_are_freed_where_it_is_worth_it(tmp_path: Path) -> None:
    cluster = written(tmp_path, "c.yaml", CLUSTER)
    asked = written(tmp_path, "w.yaml", ASKED.replace("count: 2", "count: 6"))
    assert run("admit", cluster, asked).exit_code == 0
    assert run("cluster", "release", cluster, "s-0", "s-1", "s-3", "s-4").exit_code == 0
    assert "2 servers" in run("cluster", "show", cluster).stdout
    assert "Nothing is moved" in run("cluster", "repack", cluster, "--threshold", 60).stdout
    dry = run("cluster", "repack", cluster, "--dry-run")
    assert "would be free" in dry.stdout
    assert "2 servers" in run("cluster", "show", cluster).stdout
    assert "1 servers are free" in run("cluster", "repack", cluster).stdout
    assert "on 1 servers" in run("cluster", "show", cluster).stdout


def test_what_cannot_be_kept_any_more_can_be_released(tmp_path: Path) -> None:
    cluster = written(tmp_path, "c.yaml", CLUSTER)
    assert run("admit", cluster, written(tmp_path, "w.yaml", ASKED)).exit_code == 0
    written(tmp_path, "c.yaml", CLUSTER.replace("{count: 2", "{count: 1"))
    book = json.loads((tmp_path / "c.book.json").read_text())
    book["reserved"]["s-0"]["instances"][0]["number"] = 1
    (tmp_path / "c.book.json").write_text(json.dumps(book))
    assert "which there is not" in run("cluster", "show", cluster).output
    assert run("cluster", "release", cluster, "s-0").exit_code == 0
    assert "1 reserved promises" in run("cluster", "show", cluster).stdout


def test_servers_with_other_caches_are_learned_anew(tmp_path: Path) -> None:
    cluster = written(tmp_path, "c.yaml", CLUSTER)
    asked = written(tmp_path, "w.yaml", ASKED)
    assert run("admit", cluster, asked).exit_code == 0
    written(tmp_path, "c.yaml", CLUSTER.replace("ways: 6", "ways: 9"))
    assert run("admit", cluster, written(tmp_path, "w.yaml", ASKED.replace("  s:", "  t:"))
               ).exit_code == 0  # fmt: skip


def test_requests_are_reconciled_for_each_agent_by_itself(tmp_path: Path) -> None:
    cluster = written(tmp_path, "c.yaml", CLUSTER.replace("count: 2", "count: 4"))
    report = tmp_path / "report.jsonl"
    chain = (EXAMPLES / "edge.yaml").read_text()
    begins, _, rest = chain.partition("reserved: {")
    chain = f"{begins}on-demand: {{p95_latency: 1ms}}{rest.partition('}')[2]}"
    assert run("admit", cluster, written(tmp_path, "edge.yaml", chain)).exit_code == 0

    def asks(server: str, promise: str, time: float, kind: str = "more-instances") -> None:
        event = {"time": time, "server": server, "kind": kind, "promise": promise}
        with report.open("a") as stream:
            stream.write(json.dumps(event) + "\n")

    assert "cannot read" in run("cluster", "heed", cluster, report).output
    asks("a:0", "office.edge", 200.0)
    assert "office.edge..2" in run("cluster", "heed", cluster, report).stdout
    assert json.loads((tmp_path / "c.book.json").read_text())["heeded"] == {"a:0 office.edge": 200}
    asks("a:1", "office.watched", 199.0)  # its clock is behind
    assert "office.watched..2" in run("cluster", "heed", cluster, report).stdout
    assert "No agent asks" in run("cluster", "heed", cluster, report).stdout
    asks("a:0", "office.edge", 300.0)  # every other server has one: tried again when there is room
    for _ in range(2):
        told = run("cluster", "heed", cluster, report)
        assert told.exit_code == 1
        assert "no server without an instance" in told.output
    asks("a:0", "office.edge", 301.0, "kept")
    assert "No agent asks" in run("cluster", "reconcile", cluster, report).stdout
    # All instances of a promise go with it.
    assert run("cluster", "release", cluster, "office.edge").exit_code == 0
    assert "office.edge" not in run("cluster", "show", cluster).stdout
    report.write_text('{"time": 1e999, "server": "a:0", "kind": "kept", "promise": "x"}\n')
    assert "has an invalid time" in run("cluster", "heed", cluster, report).output


def test_old_events_are_not_replayed(tmp_path: Path) -> None:
    """A server asks thrice before anybody looks, and another one's promise is kept again."""
    cluster = written(tmp_path, "c.yaml", CLUSTER.replace("count: 2", "count: 6"))
    chain = (EXAMPLES / "edge.yaml").read_text()
    begins, _, rest = chain.partition("reserved: {")
    chain = f"{begins}on-demand: {{p95_latency: 1ms}}{rest.partition('}')[2]}"
    assert run("admit", cluster, written(tmp_path, "edge.yaml", chain)).exit_code == 0
    asked = [("a:0", "more-instances", time) for time in (1.0, 2.0, 3.0)]
    again = [("a:1", "more-instances", 1.0), ("a:1", "broken", 1.5), ("a:1", "kept", 2.0)]
    report = tmp_path / "report.jsonl"
    report.write_text(
        "".join(
            json.dumps({"time": time, "server": server, "kind": kind, "promise": "office.edge"})
            + "\n"
            for server, kind, time in [*asked, *again]
        )
    )
    said = run("cluster", "reconcile", cluster, report).stdout
    assert "office.edge..2" in said
    assert "office.edge..3" not in said, "one request is one instance"
    assert "No agent asks" in run("cluster", "reconcile", cluster, report).stdout


@pytest.mark.parametrize("more", ["sockets: 2", "memory_gbps: 20"])
def test_what_admission_does_not_know_is_refused(tmp_path: Path, more: str) -> None:
    cluster = written(tmp_path, "c.yaml", CLUSTER.replace("count: 2", f"count: 2, {more}"))
    told = run("admit", cluster, written(tmp_path, "w.yaml", ASKED))
    assert told.exit_code == 2
    assert "admission knows ways and cores only" in told.output


def test_a_function_of_two_cores_is_not_tried(tmp_path: Path) -> None:
    nf = replace(PROFILES["firewall"], cores=2)
    refused = a_cluster(tmp_path).reserve(Slo("s", nf, 0.3, 100.0))
    assert isinstance(refused, Refusal)
    assert not refused.tried


def test_a_profile_that_has_got_worse_is_seen(tmp_path: Path) -> None:
    cluster = written(tmp_path, "c.yaml", CLUSTER)
    asked = ASKED.replace("servers:", "functions:\n" + CLUSTER.partition("functions:\n")[2] +
                          "servers:").replace("firewall", "nf")  # fmt: skip
    assert run("admit", cluster, written(tmp_path, "w.yaml", asked)).exit_code == 0
    assert run("cluster", "show", cluster).exit_code == 0
    written(tmp_path, "c.yaml", CLUSTER.replace("[60, 80, 100]", "[60, 61, 80]"))
    shown = run("cluster", "show", cluster)
    assert shown.exit_code == 1
    assert "s-0, number 0: " in shown.output
    more = run("admit", cluster, tmp_path / "w.yaml")
    assert "has another profile here than in the cluster's file" in more.output.replace("\n", " ")
    written(tmp_path, "c.yaml", CLUSTER.partition("functions:")[0])
    assert "the profile of nf is gone" in run("cluster", "show", cluster).output


@pytest.mark.parametrize(
    "text", ["", "{", '{"apiVersion": "x"}', '{"reserved": {"s": {"function": "nf"}}}']
)
def test_what_is_no_book_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    cluster = written(tmp_path, "c.yaml", CLUSTER)
    book = written(tmp_path, "c.book.json", text)
    for command in (("admit", cluster, EXAMPLES / "edge.yaml"), ("cluster", "show", cluster)):
        told = run(*command)
        assert told.exit_code == 1
        assert "c.book.json: is not a book of a cluster" in told.output.replace("\n", "")
    assert book.read_text() == text
