"""Chains that branch, with real packets: each arrives or is counted, and nothing stands still."""

from tests.e2e.machine import Json, Machine, macswap
from tests.e2e.strangers import a_testpmd
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered

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


def test_a_diamond_runs_under_every_policy_and_loses_nothing_uncounted(machine: Machine) -> None:
    """One branch is a function of ours on rings, the other a stranger over memif."""
    half = {"weight": 1}
    chain = graph(
        "ingress > fw", "fw > nat", "fw > dpi", "nat > monitor", "dpi > monitor",
        "monitor > egress", nat=half, dpi=half,
    )  # fmt: skip
    functions = {name: macswap() for name in ("fw", "nat", "monitor")}
    file = machine.chain_file({**functions, "dpi": a_testpmd()}, chains={"web": chain})
    machine.up(file)
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
    taken = {ends: edge["taken"] for ends, edge in edges_of(machine).items()}
    assert 0.4 < taken["fw", "nat"] / (taken["fw", "nat"] + taken["fw", "dpi"]) < 0.6
    machine.down()
    machine.assert_clean()


def test_a_copy_is_watched_and_told_apart(machine: Machine) -> None:
    chain = graph(
        "ingress > fw", "fw > watch", "fw > monitor", "monitor > egress",
        watch={"mode": "tap"},
    )  # fmt: skip
    functions = {name: macswap() for name in ("fw", "watch", "monitor")}
    traffic = {"source": {"kind": "synthetic", "size": 64}, "rate": "50kpps"}
    machine.up(machine.chain_file(functions, chains={"web": chain}, traffic=traffic))
    assert_delivers_more_than(machine, 10_000)
    account = machine.exact_account()
    assert_whole(account)
    assert account["copied"] > 0
    assert account["copied"] + account["copies_dropped"] == account["delivered"]
    assert account["copies_ended"] == account["copied"]
    assert edges_of(machine)["fw", "watch"]["taken"] >= account["copied"]


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
