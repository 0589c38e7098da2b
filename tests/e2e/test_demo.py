"""The demo shows what it promises: UNiS beside co-operative functions, ahead of the kernel."""

import json

import pytest

from tests.e2e.machine import EVALUATION, Machine


def test_the_demo_shows_what_it_promises(machine: Machine) -> None:
    out = machine.directory / "demo"
    machine.unis("demo", "--rounds", "2", "--window", "0.05", "--out", str(out))
    summary = json.loads((out / "summary.json").read_text())
    assert summary["accounted"] is True
    policies = summary["policies"]
    assert set(policies) == {"unis", "cooperative", "rr", "other"}
    for policy in policies.values():
        assert set(policy["mpps"]) == {"median", "q1", "q3"}
        assert {"p5", "p50", "p95", "p99"} <= set(policy["latency_us"])
        assert "drops" in policy
    # By how much the machine decides (docs/measuring.md): some hundred times here.
    mpps = {name: policy["mean_mpps"] for name, policy in policies.items()}
    assert min(mpps["unis"], mpps["cooperative"]) > max(mpps["other"], mpps["rr"])
    assert policies["unis"]["ratio_to_cooperative"]["median"] > 0
    assert "slices of" in summary["tuning"]["rr"]
    page = (out / "report.html").read_text()
    assert "<svg" in page
    assert 'src="http' not in page
    assert "Every packet is accounted for" in page


def test_two_controllers_are_compared_in_one_run(machine: Machine) -> None:
    out = machine.directory / "demo"
    arms = ("--arms", "unis/priority,unis/signal")
    machine.unis("demo", *arms, "--rounds", "2", "--window", "0.05", "--out", str(out))
    policies = json.loads((out / "summary.json").read_text())["policies"]
    assert set(policies) == {"unis/priority", "unis/signal"}
    assert all(policy["mean_mpps"] > 0 for policy in policies.values())


@pytest.mark.benchmark
def test_simulator_and_machine_are_held_against_each_other(machine: Machine) -> None:
    out = machine.directory / "agreement.json"
    words = ["agreement", "--functions", "2", "--rounds", "2", "--out", str(out)]
    process = machine.start(*words, program=EVALUATION)
    said, _ = process.communicate(timeout=180)
    found = json.loads(out.read_text())
    assert [chain["functions"] for chain in found] == [2], said
    # That they are compared is tested, not what comes of it: so few rounds may go either way.
    assert process.returncode == (0 if all(chain["agrees"] for chain in found) else 1), said
    for chain in found:
        assert set(chain["machine_mpps"]) == set(chain["simulator_mpps"])
        assert set(chain["machine_mpps"]) == {"unis", "cooperative", "rr", "other"}
        assert chain["machine_mpps"]["unis"] > 0
