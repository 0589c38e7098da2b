"""What unisd holds, put back: also where something of it cannot be."""

import errno
import os
from pathlib import Path

import pytest

from tests.needs import need_real_time
from tests.python.spinning import SPIN, identity, process
from tests.python.test_guard import Entry, scheduling, write_held
from unis.engine.limits import limit
from unis.runtime import held
from unis.runtime.held import HeldFile, HeldThread

pytestmark = pytest.mark.system


def the_thread(file: Path) -> HeldThread:
    opened = HeldFile.open(file)
    assert opened
    (thread,) = opened.threads()
    opened.close()
    return thread


def test_a_slice_that_cannot_be_put_back_keeps_nobody_in_a_real_time_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> None:
        raise OSError(errno.EPERM, "not here")

    need_real_time()
    monkeypatch.setattr(held, "put_fair_slice", refused)
    with process(SPIN, real_time=10) as nf:
        thread = the_thread(write_held(tmp_path / "held", Entry(identity(nf))))
        told = thread.put_back()
        assert scheduling(nf) == (os.SCHED_BATCH, 5)
    assert told
    assert "time slice" in told
    assert "not here" in told


def test_a_slice_that_nobody_can_have_is_none(tmp_path: Path) -> None:
    with process(SPIN) as nf:
        file = write_held(tmp_path / "held", Entry(identity(nf), slice_ns=2_000_000_000))
        assert the_thread(file).slice_ns == 0


def test_the_longest_slice_is_the_contract_s(tmp_path: Path) -> None:
    """A guard reads no contract."""
    most = int(limit("DeployRequest.fair_slice_ns").max or 0)
    with process(SPIN) as nf:
        for slice_ns, read in ((most, most), (most + 1, 0)):
            file = write_held(tmp_path / "held", Entry(identity(nf), slice_ns=slice_ns))
            assert the_thread(file).slice_ns == read
