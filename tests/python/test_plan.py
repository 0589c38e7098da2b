"""What holds of the plan for every file and machine."""

import json
import pickle
from collections import Counter

from hypothesis import assume, given, settings

from tests.python.planned import memifs_of, planned
from tests.python.strategies import Data, chain_files, scaled
from unis.chain.problem import ChainFileError
from unis.engine.limits import broken
from unis.plan.model import Plan
from unis.plan.resources import lcores as lcores_of
from unis.plan.wiring import MOST_PORTS

CHECKS = settings(max_examples=scaled(120))


def plan_or_none(data: Data) -> Plan | None:
    """None: more ports than DPDK has, or two functions over memif that a ring was stated for."""
    data.get("traffic", {}).get("source", {}).pop("file", None)
    if data.get("traffic", {}).get("source", {}).get("kind") == "pcap":
        del data["traffic"]
    try:
        return planned(data)
    except ChainFileError as error:
        for problem in error.problems:
            if not {"ports", "ring;"} & set(problem.problem.sentence.split()):
                raise
        return None


@CHECKS
@given(chain_files())
def test_every_packet_has_a_way(data: Data) -> None:
    plan = plan_or_none(data)
    assume(plan)
    assert plan
    for chain in plan.chains:
        at = chain.ingress
        assert _engine_has_end(plan, at)
        for hop in chain.hops:
            ports = plan.function(hop.function).ports
            _carried(plan, at, ports[hop.in_port].rx)
            at = ports[hop.out_port].tx
        _carried(plan, at, chain.egress)
        assert _engine_has_end(plan, chain.egress)
        # The source sends into the first function's link; the sink receives from the last one's.
        first, last = (plan.function(chain.hops[at].function) for at in (0, -1))
        assert chain.ingress == first.ports[chain.hops[0].in_port].rx
        assert chain.egress == last.ports[chain.hops[-1].out_port].tx


def _engine_has_end(plan: Plan, link: str) -> bool:
    memif = memifs_of(plan).get(link)
    return memif is None or memif.engine_end == "server"


def _carried(plan: Plan, sent: str, received: str) -> None:
    """The same link, or two of which the engine has the end of the memif."""
    if sent == received:
        return
    kinds = {link.kind for link in plan.links if link.name in (sent, received)}
    assert kinds == {"ring", "memif"}
    memifs = memifs_of(plan)
    assert [memifs[name].engine_end for name in (sent, received) if name in memifs] == ["server"]


@CHECKS
@given(chain_files())
def test_every_link_has_two_ends_each_way(data: Data) -> None:
    plan = plan_or_none(data)
    assume(plan)
    assert plan
    receivers = Counter(port.rx for f in plan.functions for port in f.ports)
    senders = Counter(port.tx for f in plan.functions for port in f.ports)
    clients = Counter(p.rx for f in plan.functions for p in f.ports if p.end)
    ends = {chain.egress for chain in plan.chains}, {chain.ingress for chain in plan.chains}
    for link in plan.links:
        if memif := memifs_of(plan).get(link.name):
            functions = 2 if memif.engine_end == "none" else 1
            assert receivers[link.name] == senders[link.name] == functions
            assert clients[link.name] == 1
        else:  # the engine has the other end of a ring that leads to a memif
            received = receivers[link.name] + (link.name in ends[0])
            sent = senders[link.name] + (link.name in ends[1])
            assert received <= 1
            assert sent <= 1
            assert received + sent >= 1


@CHECKS
@given(chain_files())
def test_nothing_that_must_be_distinct_is_shared(data: Data) -> None:
    plan = plan_or_none(data)
    assume(plan)
    assert plan
    lcores = [
        *range(1 + len(plan.platform_cpus)),
        *(lcore for f in plan.functions if f.group == "engine" for lcore in lcores_of(f)),
    ]
    memifs = memifs_of(plan).values()
    buffers = [memif.buffer_bytes for memif in memifs]
    own = [f for f in plan.functions if f.group == "own"]
    # A file may name them: they do not depend on what else runs.
    assert all(lcores_of(f) == list(range(len(lcores_of(f)))) for f in own)
    prefixes = [f.file_prefix for f in own]
    names = [port.name for f in plan.functions for port in f.ports]
    on_rings = [port.device for f in plan.functions if f.group == "engine" for port in f.ports]
    devices = [device.partition(",")[0] for device in on_rings]
    sockets = [(memif.socket, memif.id) for memif in memifs]
    for distinct in (lcores, buffers, prefixes, names, devices, sockets):
        assert len(set(distinct)) == len(distinct)
    assert plan.engine.file_prefix not in prefixes
    assert len(on_rings) <= MOST_PORTS
    assert not set(plan.cpus) & set(plan.platform_cpus)


@CHECKS
@given(chain_files())
def test_the_same_file_makes_the_same_plan_within_the_contract(data: Data) -> None:
    plan = plan_or_none(data)
    assume(plan)
    assert plan
    assert plan_or_none(data) == plan
    request = plan.deploy({}, "id")
    assert broken(request) == []
    assert [function.name for function in request.functions] == list(data["functions"])
    assert [chain.name for chain in request.chains] == list(data["chains"])
    assert plan.as_dict()["name"] == data["name"]
    assert json.loads(json.dumps(plan.as_dict())) == plan.as_dict()


@CHECKS
@given(chain_files())
def test_a_plan_can_be_handed_to_another_process(data: Data) -> None:
    plan = plan_or_none(data)
    assume(plan)
    assert pickle.loads(pickle.dumps(plan)) == plan  # noqa: S301
