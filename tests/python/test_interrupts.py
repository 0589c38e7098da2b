"""Which signals end a run."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from unis.runtime.errors import InterruptedRunError, RunFailedError, interrupted_code
from unis.runtime.interrupts import interrupts
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
            os.kill(os.getpid(), number)
            time.sleep(0.05)
            done.append(switch.heard())

    with interrupts() as switch:
        with pytest.raises(InterruptedRunError) as raised:
            work()
        assert interrupted_code(raised.value) == 128 + number
        assert done == [False]
        with blocked():
            os.kill(os.getpid(), number)
        assert switch.forced(), "the second is heard too"


@pytest.mark.usefixtures("other_thread")
def test_a_time_out_waits_for_the_end_of_the_block() -> None:
    done: list[bool] = []

    def work() -> None:
        with switch.within(60, "it did not end"), blocked():
            os.kill(os.getpid(), signal.SIGALRM)  # as its timer does
            time.sleep(0.05)
            done.append(True)

    with interrupts() as switch, pytest.raises(RunFailedError, match="it did not end within"):
        work()
    assert done
