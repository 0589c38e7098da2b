"""Chains that branch, with real packets: each arrives or is counted, and nothing stands still."""

from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from tests.e2e.machine import Json, Machine, macswap
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered
from tests.e2e.third_party import a_testpmd, an_l3fwd
from tests.functions.function_run import write_pcap
from unis.runtime.directory import run_directory

# Under which all functions get their turn.
FAIR = (("unis", "priority"), ("rr", ""), ("other", ""), ("batch", ""), ("unis", "handover"))


def edges_of(machine: Machine) -> dict[tuple[str, str], dict[str, int]]:
    """What became of the packets of each edge of the one chain, by its ends."""
    (chain,) = machine.ps()["stats"]["chains"]
    return {
        (edge["from"], edge["to"]): {
            key: int(edge[key]) for key in ("offered", "taken", "dropped", "waiting")
        }
        for edge in chain["edges"]
    }


def assert_nothing_waits(machine: Machine) -> None:
    """Every packet has come through, or was counted."""
    account = machine.exact_account()
    assert_whole(account)
    assert account["in_flight"] == 0, "a packet waits for ever"


def graph(*edges: str, **more: Json) -> Json:
    """Edges as `a > b`, with what `more` says of some, by the function they lead to."""
    ends = [edge.split(" > ") for edge in edges]
    return {"graph": [{"from": one, "to": other, **more.get(other, {})} for one, other in ends]}


def diamond(machine: Machine, rate: str = "max") -> Path:
    """A chain file: one branch is our function on rings, the other a program over memif."""
    half = {"weight": 1}
    chain = graph(
        "ingress > fw", "fw > nat", "fw > dpi", "nat > monitor", "dpi > monitor",
        "monitor > egress", nat=half, dpi=half,
    )  # fmt: skip
    functions = {**{name: macswap() for name in ("fw", "nat", "monitor")}, "dpi": a_testpmd()}
    traffic = {"source": {"kind": "synthetic", "size": 64, "flows": 256}, "rate": rate}
    return machine.chain_file(functions, chains={"web": chain}, traffic=traffic)


def test_a_diamond_runs_under_every_fair_policy_and_loses_nothing_uncounted(
    machine: Machine,
) -> None:
    """Under hand-over it loses few packets inside: 0.01 to 0.5 % here, the more the more often
    commands take the platform's CPU. Under `priority` the machine decides how many. The account
    books to dpi what is lost in its memifs, by whomever; dpi itself drops nothing.
    """
    machine.up(diamond(machine, "200kpps"))
    delivered_before = lost_before = 0
    for rate, packets in (("200kpps", 200_000), ("max", 1_000_000)):
        machine.unis("apply", str(diamond(machine, rate)))
        machine.unis("policy", "unis", "--controller", "handover")
        assert_delivers_more_than(machine, delivered_before + packets)
        account = machine.exact_account()
        assert_whole(account)
        now = account["delivered"]
        lost = account["offered"] - account["dropped_ingress_full"] - now
        most = 0.001 if rate != "max" else 0.02
        assert lost - lost_before <= most * (now - delivered_before), rate
        assert account["dropped_by_function"] <= most * now, rate
        delivered_before, lost_before = now, lost
    for policy, controller in FAIR:
        machine.unis("policy", policy, *(["--controller", controller] if controller else []))
        before = edges_of(machine)
        assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
        after = edges_of(machine)
        for branch in ("nat", "dpi"):
            for ends in (("fw", branch), (branch, "monitor")):
                assert after[ends]["taken"] > before[ends]["taken"], (policy, controller, ends)
        assert_nothing_waits(machine)
    machine.unis("policy", "fifo")  # the first function never gives way
    assert_nothing_waits(machine)
    machine.unis("policy", "unis")
    came = {ends: edge["offered"] for ends, edge in edges_of(machine).items()}
    assert 0.4 < came["fw", "nat"] / (came["fw", "nat"] + came["fw", "dpi"]) < 0.6


def tapped(machine: Machine) -> Path:
    """A chain file: fw → monitor, and watch gets a copy of what comes to monitor."""
    chain = graph(
        "ingress > fw", "fw > watch", "fw > monitor", "monitor > egress",
        watch={"mode": "tap"},
    )  # fmt: skip
    functions = {name: macswap() for name in ("fw", "watch", "monitor")}
    traffic = {"source": {"kind": "synthetic", "size": 64}, "rate": "50kpps"}
    return machine.chain_file(functions, chains={"web": chain}, traffic=traffic)


def functions_of(machine: Machine) -> dict[str, Json]:
    return {one["name"]: one for one in machine.ps()["stats"]["functions"]}


def kill(machine: Machine, function: str) -> None:
    """Until the engine knows of it."""
    machine.kill(machine.pid_of(function))
    machine.wait_for(
        lambda: functions_of(machine)[function]["state"] == "FUNCTION_STATE_EXITED", "it is seen"
    )


def test_a_copy_is_watched_and_a_dead_tap_leaves_its_chain_alone(machine: Machine) -> None:
    """It is the only chain: without it the run would end."""
    file = tapped(machine)
    machine.up(file)
    assert_delivers_more_than(machine, 10_000)
    account = machine.exact_account()
    assert_whole(account)
    assert account["copied"] > 0
    assert account["copied"] + account["copies_dropped"] == account["delivered"]
    assert account["copies_ended"] == account["copied"]
    assert edges_of(machine)["fw", "watch"]["taken"] >= account["copied"]
    lost_before = account["copies_dropped"]
    kill(machine, "watch")
    assert_delivers_more_than(machine, delivered(machine.ps()) + 1000)
    said = machine.unis("ps", machine.name)
    assert "watch (pid" in said
    assert "fw → watch is down: watch is not there" in said
    assert "chain web is down" not in said
    account = machine.exact_account()
    assert_whole(account)
    assert account["copied"] + account["copies_dropped"] == account["delivered"]
    assert account["copies_dropped"] > lost_before + 500, "none are made for it"
    (web,) = machine.ps()["stats"]["chains"]
    assert (web["down"], web["dropped_down"]) == ("", 0)
    machine.unis("apply", str(file))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 1000)
    assert machine.exact_account()["copies_ended"] > account["copies_ended"]


@pytest.mark.parametrize("kind", ["ring", "memif", "veth"])
def test_while_a_branch_is_dead_the_other_goes_on(machine: Machine, kind: str) -> None:
    half = {"weight": 1}
    ends = ("ingress > fw", "fw > nat", "fw > dpi", "nat > egress", "dpi > egress")
    functions = {name: macswap() for name in ("fw", "nat", "dpi")}
    functions["dpi"]["restart"] = "on-failure"
    links = [{"from": "fw", "to": "dpi", "kind": kind}]
    traffic = {"source": {"kind": "synthetic", "size": 64, "flows": 64}, "rate": "100kpps"}
    machine.up(
        machine.chain_file(
            functions,
            chains={"web": graph(*ends, nat=half, dpi=half)},
            links=links,
            traffic=traffic,
        )
    )
    assert_delivers_more_than(machine, 5000)
    machine.kill(dpi := machine.pid_of("dpi"))
    before = edges_of(machine)
    machine.wait_for(lambda: machine.ps()["functions"].get("dpi", dpi) != dpi, "dpi is not back")
    after = edges_of(machine)
    assert after["fw", "nat"]["taken"] > before["fw", "nat"]["taken"]
    assert after["fw", "dpi"]["dropped"] > 0
    machine.wait_for(
        lambda: edges_of(machine)["fw", "dpi"]["taken"] > after["fw", "dpi"]["taken"] + 1000,
        "packets come to dpi again",
    )
    account = machine.exact_account()
    assert_whole(account)
    (web,) = machine.ps()["stats"]["chains"]
    assert web["dropped_down"] == account["dropped_down"] >= after["fw", "dpi"]["dropped"]


def test_a_graph_is_changed_while_it_runs(machine: Machine) -> None:
    functions = {name: macswap() for name in ("fw", "nat", "dpi")}
    ends = ("ingress > fw", "fw > nat", "fw > dpi", "nat > egress", "dpi > egress")

    def of_weights(nat: int, dpi: int) -> Json:
        return {"web": graph(*ends, nat={"weight": nat}, dpi={"weight": dpi})}

    machine.up(machine.chain_file(functions, chains=of_weights(1, 1)))
    assert_delivers_more_than(machine, 10_000)
    machine.unis("apply", str(machine.chain_file(functions, chains=of_weights(99, 1))))
    before = edges_of(machine)
    assert_delivers_more_than(machine, delivered(machine.ps()) + 50_000)
    after = edges_of(machine)
    nat, dpi = (after["fw", end]["taken"] - before["fw", end]["taken"] for end in ("nat", "dpi"))
    assert nat > 3 * dpi
    assert_whole(machine.exact_account())


def test_a_split_and_a_merge_between_kernel_devices(machine: Machine) -> None:
    """Their shared links too: where the engine splits a veth, it has an end of each."""
    half = {"weight": 1}
    ends = ("ingress > fw", "fw > nat", "fw > dpi", "nat > mon", "dpi > mon", "mon > egress")
    links = [{**edge, "kind": "veth"} for edge in graph(*ends)["graph"]]
    functions = {name: macswap() for name in ("fw", "nat", "dpi", "mon")}
    traffic = {"source": {"kind": "synthetic", "size": 64, "flows": 64}, "rate": "50kpps"}
    chains = {"web": graph(*ends, nat=half, dpi=half)}
    machine.up(machine.chain_file(functions, chains=chains, links=links, traffic=traffic))
    assert_delivers_more_than(machine, 10_000)
    state = run_directory(machine.name).read()
    assert state
    assert [kind for kind, _ in state.made] == ["veth"] * 8
    assert_nothing_waits(machine)
    account = machine.exact_account()  # which books to macswap what is lost on its links uncounted
    assert account["dropped_by_function"] <= 0.001 * account["delivered"]
    edges = edges_of(machine)
    for branch in ("nat", "dpi"):
        assert edges["fw", branch]["taken"] > 1000
        assert edges[branch, "mon"]["taken"] > 1000


def routed(*prefixes: str) -> list[bytes]:
    """A packet to each."""
    ends = [IP(src="10.0.0.1", dst=f"{prefix}.7") / UDP(sport=7, dport=9) for prefix in prefixes]
    return [bytes(Ether() / end / (b"\0" * 18)) for end in ends]


def test_a_router_that_nobody_changed_chooses_the_branch(machine: Machine) -> None:
    """DPDK's l3fwd: what is for 198.18.N.0/24 leaves by its port N."""
    router = an_l3fwd(ports=3, offloads=["rx-checksum"])
    chain = graph(
        "ingress > router", "router > nat", "router > pmd", "nat > egress", "pmd > egress",
        router={"in_port": 2}, nat={"port": 0}, pmd={"port": 1},
    )  # fmt: skip
    capture = machine.directory / "routed.pcap"
    write_pcap(capture, routed("198.18.0", "198.18.1", "198.18.1"))
    traffic = {"source": {"kind": "pcap", "file": str(capture)}, "rate": "50kpps"}
    functions = {"router": router, "nat": macswap(), "pmd": a_testpmd()}
    machine.up(machine.chain_file(functions, chains={"web": chain}, traffic=traffic))
    assert_delivers_more_than(machine, 10_000)
    account = machine.exact_account()
    assert_whole(account)
    assert account["delivered"] == account["offered"] - account["dropped_ingress_full"]
    edges = edges_of(machine)
    by_nat, by_pmd = (edges["router", name]["taken"] for name in ("nat", "pmd"))
    assert by_nat > 1000
    assert abs(by_pmd - 2 * by_nat) < 200, "the source goes on"
