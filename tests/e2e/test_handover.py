"""Functions pass the CPU on where they poll: UNiS' plug-in is in each that UNiS starts."""

import json
import os
import signal
from statistics import median

from tests.e2e.machine import Json, Machine, macswap
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered
from tests.e2e.third_party import a_testpmd, third_party

HANDOVER = {"controller": "handover"}


def switched_in(machine: Machine) -> dict[str, int]:
    """How often each function had its turn, so far."""
    return {
        function["name"]: function["switched_in"] for function in machine.ps()["stats"]["functions"]
    }


def assert_all_have_turns(machine: Machine) -> None:
    """Each function, from now on."""
    before = switched_in(machine)
    machine.wait_for(
        lambda: all(count > before[name] for name, count in switched_in(machine).items()),
        "each function has its turn",
    )


def state_of(machine: Machine, name: str) -> str:
    functions = machine.ps()["stats"]["functions"]
    return next(str(function["state"]) for function in functions if function["name"] == name)


def distributor() -> Json:
    """Threads that poll only rings inside their program, beside one that polls the ports."""
    command = [str(third_party("distributor")), "-p", "3", "-c"]
    return {"command": command, "cpu": 1, "lcores": 4, "cost_ns": 50}


def test_third_party_programs_hand_the_cpu_over(machine: Machine) -> None:
    functions = {name: a_testpmd() for name in ("a", "b", "c")}
    machine.up(machine.chain_file(functions, scheduler=HANDOVER))
    assert machine.ps()["stats"]["controller"] == "CONTROLLER_HANDOVER"
    assert_delivers_more_than(machine, delivered(machine.ps()) + 100_000)
    assert_all_have_turns(machine)
    for controller in ("priority", "handover"):
        machine.unis("policy", "unis", "--controller", controller)
        assert_delivers_more_than(machine, delivered(machine.ps()) + 100_000)
    assert_whole(machine.exact_account())
    # Under other policies it is as if the plug-in were not there.
    machine.unis("policy", "other")
    before = switched_in(machine)
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    assert switched_in(machine) == before
    machine.down()
    machine.assert_clean()


def order_of_switches(machine: Machine) -> tuple[int, int, int]:
    """Of the functions' CPU so far: switches seen, those out of order, repairs."""
    (core,) = machine.ps()["stats"]["cores"]
    return core["order_seen"], core["out_of_order"], core["order_repairs"]


def reverse_the_line(machine: Machine) -> None:
    """As wake-ups may leave it: each function goes to the end of the line, the last one first."""
    for function in reversed(machine.ps()["stats"]["functions"]):
        for priority in (1, 2):
            os.sched_setparam(function["tid"], os.sched_param(priority))


def test_functions_that_left_the_order_of_their_chain_are_put_back(machine: Machine) -> None:
    functions = {name: macswap() for name in "abcdef"}
    polling = {"max_delay_us": 0, "idle_us": 0}

    def out_of_order(keep: bool) -> tuple[float, int]:
        """The share of the switches of a while, and repairs, where the line was reversed before."""
        scheduler = {**HANDOVER, **polling, "keep_order": keep}
        file = machine.chain_file(functions, scheduler=scheduler, traffic={"rate": "100kpps"})
        machine.unis("apply", str(file))
        earlier = order_of_switches(machine)[2]
        reverse_the_line(machine)
        machine.wait_for(
            lambda: not keep or order_of_switches(machine)[2] > earlier, "the line is put in order"
        )
        before = order_of_switches(machine)
        machine.wait_for(
            lambda: order_of_switches(machine)[0] > before[0] + 1000, "switches are seen"
        )
        seen, wrong, repairs = order_of_switches(machine)
        return (wrong - before[1]) / (seen - before[0]), repairs - earlier

    file = machine.chain_file(functions, scheduler=HANDOVER | polling, traffic={"rate": "100kpps"})
    machine.up(file)
    assert_delivers_more_than(machine, 10_000)
    left, repairs = out_of_order(keep=False)
    assert left > 0.5
    assert repairs == 0
    put_back, repairs = out_of_order(keep=True)
    assert put_back < 0.1
    assert repairs > 0


def packets_of_turns(machine: Machine) -> list[int]:
    """Of function b, for each turn of a while in which it took more than a burst.

    Where the source gets no CPU for some milliseconds, thousands of turns are empty polls.
    """
    trace = machine.directory / "turns.json"
    machine.unis("trace", "-o", str(trace), "--seconds", "0.3")
    return [
        event["args"]["packets"]
        for event in json.loads(trace.read_text())["traceEvents"]
        if event["ph"] == "X" and event["name"] == "b" and event["args"]["packets"] > 64
    ]


def test_turns_are_as_long_as_the_budget(machine: Machine) -> None:
    # So slow that a look at the counters sees each turn, and the source keeps the rings full.
    functions = {name: macswap("10000", cost_ns=4500) for name in ("a", "b", "c")}
    machine.up(machine.chain_file(functions, scheduler={**HANDOVER, "quota": 128}))
    turns = packets_of_turns(machine)
    assert len(turns) > 20, turns
    # The engine sees two turns as one where it got no CPU meanwhile: beside compilers, a third.
    assert median(turns) <= 128 + 64, f"a burst more at most: {turns}"
    assert machine.ps()["stats"]["cores"][0]["quota"] == 128
    machine.unis("apply", str(machine.chain_file(functions, scheduler=HANDOVER)))
    machine.wait_for(lambda: median(packets_of_turns(machine) or [0]) > 128 + 64, "longer turns")
    assert machine.ps()["stats"]["cores"][0]["quota"] > 128
    machine.unis("policy", "unis", "--controller", "priority")
    assert machine.ps()["stats"]["cores"][0]["quota"] == 0


def test_threads_that_pass_nothing_on_have_turns_between_those_that_do(machine: Machine) -> None:
    # It starts slowly: the others, which come first, are the servers of their memifs.
    functions = {"a": a_testpmd(), "b": a_testpmd(), "distributor": distributor()}
    chains = {"chain": {"path": ["a", "distributor", "b"]}}
    machine.up(machine.chain_file(functions, chains=chains, scheduler=HANDOVER))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 5_000)
    assert_all_have_turns(machine)


def test_a_function_that_stops_dies_or_comes_back_holds_up_nobody_for_long(
    machine: Machine,
) -> None:
    functions = {name: macswap(restart="on-failure") for name in ("a", "b", "c")}
    machine.up(machine.chain_file(functions, scheduler=HANDOVER))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    pid = machine.pid_of("b")
    os.kill(pid, signal.SIGSTOP)
    try:
        before = switched_in(machine)
        machine.wait_for(
            lambda: all(switched_in(machine)[name] > before[name] + 1000 for name in ("a", "c")),
            "the others have their turns",
        )
        said = machine.unis("ps", machine.name)
        assert f"b was stopped by a signal; let it go on by `kill -CONT {pid}`" in said
        assert state_of(machine, "b") == "FUNCTION_STATE_STOPPED"
    finally:
        os.kill(pid, signal.SIGCONT)
    machine.wait_for(lambda: state_of(machine, "b") != "FUNCTION_STATE_STOPPED", "it goes on")
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    machine.kill(pid)
    machine.wait_for(lambda: machine.ps()["functions"].get("b", pid) != pid, "b is not back")
    assert_all_have_turns(machine)
    assert_delivers_more_than(machine, delivered(machine.ps()) + 10_000)
    assert_whole(machine.exact_account())
