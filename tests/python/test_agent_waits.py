"""What the agent does while not all is known, and what it tells of the traffic with memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from evaluation.emulation.machine import Question
from evaluation.emulation.tree import EmulatedTree
from tests.python.isolating import PAPER, THREADS, FixedThreads
from tests.python.test_agent import DDIO, TIDS, Functions, Server
from unis.agent.agent import Agent, AgentSettings
from unis.agent.duties import Duties
from unis.agent.notes import NotesFile
from unis.agent.watch import ChainSample

PROMISED = {"ids": 1000.0, "lpm": 100.0, "vpn": 100.0}


@dataclass
class Pending(Functions):
    """Of some functions more will be known."""

    pending: set[str] = field(default_factory=set)

    def sample(self, chains: Mapping[str, str]) -> Mapping[str, ChainSample]:
        found = super().sample(chains)
        return {name: replace(of, pending=name in self.pending) for name, of in found.items()}


def agent_of(server: Server, wait: int) -> Agent:
    patient = AgentSettings(settle=2, patience=2, wait=wait)
    file = NotesFile(server.folder)
    return Agent(server.tree, server.functions, file, DDIO, server.events.append, patient)


def test_it_does_not_wait_for_ever(tmp_path: Path) -> None:
    """A function that is started again and again is never known."""
    functions = Pending({"ids": 9.0, "lpm": 0.5, "vpn": 2.0}, TIDS, pending={"ids"})
    server = Server(tmp_path, functions)
    agent = agent_of(server, wait=10)
    for _ in range(10):
        agent.tick(Duties({}, PROMISED, 6))
    assert server.told("divided") == []
    for _ in range(2):
        agent.tick(Duties({}, PROMISED, 6))
    assert server.told("divided") == [""]
    # As long for each step: of the new classes nothing is known either.
    for _ in range(9):
        agent.tick(Duties({}, PROMISED | {"ids": 100.0}, 6))
    assert (server.told("divided"), server.told("more-instances")) == ([""], [])
    for _ in range(20):
        agent.tick(Duties({}, PROMISED | {"ids": 100.0}, 6))
    assert len(server.told("divided")) + len(server.told("more-instances")) > 1


def test_a_wait_begins_when_nothing_was_missing(tmp_path: Path) -> None:
    functions = Pending({"ids": 9.0, "lpm": 0.5, "vpn": 2.0}, TIDS, pending={"ids"})
    server = Server(tmp_path, functions)
    agent = agent_of(server, wait=10)
    for look in range(12):
        functions.pending = set() if look == 0 else {"ids"}
        agent.tick(Duties({}, PROMISED, 6))
        assert server.told("divided") == ([""] if look == 11 else [])


def test_a_class_that_is_settled_is_not_waited_for(tmp_path: Path) -> None:
    """vpn left for a class of its own; whether more can be had for ids does not depend on it."""
    functions = Pending({"ids": 9.0, "lpm": 0.5, "vpn": 2.0}, TIDS)
    server = Server(tmp_path, functions)
    agent = agent_of(server, wait=1000)
    for _ in range(12):
        agent.tick(Duties({}, PROMISED, 6))
    assert "unis-vpn" in server.classes()
    functions.pending = {"vpn"}
    for _ in range(12):
        agent.tick(Duties({}, PROMISED | {"ids": 100.0}, 6))
    assert server.told("more-instances") == ["ids"]


class Memory:
    """Each thread moves as many megabytes a second as its number says."""

    now = 5.0

    def read(self, question: Question) -> int | None:
        if question.event != "mbm_total_bytes":
            return None
        return int(self.now * sum(question.tasks) * 1e6)


def test_the_traffic_with_memory_is_since_the_last_look(tmp_path: Path) -> None:
    counters = Memory()
    functions = Functions({"ids": 9.0, "vpn": 2.0}, TIDS)
    server = Server(tmp_path, functions)
    tree = EmulatedTree(server.folder / "tree", PAPER, FixedThreads(THREADS), counters=counters)
    file = NotesFile(tmp_path)
    agent = Agent(tree, functions, file, DDIO, server.events.append, clock=lambda: counters.now)
    found = []
    for _ in range(4):
        found.append(agent.tick(Duties({}, {"ids": 1000.0, "vpn": 1000.0}, 4)).traffic)
        counters.now += 2.0
    assert found[:2] == [{}, {}], "there are no groups, and then nothing to compare with"
    per_second = {name: TIDS[name] * 1e6 for name in ("ids", "vpn")}
    assert found[2:] == [per_second, per_second]
