"""Which signals end a run."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tests.python.signalling import taken_by_another_thread, wait_until
from unis.cli import run_app
from unis.runtime import supervisor
from unis.runtime.errors import (
    InterruptedRunError,
    RunFailedError,
    RunTimeoutError,
    interrupted_code,
)
from unis.runtime.interrupts import Interrupts, interrupts
from unis.runtime.run import Options
from unis.signals import blocked

SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_raises_and_the_second_makes_it_hurry(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with interrupts() as switch:
        with pytest.raises(InterruptedRunError) as raised:
            signal.raise_signal(number)
        assert interrupted_code(raised.value) == 128 + number
        assert not switch.forced()
        signal.raise_signal(number)
        assert switch.forced()
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", SIGNALS)
def test_what_nohup_has_us_ignore_is_ignored(number: signal.Signals) -> None:
    """But SIGTERM, which is how `unis down` ends a run."""
    before = signal.signal(number, signal.SIG_IGN)
    raised = False
    try:
        with interrupts():
            try:
                signal.raise_signal(number)
            except InterruptedRunError:
                raised = True
        assert raised == (number == signal.SIGTERM)
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_signal_is_raised_also_where_what_it_waited_for_fails() -> None:
    def fail() -> None:
        with switch.deferred():
            signal.raise_signal(signal.SIGTERM)
            raise ValueError("what was begun fails")

    with interrupts() as switch, pytest.raises(InterruptedRunError) as raised:
        fail()
    assert isinstance(raised.value.__cause__, ValueError)


def test_what_fails_without_a_signal_is_raised_as_it_is() -> None:
    failure = ValueError("it fails")
    with interrupts() as switch, pytest.raises(ValueError, match="fails") as raised:  # noqa: SIM117
        with switch.deferred():
            raise failure
    assert raised.value is failure


@pytest.fixture
def other_thread() -> Iterator[None]:
    """A thread that blocks no signal, as those of libraries: it takes what the main one blocks."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    yield
    end.set()
    thread.join()


@pytest.mark.usefixtures("other_thread")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_another_thread_takes_waits_for_the_end_of_the_block(
    number: signal.Signals,
) -> None:
    done: list[bool] = []

    def work() -> None:
        with blocked(), blocked():
            taken_by_another_thread(number)
            done.append(switch.heard())

    with interrupts() as switch:
        with pytest.raises(InterruptedRunError) as raised:
            work()
        assert interrupted_code(raised.value) == 128 + number
        assert done == [True]
        assert not switch.forced(), "it came once"
        with blocked():
            taken_by_another_thread(number)
        assert switch.forced(), "the second is heard too"


@pytest.mark.usefixtures("other_thread")
def test_two_signals_during_one_block_are_two() -> None:
    """What is done in the block may hurry."""
    hurried: list[bool] = []

    def work() -> None:
        with blocked():
            taken_by_another_thread(signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            hurried.append(wait_until(switch.forced))

    with interrupts() as switch:
        with pytest.raises(InterruptedRunError):
            work()
        assert hurried == [True]


@pytest.mark.usefixtures("other_thread")
def test_a_time_out_waits_for_the_end_of_the_block() -> None:
    done: list[bool] = []

    def work() -> None:
        with switch.within(60, "it did not end"), blocked():
            taken_by_another_thread(signal.SIGALRM)
            done.append(True)

    with interrupts() as switch, pytest.raises(RunTimeoutError, match="it did not end within"):
        work()
    assert done


def test_no_handler_of_faults_takes_a_time_out_for_one() -> None:
    def work() -> None:
        with switch.within(60, "it did not end"):
            try:
                signal.raise_signal(signal.SIGALRM)
            except Exception:
                return  # as a function is tried again that could not be restarted

    with interrupts() as switch, pytest.raises(RunTimeoutError, match="it did not end within 60 s"):
        work()


def test_a_time_out_while_signals_are_only_counted_is_raised_afterwards() -> None:
    def work() -> None:
        with switch.within(60, "it did not end"):
            switch.armed = False
            signal.raise_signal(signal.SIGALRM)
            switch.resume()

    with interrupts() as switch:
        with pytest.raises(RunTimeoutError, match="it did not end within"):
            work()
        switch.resume()  # it is forgotten with its block


def test_a_time_out_as_its_block_ends_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def set_timer(_which: int, seconds: float) -> None:
        if seconds == 0:
            signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(signal, "setitimer", set_timer)
    with interrupts() as switch, switch.within(60, "it did not end"):
        pass
    assert switch.armed


def test_a_time_out_of_a_run_is_told_whenever_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def late(*_: object) -> Iterator[None]:
        yield
        raise RunTimeoutError("it did not come up")

    run: Any = SimpleNamespace(engine_died=lambda: False)
    monkeypatch.setattr(Interrupts, "within", late)
    for name in ("running", "Supervisor", "LaunchedFunctions"):
        monkeypatch.setattr(supervisor, name, lambda *_: nullcontext(run))
    plan: Any = SimpleNamespace(name="x")
    job = supervisor.Job(Options(), print, Interrupts(), lambda _: None)
    with pytest.raises(RunFailedError, match="it did not come up"):
        supervisor.supervise(plan, job)


def test_without_a_time_out_its_signal_is_left_alone() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with interrupts() as switch, switch.within(None, "it did not end"):
        assert signal.getsignal(signal.SIGALRM) == before


@pytest.mark.usefixtures("other_thread")
def test_ctrl_c_of_any_command_waits_for_the_end_of_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[bool] = []

    def work() -> None:
        with blocked():
            taken_by_another_thread(signal.SIGINT)
            done.append(True)

    monkeypatch.setattr("unis.cli.app.run", work)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as ended:
            run_app("unis.cli.app")
    finally:
        signal.signal(signal.SIGINT, before)
    assert done
    assert ended.value.code == 130
