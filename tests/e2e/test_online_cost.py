"""The engine follows what packets cost while chains run."""

from tests.e2e.machine import Machine, macswap

STATED = {"a": 1.0, "b": 20_000.0, "c": 50.0}  # none of them is right


def costs(machine: Machine) -> dict[str, float]:
    """As the scheduler uses them now, ns a packet."""
    return {each["name"]: each["cost_ns"] for each in machine.ps()["stats"]["functions"]}


def come_right(machine: Machine) -> bool:
    """Alike for functions that do the same, and of another order for one that does far more."""
    now = costs(machine)
    alike = max(now["a"], now["b"]) < 2 * min(now["a"], now["b"])
    return alike and now["c"] > 3 * max(now["a"], now["b"])


def test_wrong_costs_come_right(machine: Machine) -> None:
    functions = {name: macswap(cost_ns=STATED[name]) for name in ("a", "b")}
    functions["c"] = macswap("1000", cost_ns=STATED["c"])
    file = machine.chain_file(functions)
    machine.up(file)
    for controller in ("priority", "handover"):
        machine.unis("policy", "unis", "--controller", controller)
        machine.wait_for(lambda: come_right(machine), f"costs are followed under {controller}")
    machine.down()
    machine.up(machine.chain_file(functions, scheduler={"cost": "static"}))
    assert costs(machine) == STATED
