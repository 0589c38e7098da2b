"""Which signals end a run."""

import signal

import pytest

from unis.runtime.errors import InterruptedRunError
from unis.runtime.interrupts import interrupts

SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_raises_and_the_second_makes_it_hurry(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with interrupts() as switch:
        with pytest.raises(InterruptedRunError):
            signal.raise_signal(number)
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
