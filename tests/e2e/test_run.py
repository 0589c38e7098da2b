"""A chain comes up, carries packets under every policy, and leaves the machine as it was."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, machine_in, macswap
from tests.e2e.third_party import SLOWLY, a_testpmd
from unis.engine import names

# The kernel's scheduling class of functions, by controller.
CLASS = {
    "CONTROLLER_HANDOVER": "fifo",
    "CONTROLLER_PRIORITY": "rr",
    "CONTROLLER_SIGNAL": "other",
}
CAPTURE = Path(__file__).parents[1] / "data" / "teams.pcap"


def delivered(run: Json) -> int:
    """Packets that arrived at the sink so far."""
    return int(run["stats"]["account"]["delivered"])


def assert_delivers_more_than(machine: Machine, packets: int) -> None:
    """Sooner or later."""
    machine.wait_for(lambda: delivered(machine.ps()) > packets, "packets arrive")


def assert_whole(account: Json) -> None:
    """Every packet is there."""
    assert account["unaccounted"] == 0
    assert account["offered"] + account["copied"] == sum(
        account[part]
        for part in (
            "delivered",
            "copies_ended",
            "unclassified",
            "dropped_ingress_full",
            "dropped_egress_full",
            "dropped_by_function",
            "dropped_on_links",
            "dropped_source",
            "dropped_sink",
            "dropped_down",
            "copies_dropped_down",
            "in_flight",
        )
    )


def assert_times_add_up(machine: Machine) -> None:
    """Those of all functions, while they have packets."""
    first = machine.ps()["stats"]
    time.sleep(1)
    assert_delivers_more_than(machine, int(first["account"]["delivered"]) + 10_000)
    now = machine.ps()["stats"]
    passed = int(now["time_ns"]) - int(first["time_ns"])
    for before, after in zip(first["functions"], now["functions"], strict=True):
        spent = {
            what: int(after["time"].get(what, 0)) - int(before["time"].get(what, 0))
            for what in after["time"]
        }
        elapsed = spent.pop("elapsed_ns")
        assert min(spent.values()) >= 0, "counters only grow"
        assert sum(spent.values()) == elapsed
        assert elapsed == pytest.approx(passed, rel=0.01)
        assert spent["busy_ns"] > 0, "it had packets"
        assert spent["run_delay_ns"] > 0, "the others had the CPU, too"


@pytest.fixture(scope="class", params=["handover", "priority", "signal"])
def running(
    request: pytest.FixtureRequest,
    able: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Machine]:
    """A chain of three functions under one controller and the policy unis; tests share the run."""
    with machine_in(tmp_path_factory.mktemp("run")) as machine:
        functions = {"a": macswap(), "b": macswap(), "c": macswap()}
        machine.up(machine.chain_file(functions, scheduler={"controller": request.param}))
        yield machine


class TestUnderEachController:
    def test_it_switches(self, running: Machine) -> None:
        first = running.ps()
        running.wait_for(lambda: delivered(running.ps()) > delivered(first) + 10_000, "packets")
        now = running.ps()["stats"]
        assert now["cores"][0]["switches"] > first["stats"]["cores"][0]["switches"], "it decides"
        # And what is decided happens: each function runs, one at a time.
        before = {function["name"]: function for function in first["stats"]["functions"]}
        for function in now["functions"]:
            assert function["switched_in"] > before[function["name"]]["switched_in"]
            assert function["cpu_time_ns"] > before[function["name"]]["cpu_time_ns"]
        states = [function["state"] for function in now["functions"]]
        assert states.count("FUNCTION_STATE_RUNNING") <= 1
        assert_whole(running.exact_account())

    def test_the_time_of_a_function_adds_up(self, running: Machine) -> None:
        assert_times_add_up(running)

    def test_functions_have_the_scheduling_class_of_the_controller(self, running: Machine) -> None:
        stats = running.ps()["stats"]
        classes = {function["scheduling"].split()[0] for function in stats["functions"]}
        assert classes == {CLASS[stats["controller"]]}

    def test_the_platform_tells_how_busy_it_is(self, running: Machine) -> None:
        first = running.ps()["stats"]["components"]
        assert [part["name"] for part in first] == ["source", "sink", "scheduler"]
        assert all(int(part.get("cpu", 0)) != 1 for part in first), "CPU 1 is the functions'"

        def all_work() -> bool:
            now = running.ps()["stats"]["components"]
            return all(
                int(later[what]) > int(earlier.get(what, 0))
                for earlier, later in zip(first, now, strict=True)
                for what in ("handled", "busy_ns")
            )

        running.wait_for(all_work, "source, sink and scheduler work")

    def test_threads_that_answer_functions_are_not_on_their_cpus(self, running: Machine) -> None:
        unisd = running.pid_of("unisd")
        assert {
            line.split()[1]
            for status in Path(f"/proc/{unisd}/task").glob("*/status")
            for line in status.read_text().splitlines()
            if line.startswith("Cpus_allowed_list")
        } == {"0"}

    def test_trace_tells_who_ran_and_why(self, running: Machine) -> None:
        out = running.directory / "trace.json"
        running.unis("trace", "-o", str(out), "--seconds", "0.2")
        events = json.loads(out.read_text())
        events = events["traceEvents"] if isinstance(events, dict) else events
        ran = {event["name"] for event in events if event["ph"] == "X"}
        assert ran == {"a", "b", "c"}
        assert any(event["ph"] in "iI" for event in events)

    def test_every_policy_carries_packets_and_accounts_for_them(self, running: Machine) -> None:
        controller = running.ps()["stats"]["controller"]
        for policy in names.policies():
            running.set_policy(policy)
            before = running.ps()
            assert before["policy"] == policy
            if policy != "fifo":  # the first function never gives way
                assert_delivers_more_than(running, delivered(before))
            assert_whole(running.exact_account())
        running.unis("policy", "unis")
        stats = running.ps()["stats"]
        assert (stats["policy"], stats["controller"]) == ("POLICY_UNIS", controller)
        account = json.loads(running.unis("account", running.name, "--json"))
        assert_whole(account)
        assert account["in_flight"] == 0

    def test_policy_and_controller_are_changed_together(self, running: Machine) -> None:
        now = running.ps()["stats"]["controller"]
        other = "handover" if now == "CONTROLLER_SIGNAL" else "signal"
        running.unis("policy", "other")
        assert running.ps()["stats"]["controller"] == "CONTROLLER_UNSPECIFIED"
        assert "controller" not in running.unis("top", running.name, "--count", "1")
        running.unis("policy", "unis", "--controller", other)
        stats = running.ps()["stats"]
        assert (stats["policy"], stats["controller"]) == (
            "POLICY_UNIS",
            f"CONTROLLER_{other.upper()}",
        )
        assert_delivers_more_than(running, delivered(running.ps()))


def test_two_chains_get_the_packets_that_match(machine: Machine) -> None:
    chains = {
        "web": {"match": [{"dst_port": 80}], "path": ["a"]},
        "dns": {"match": [{"dst_port": 53}], "path": ["b"]},
    }
    machine.up(machine.chain_file({"a": macswap(), "b": macswap()}, chains=chains))
    machine.wait_for(
        lambda: all(
            int(chain.get("delivered", 0)) > 0 for chain in machine.ps()["stats"]["chains"]
        ),
        "both chains deliver",
    )
    assert_whole(machine.exact_account())


def test_the_time_of_a_function_on_memif_adds_up(machine: Machine) -> None:
    """Which counts no packets itself: its links do."""
    machine.up(machine.chain_file({"a": macswap(), "pmd": a_testpmd()}, traffic=SLOWLY))
    assert_delivers_more_than(machine, 0)
    assert_times_add_up(machine)


def test_a_capture_is_replayed_at_a_rate(machine: Machine) -> None:
    traffic = {"source": {"kind": "pcap", "file": str(CAPTURE)}, "rate": "200kpps"}
    machine.up(machine.chain_file({"a": macswap()}, traffic=traffic))
    machine.wait_for(lambda: delivered(machine.ps()) > 5_000, "replay")
    assert_whole(machine.exact_account())


def test_a_port_is_source_and_sink(machine: Machine) -> None:
    out = machine.directory / "out.pcap"
    device = f"net_pcap0,rx_pcap={CAPTURE},tx_pcap={out}"
    traffic = {
        "source": {"kind": "port", "device": device, "descriptors": 256},
        "sink": {"kind": "port", "device": device, "descriptors": 128},
    }
    machine.up(machine.chain_file({"a": macswap(), "b": macswap()}, traffic=traffic))
    machine.wait_for(lambda: delivered(machine.ps()) > 0, "the port delivers")
    (queues,) = machine.ps()["stats"]["devices"]
    assert (queues["rx_descriptors"], queues["tx_descriptors"]) == (256, 128)
    machine.down()
    assert out.stat().st_size > 24  # more than a header


def test_estimates_tell_a_heavy_function_from_a_light_one(machine: Machine) -> None:
    light, heavy = macswap(), macswap("heavy")
    for function in (light, heavy):
        del function["cost_ns"]
    functions = {"light": light, "heavy": heavy}
    file = machine.chain_file(functions, scheduler={"cost": "static"})
    found, _ = json.JSONDecoder().raw_decode(machine.unis("estimate", str(file), "--json"))
    costs = {name: cost["ns"] for name, cost in found.items()}
    assert 0 < costs["light"] < costs["heavy"]
    machine.up(file)  # which measures nothing again
    assert {it["name"]: it["cost_ns"] for it in machine.ps()["stats"]["functions"]} == costs


def test_a_cost_that_nobody_knows_is_assumed_then_followed_then_kept(machine: Machine) -> None:
    light, heavy = macswap(), macswap("heavy")
    for function in (light, heavy):
        del function["cost_ns"]
    file = machine.chain_file({"light": light, "heavy": heavy})

    def sources() -> set[str]:
        return {it["cost_source"] for it in machine.ps()["stats"]["functions"]}

    assert "measuring" not in machine.unis("up", str(file), "--detach")
    machine.wait_for(lambda: sources() == {"COST_SOURCE_FOLLOWED"}, "costs are not followed")
    assert_delivers_more_than(machine, delivered(machine.ps()))
    assert_whole(machine.exact_account())
    machine.down()
    machine.up(machine.chain_file({"light": light, "heavy": heavy}, scheduler={"cost": "static"}))
    costs = {it["name"]: it["cost_ns"] for it in machine.ps()["stats"]["functions"]}
    assert costs["heavy"] > costs["light"]
    assert sources() == {"COST_SOURCE_STATED"}
