"""NICs and PCIe as resources of the planner: by the equations of `unis model`."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings

from tests.python.commands import run
from tests.python.modelled import XEON
from tests.python.strategies import scaled
from tests.python.test_slo_dimensions import FLAT, workloads
from unis import built
from unis.capacity.servers import with_nics
from unis.slo.exact import exact
from unis.slo.explain import given_away, summary
from unis.slo.greedy import greedy
from unis.slo.model import load
from unis.slo.placement import NoRoomError
from unis.slo.profile import NicRates, PacketForm, Profile, Server, Slo, Workload
from unis.slo.splits import MOST_INSTANCES
from unis.slo.verify import problems

EXAMPLE = built.clone() / "examples" / "slo" / "nic.yaml"
FAST = Profile("fast", 40.0, (1.0,), FLAT)  # 40 Mpps: no CPU is the limit
FILE = """
apiVersion: unis/slo/v1
name: few
servers:
  xeon: {{count: 1, cores: 9, ways: 18, machine: {machine}}}
{servers}
functions:
  fast: {{solo_mpps: 40, percent_by_ways: [100], p95_us_by_percent_of_load: {{50: 10, 100: 20}}}}
slos:
  all: {{function: fast, throughput: {mpps} Mpps, p95_latency: 25 us, {packet}}}
"""


def few(folder: Path, mpps: float, packet: str, servers: str = "") -> Path:
    file = folder / "few.yaml"
    file.write_text(FILE.format(machine=XEON, mpps=mpps, packet=packet, servers=servers))
    return file


def planned_nics(*slos: Slo, count: int = 9) -> Workload:
    """On servers of the paper's machine."""
    server = Server("xeon", count, 9, 18, machine=str(XEON))
    return with_nics(Workload("w", slos, (server,), 0.0), EXAMPLE)


def test_the_example_needs_as_many_servers_as_its_packets_need_lines() -> None:
    workload = with_nics(load(EXAMPLE), EXAMPLE)
    placed = exact(workload)
    bits = sum(slo.count * slo.mpps * 1e6 * (slo.packet.size + 20) * 8 for slo in workload.slos)
    assert len(placed.machines) == placed.bound == -(-bits // 10e9)
    assert not [*problems(workload, placed)]
    assert given_away(workload, placed)["port 0 in"] == pytest.approx(
        bits / 10e9 / len(placed.machines), rel=1e-4
    )
    code, said = run("plan", EXAMPLE)
    assert code == 0
    assert "9 servers, exact" in said
    assert "no placement needs fewer (proven)" in said
    assert "Given away on these servers: 91% of the port 0 in" in said


def test_the_page_says_what_is_scarce(tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    assert run("plan", EXAMPLE, "--report", page)[0] == 0
    assert "Given away on these servers: 91% of the port 0 in" in page.read_text()


@pytest.mark.parametrize(
    ("packet", "most"),
    [
        ("packet_bytes: 64", 10e3 / 672),  # the line, as one chain of `unis model` has it
        ("packet_bytes: 1518", 10e3 / (1538 * 8)),
        # Four functions on virtual functions: PCIe, in the paper's own formula.
        ("packet_bytes: 64, sriov_functions: 4", 32e3 / (4 * 80 * 8)),
    ],
)
def test_a_server_bears_what_unis_model_says_and_no_more(
    tmp_path: Path, packet: str, most: float
) -> None:
    code, said = run("plan", few(tmp_path, most * 0.9999, packet))
    assert (code, "1 servers" in said or "1 server," in said) == (0, True), said
    assert run("plan", few(tmp_path, most * 1.0001, packet))[0] == 1
    functions = "sriov_functions" in packet
    words = ["--links", "sriov"] if functions else []
    names = ["a", "b", "c", "d"] if functions else ["a"]
    chain = tmp_path / "chain.yaml"
    chain.write_text(
        "apiVersion: unis/v1\nname: c\nfunctions:\n"
        + "".join(f"  {name}: {{program: {name}, cost_ns: 1, cpu: {at + 1}}}\n"
                  for at, name in enumerate(names))
        + f"chains: {{c: {{path: [{', '.join(names)}]}}}}\n"
    )  # fmt: skip
    size = packet.split(",")[0].removeprefix("packet_bytes: ")
    free = tmp_path / "machine.yaml"
    free.write_text(XEON.read_text().replace("value: 2.0e9", "value: 2.0e12"))  # of CPUs
    said = run("model", chain, "--machine", free, "--size", size, *words)[1]
    assert f"at most {most:,.3f} Mpps" in " ".join(said.split())


def test_the_bus_can_be_reckoned_with_headers(tmp_path: Path) -> None:
    packet = "packet_bytes: 64, sriov_functions: 4"
    file = few(tmp_path, 10.0, packet)
    assert run("plan", file)[0] == 0
    file.write_text(file.read_text().replace("name: few", "name: few\npcie: tlp"))
    assert run("plan", file)[0] == 1


def test_what_is_too_much_for_a_line_is_split_over_servers() -> None:
    workload = planned_nics(Slo("all", FAST, 29.0, 25.0))
    placed = exact(workload)
    assert len(placed.machines) == placed.bound == 2
    assert not [*problems(workload, placed)]
    assert not [*problems(workload, greedy(workload))]
    too_much = exact(planned_nics(Slo("all", FAST, 200.0, 25.0)))
    (refusal,) = too_much.refused
    assert "of 10 at most, takes" in refusal.why
    assert not refusal.tried  # with more instances it may be kept


@pytest.mark.parametrize(
    ("mpps", "count", "most", "servers"),
    [(8.0, 3, 2, 2), (8.0, 10, 4, 6), (9.0, 8, 10, 5)],  # a line bears 14.88 Mpps
)
def test_promises_are_split_further_where_that_saves_servers(
    mpps: float, count: int, most: int, servers: int
) -> None:
    workload = planned_nics(Slo("all", FAST, mpps, 25.0, count), count=servers)
    placed = exact(workload)
    assert not [*problems(workload, placed)]
    assert len(placed.machines) == servers
    assert 1 < max(map(len, placed.splits.values())) <= most
    assert "no placement needs fewer (proven)" in summary(placed, "exact")
    with pytest.raises(NoRoomError, match=r"whatever is placed where$"):
        exact(planned_nics(Slo("all", FAST, mpps, 25.0, count), count=servers - 1))


def test_a_proof_for_some_splits_says_for_which() -> None:
    """Four promises of five cores have cores enough on three servers of nine, but in parts."""
    slo = Slo("all", replace(FAST, cores=5), 1.0, 25.0, 2)
    placed = exact(planned_nics(slo))
    assert (len(placed.machines), placed.bound, placed.instances) == (2, 2, None)
    placed = exact(planned_nics(replace(slo, count=4)))
    assert (len(placed.machines), placed.bound, placed.instances) == (4, 4, MOST_INSTANCES)
    limit = "no placement that splits each promise into at most 10 instances needs fewer"
    assert f"{limit} (proven)." in summary(placed, "exact")
    assert f"{limit} than 3 (proven)." in summary(replace(placed, bound=3), "exact")
    with pytest.raises(NoRoomError, match="each split into 10 instances at most"):
        exact(planned_nics(replace(slo, count=4), count=3))
    alike = replace(planned_nics(replace(slo, count=4)), nics=None)
    assert exact(alike).instances is None  # more instances only take more cores


def test_the_verifier_sees_a_line_that_is_too_full() -> None:
    workload = planned_nics(Slo("one", FAST, 9.0, 25.0, 2), count=2)
    placed = exact(workload)
    assert len(placed.machines) == 2
    first, second = placed.machines
    for instance in second.instances:
        first.add(replace(instance, socket=0))
    (line, other) = problems(workload, replace(placed, machines=[first]))
    assert "units/s of port 0 in" in line
    assert "units/s of port 1 out" in other


@settings(max_examples=scaled(30), deadline=None)
@given(workloads(promises=3, count=3))
def test_narrower_nics_need_no_fewer_servers_and_endless_ones_no_more(workload: Workload) -> None:
    nics = workload.nics
    assume(nics is not None)
    assert nics is not None

    def servers(factor: float) -> int | None:
        wider = {name: tuple(each * factor for each in of) for name, of in nics.capacities.items()}
        return proven(replace(workload, nics=NicRates(nics.flows, wider, nics.takes)))

    endless, now, half = servers(1e4), servers(1.0), servers(0.7)
    if endless is not None and now is not None:
        assert endless <= now
    if now is not None and half is not None:
        assert now <= half
    without = proven(replace(workload, nics=None))
    if endless is not None and without is not None:
        assert endless == without


def proven(workload: Workload) -> int | None:
    """Servers, if nothing is refused and none fewer would do with any split that is looked at."""
    try:
        placed = exact(workload, seconds=5)
    except NoRoomError:
        return None
    assert not [*problems(workload, placed)]
    if placed.refused or placed.instances not in (None, MOST_INSTANCES):
        return None
    return placed.bound if placed.bound == len(placed.machines) else None


@pytest.mark.parametrize(
    ("packet", "servers", "words", "sentence"),
    [
        ("count: 1", "  bare: {count: 1, cores: 9, ways: 18}", [],
         "has no machine: the file that says what its NIC bears"),
        ("count: 1", "", ["--shared"], "knows ways and cores only, and here NICs are limited"),
        ("packet_bytes: 20", "", [], "slos.all.packet_bytes: is `20`; must be at least 64"),
        ("count: 1", "  other: {count: 1, cores: 9, ways: 18, machine: no.yaml}", [], "no.yaml"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_is_one_sentence(
    tmp_path: Path, packet: str, servers: str, words: list[str], sentence: str
) -> None:
    code, said = run("plan", few(tmp_path, 1.0, packet, servers), *words)
    assert code == 2
    assert sentence in " ".join(said.split())
    assert "Traceback" not in said


def test_nics_that_take_different_amounts_are_planned_apart(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(
        XEON.read_text().replace(
            "    line_rate:",
            "    gap: {value: 24, unit: bytes, source: assumed, note: x}\n    line_rate:",
        )
    )
    servers = "  other: {count: 1, cores: 9, ways: 18, machine: other.yaml}"
    code, said = run("plan", few(tmp_path, 1.0, "count: 1", servers))
    assert code == 2
    assert "plan these servers in files of their own" in " ".join(said.split())


@pytest.mark.parametrize("order", [["some", "other"], ["other", "some"]])
@pytest.mark.parametrize(
    ("stated", "by", "name", "amount"),
    [
        ("operations: null", "operations: {value: 2.0e7, unit: operations/s, source: assumed}",
         "operations", 5.0),  # n + 1 switchings of four functions
        ("ports: {value: 2", "ports: {value: 1", "port 0 out", 84 * 8.0),
    ],
)  # fmt: skip
def test_what_one_nic_alone_has_counts_in_whatever_order(
    tmp_path: Path, order: list[str], stated: str, by: str, name: str, amount: float
) -> None:
    (tmp_path / "some.yaml").write_text(XEON.read_text())
    (tmp_path / "other.yaml").write_text(XEON.read_text().replace(stated, by))
    servers = tuple(Server(each, 9, 9, 18, machine=f"{each}.yaml") for each in order)
    slo = Slo("all", FAST, 1.0, 25.0, packet=PacketForm(64, 4))
    nics = with_nics(Workload("w", (slo,), servers), tmp_path / "w.yaml").nics
    assert nics is not None
    at = [flow.name for flow in nics.flows].index(name)
    assert nics.takes[slo.packet][at] == amount
    assert nics.capacities["other"][at] < 1e12 < nics.capacities["some"][at]


def test_admission_says_that_it_does_not_look_at_nics(tmp_path: Path) -> None:
    file = few(tmp_path, 1.0, "count: 1")
    code, said = run("admit", file, file)
    assert code == 2
    assert "NICs are limited" in " ".join(said.split())


def test_packets_of_a_promise_are_plain_data() -> None:
    assert Slo("s", FAST, 1.0, 25.0).packet == PacketForm(64, 0)
