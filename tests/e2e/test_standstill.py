"""No function stays in a real-time class, stopped or frozen when unisd cannot schedule it."""

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, macswap
from unis.runtime.directory import run_directory


class Threads:
    """The polling threads of a run, looked at without asking the engine."""

    def __init__(self, machine: Machine) -> None:
        functions = machine.ps()["stats"]["functions"]
        self._tids = [int(function["tid"]) for function in functions]
        self._ran = self._cpu_times()

    def classes(self) -> set[int]:
        return {os.sched_getscheduler(tid) & 0xFF for tid in self._tids}

    def _cpu_times(self) -> list[int]:
        return [int(Path(f"/proc/{tid}/schedstat").read_text().split()[0]) for tid in self._tids]

    def all_run(self) -> bool:
        """Whether each has had CPU time since this was asked last."""
        before, self._ran = self._ran, self._cpu_times()
        return all(now > then for now, then in zip(self._ran, before, strict=True))

    def are_back(self) -> bool:
        return self.classes() == {os.SCHED_OTHER} and self.all_run()


@pytest.mark.parametrize("controller", ["priority", "signal"])
def test_an_engine_that_stands_still_lets_go_and_takes_again(
    machine: Machine, controller: str
) -> None:
    file = machine.chain_file({name: macswap() for name in "abc"})
    machine.up(file, "--controller", controller)
    threads = Threads(machine)
    unisd = machine.pid_of("unisd")
    logs = run_directory(machine.name)

    def wait_for_line(log: Path, words: str, times: int) -> None:
        machine.wait_for(lambda: log.read_text().count(words) >= times, f"not said: {words}")

    for times in (1, 2):
        os.kill(unisd, signal.SIGSTOP)
        wait_for_line(logs.event_log, "stands still", times)
        machine.wait_for(threads.are_back, "the functions are not back in their old class")
        os.kill(unisd, signal.SIGCONT)
        wait_for_line(logs.unisd_log, "took them again", times)
    before = machine.ps()
    assert before["policy"] == "unis"
    if controller == "priority":
        assert threads.classes() == {os.SCHED_RR}
    machine.wait_for(
        lambda: bool(
            machine.ps()["stats"]["account"]["delivered"]
            > before["stats"]["account"]["delivered"] + 100_000
        ),
        "the chain delivers no more",
    )
    assert machine.exact_account()["unaccounted"] == 0


def test_the_death_of_the_engine_returns_the_functions_though_the_launcher_sleeps(
    machine: Machine,
) -> None:
    machine.up(machine.chain_file({"a": macswap(), "b": macswap()}))
    threads, run = Threads(machine), machine.ps()
    assert threads.classes() == {os.SCHED_FIFO}
    launcher = run["launcher"]["pid"]
    os.kill(launcher, signal.SIGSTOP)
    try:
        machine.kill(run["unisd"]["pid"])
        machine.wait_for(threads.are_back, "the functions are not back in their old class")
        machine.wait_for(
            lambda: set(machine.processes()) <= {launcher},
            "the guard does not undo it",
        )
    finally:
        os.kill(launcher, signal.SIGCONT)
