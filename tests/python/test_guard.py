"""The guard gives functions back: real-time processes on CPU 1, and a false unisd."""

import contextlib
import ctypes
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import need, need_real_time
from tests.python.spinning import CPU, SPIN, identity, process
from unis.runtime.directory import RunDirectory
from unis.runtime.held import HeldFile, Pulse, Stillness, put_fair_slice
from unis.runtime.process import ProcessId, keep_off
from unis.runtime.state import RunState

pytestmark = pytest.mark.system

# As engine/run/held_file.h has it.
HEADER = struct.Struct("=5I44x")
THREAD = struct.Struct("=iiQiiii128s")
MAGIC, VERSION, BEATS, THREADS, RETURNED = 0x444C4548, 3, 32, 256, 16


@dataclass(frozen=True)
class Entry:
    """A thread as unisd notes it."""

    process: ProcessId
    policy: int = os.SCHED_BATCH
    priority: int = 0
    nice: int = 5
    cpus: frozenset[int] = frozenset({CPU})
    slice_ns: int = 0

    def packed(self) -> bytes:
        pid, start = self.process.pid, self.process.start_time
        mask = sum(1 << cpu for cpu in self.cpus).to_bytes(128, sys.byteorder)
        return THREAD.pack(
            pid, pid, start, self.policy, self.priority, self.nice, self.slice_ns, mask
        )


def write_held(path: Path, *entries: Entry, loops: int = 0, version: int = VERSION) -> Path:
    """Loops that never go on."""
    threads = b"".join(entry.packed() for entry in entries).ljust(THREADS * THREAD.size, b"\0")
    path.write_bytes(HEADER.pack(MAGIC, version, loops, 0, 0) + bytes(BEATS * 64) + threads)
    return path


def returned(path: Path) -> int:
    return path.read_bytes()[RETURNED]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run whose launcher, we, lives and minds nothing."""
    need_real_time()
    keep_off({CPU})
    directory = RunDirectory(tmp_path / "run" / "runs" / "test")
    directory.make()
    directory.write(
        RunState(
            run_id="one", name="test", chain_file="x.yaml", groups=["unis-pytest"], cpus=[CPU],
            platform_cpus=[0], hugepages_mb=0, launcher=ProcessId.me(),
        )
    )  # fmt: skip
    return directory


@dataclass
class Guarded:
    """A guard and the process that it takes for unisd."""

    guard: subprocess.Popen[bytes]
    unisd: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        return self.log.read_text()


@contextlib.contextmanager
def guarding(directory: RunDirectory) -> Iterator[Guarded]:
    log = directory.path / "guard.txt"
    with (
        log.open("wb") as stream,
        subprocess.Popen(["sleep", "60"]) as unisd,
        subprocess.Popen(
            [sys.executable, "-P", "-m", "unis.runtime.guard", directory.path, "one"],
            stdin=subprocess.PIPE, stderr=stream, start_new_session=True,
        ) as guard,
    ):  # fmt: skip
        try:
            assert guard.stdin
            guard.stdin.write(f"unisd {unisd.pid}\n".encode())
            guard.stdin.flush()
            assert soon(lambda: os.sched_getscheduler(guard.pid) & 0xFF == os.SCHED_FIFO)
            yield Guarded(guard, unisd, log)
        finally:
            guard.kill()
            unisd.kill()


def soon(condition: Callable[[], bool]) -> bool:
    """A bound, not an expectation."""
    end = time.monotonic() + 20
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def scheduling(child: subprocess.Popen[bytes]) -> tuple[int, int]:
    return os.sched_getscheduler(child.pid), os.getpriority(os.PRIO_PROCESS, child.pid)


def fair_slice(tid: int) -> int:
    """Its time slice in the kernel's fair classes, ns; 0: the kernel knows none of threads."""
    attributes = ctypes.create_string_buffer(48)
    sched_getattr = 315
    assert ctypes.CDLL(None).syscall(sched_getattr, tid, attributes, 48, 0) == 0
    return int.from_bytes(attributes.raw[24:32], sys.byteorder)


def test_the_death_of_unisd_returns_the_threads(run: RunDirectory) -> None:
    with process(SPIN, real_time=10) as one, process(SPIN, real_time=20) as two:
        write_held(run.held, Entry(identity(one)), Entry(identity(two), os.SCHED_OTHER, nice=0))
        with guarding(run) as it:
            time.sleep(0.3)
            assert scheduling(one) == (os.SCHED_RR, 0), "nothing happened yet"
            it.unisd.kill()
            it.unisd.wait()
            assert soon(lambda: scheduling(one) == (os.SCHED_BATCH, 5))
            assert soon(lambda: scheduling(two) == (os.SCHED_OTHER, 0))
            assert one.poll() is two.poll() is None, "the launcher lives, and may end them itself"
            assert soon(lambda: "unisd died" in it.said()), "said once all are returned"


def test_they_have_the_time_slices_that_they_had(run: RunDirectory) -> None:
    idle = Entry(ProcessId.me(), os.SCHED_IDLE)
    found = (Entry(ProcessId.me()), replace(idle, slice_ns=7_000_000), replace(idle, nice=0))
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(process(SPIN)) for _ in found]
        base = fair_slice(children[0].pid)
        need(base > 0, "needs a kernel that knows slices of threads, Linux 6.12")
        for child in children:
            os.sched_setaffinity(child.pid, {CPU})  # the guard must not wait behind it
            put_fair_slice(child.pid, 50_000_000, nice=0)
        os.sched_setscheduler(children[2].pid, os.SCHED_RR, os.sched_param(1))
        entries = [
            replace(one, process=identity(child))
            for one, child in zip(found, children, strict=True)
        ]
        write_held(run.held, *entries, loops=1)
        with guarding(run) as it:
            assert soon(lambda: returned(run.held) == 1)
            assert all(child.poll() is None for child in children), "an ended one keeps its slice"
            slices = [fair_slice(child.pid) for child in children]
            assert slices == [base, 7_000_000, base], it.said()
            assert [scheduling(child) for child in children] == [
                (one.policy, one.nice) for one in found
            ]
            assert "cannot" not in it.said()


def test_from_a_dead_unisd_they_have_their_cpus_again_from_one_that_goes_on_not(
    run: RunDirectory,
) -> None:
    with process(SPIN, real_time=10) as nf, guarding(run) as it:
        write_held(run.held, Entry(identity(nf), cpus=frozenset({0})), loops=1)
        assert soon(lambda: returned(run.held) == 1)
        assert os.sched_getaffinity(nf.pid) == {CPU}
        it.unisd.kill()
        assert soon(lambda: os.sched_getaffinity(nf.pid) == {0})


def test_where_functions_are_others_the_death_of_unisd_undoes_nothing_else(
    run: RunDirectory,
) -> None:
    state = run.read()
    assert state
    run.write(state.with_changes(attached=True))
    with process(SPIN, real_time=10) as nf, guarding(run) as it:
        write_held(run.held, Entry(identity(nf)))
        it.unisd.kill()
        it.unisd.wait()
        assert soon(lambda: scheduling(nf) == (os.SCHED_BATCH, 5))
        assert it.guard.poll() is None, "it waits for another unisd"
        run.held.unlink()
        with subprocess.Popen(["sleep", "60"]) as another:
            os.sched_setscheduler(nf.pid, os.SCHED_RR, os.sched_param(3))
            write_held(run.held, Entry(identity(nf)))
            assert it.guard.stdin
            it.guard.stdin.write(f"unisd {another.pid}\n".encode())
            it.guard.stdin.flush()
            time.sleep(0.2)
            assert scheduling(nf)[0] == os.SCHED_RR
            another.kill()
        assert soon(lambda: scheduling(nf) == (os.SCHED_BATCH, 5)), "which is looked after too"
        assert nf.poll() is None


def watches(guard: subprocess.Popen[bytes], pid: int) -> bool:
    """Whether it has a pidfd of the process."""
    infos = Path(f"/proc/{guard.pid}/fdinfo").iterdir()
    return any(f"\nPid:\t{pid}\n" in info.read_text() for info in infos)


def test_it_leaves_alone_what_the_next_unisd_has_adopted_and_sees_that_die(
    run: RunDirectory,
) -> None:
    state = run.read()
    assert state
    run.write(state.with_changes(attached=True))
    with (
        process(SPIN, real_time=10) as nf,
        subprocess.Popen(["sleep", "60"]) as another,
        guarding(run) as it,
    ):
        write_held(run.held, Entry(identity(nf)), loops=1)
        assert soon(lambda: returned(run.held) == 1), "it has the file of the first open"
        os.sched_setscheduler(nf.pid, os.SCHED_RR, os.sched_param(3))
        os.kill(it.guard.pid, signal.SIGSTOP)
        it.unisd.kill()
        it.unisd.wait()
        run.held.unlink()
        assert it.guard.stdin
        it.guard.stdin.write(f"unisd {another.pid}\n".encode())
        it.guard.stdin.flush()
        os.kill(it.guard.pid, signal.SIGCONT)
        assert soon(lambda: watches(it.guard, another.pid)), "it has heard of both at once"
        assert scheduling(nf)[0] == os.SCHED_RR
        write_held(run.held, Entry(identity(nf)))
        another.kill()
        assert soon(lambda: scheduling(nf) == (os.SCHED_BATCH, 5))


def test_the_death_of_the_launcher_returns_them_too(run: RunDirectory) -> None:
    with process(SPIN, real_time=10) as nf:
        write_held(run.held, Entry(identity(nf)))
        with guarding(run) as it:
            assert it.guard.stdin
            it.guard.stdin.close()
            assert soon(lambda: scheduling(nf) == (os.SCHED_BATCH, 5))


def test_a_loop_that_stands_still_returns_them_as_often_as_it_does(run: RunDirectory) -> None:
    with process(SPIN, real_time=10) as nf, guarding(run) as it:
        write_held(run.held, Entry(identity(nf)), loops=1)
        assert soon(lambda: returned(run.held) == 1)
        assert scheduling(nf) == (os.SCHED_BATCH, 5), "they are back before it is said"
        # unisd takes them again, and stands still for another time.
        os.sched_setscheduler(nf.pid, os.SCHED_RR, os.sched_param(3))
        time.sleep(0.3)
        assert scheduling(nf)[0] == os.SCHED_RR, "as long as it is said they are unisd's to take"
        with run.held.open("r+b") as file:
            file.seek(RETURNED)
            file.write(bytes(4))
        assert soon(lambda: scheduling(nf) == (os.SCHED_BATCH, 5))
        assert it.guard.poll() is None
        assert it.said().count("stands still") == 2


def test_loops_that_nobody_watches_may_stand_still(run: RunDirectory) -> None:
    with process(SPIN, real_time=10) as nf, guarding(run):
        write_held(run.held, Entry(identity(nf)), loops=0)
        time.sleep(0.5)
        assert scheduling(nf)[0] == os.SCHED_RR
        assert returned(run.held) == 0


def test_a_stranger_who_got_the_number_is_left_alone(run: RunDirectory) -> None:
    with process(SPIN, real_time=10) as nf, process(SPIN, real_time=20) as stranger:
        theirs = identity(stranger)
        gone = ProcessId(theirs.pid, theirs.start_time - 1)
        write_held(run.held, Entry(gone), Entry(identity(nf)), loops=1)
        with guarding(run):
            assert soon(lambda: returned(run.held) == 1)
            assert scheduling(nf) == (os.SCHED_BATCH, 5)
            assert scheduling(stranger)[0] == os.SCHED_RR


def test_a_stopped_function_goes_on(run: RunDirectory) -> None:
    def state() -> str:
        return Path(f"/proc/{nf.pid}/stat").read_text().rpartition(")")[2].split()[0]

    with process(SPIN) as nf:
        os.kill(nf.pid, signal.SIGSTOP)
        assert soon(lambda: state() == "T")
        write_held(run.held, Entry(identity(nf), os.SCHED_OTHER, nice=0), loops=1)
        with guarding(run):
            assert soon(lambda: state() == "R")


def test_a_file_of_another_version_is_told_and_the_run_is_guarded(run: RunDirectory) -> None:
    with process(SPIN) as nf:
        write_held(run.held, Entry(identity(nf)), loops=1, version=7)
        with guarding(run) as it:
            assert soon(lambda: "has layout 7" in it.said())
            time.sleep(0.2)
            assert it.said().count("has layout 7") == 1
            assert scheduling(nf)[0] == os.SCHED_OTHER
            assert it.guard.poll() is None


# ------------------------------------------------------------------ without processes


def looks(*beats: tuple[int, ...], changing: bool = False, given_back: bool = False) -> list[bool]:
    stillness = Stillness(looks=2, looks_while_changing=3)
    return [stillness.look(Pulse(beat, changing, given_back)) for beat in beats]


def test_stillness_is_seen_after_so_many_looks() -> None:
    assert looks((1,), (1,), (1,)) == [False, False, True]
    assert looks((1,), (1,), (2,), (2,), (2,)) == [False, False, False, False, True]


def test_one_loop_of_several_is_enough() -> None:
    assert looks((1, 1), (2, 1), (3, 1)) == [False, False, True]


def test_no_loop_never_stands_still() -> None:
    assert not any(looks(*[()] * 9))
    assert looks((1,), (1,), (1, 1), (1, 1), (1, 1)) == [False] * 4 + [True], "others are watched"


def test_while_a_policy_changes_there_is_more_patience() -> None:
    assert looks(*[(1,)] * 4, changing=True) == [False, False, False, True]


def test_what_was_put_back_is_not_put_back_again() -> None:
    assert not any(looks(*[(1,)] * 9, given_back=True))


@given(data=st.binary(max_size=600), tail=st.binary(max_size=200), loops=st.integers(0, 2**32 - 1))
def test_any_bytes_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, tail: bytes, loops: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "held"
    beats = data.ljust(BEATS * 64, b"\1")
    path.write_bytes(HEADER.pack(MAGIC, VERSION, loops, 0, 0) + beats + tail + data)
    held = HeldFile.open(path)
    assert held
    try:
        assert len(held.pulse().beats) == min(loops, BEATS)
        for it in held.threads():
            assert it.thread.pid > 0
            assert it.thread.tid > 0
            assert 0 <= it.priority < 100
            assert -20 <= it.nice < 20
            assert it.cpus <= {*range(1024)}
    finally:
        held.close()


@pytest.mark.parametrize("data", [b"", b"HELD", bytes(43072)])
def test_a_file_that_is_not_written_yet_is_none(tmp_path: Path, data: bytes) -> None:
    assert HeldFile.open(tmp_path / "held") is None
    (tmp_path / "held").write_bytes(data)
    assert HeldFile.open(tmp_path / "held") is None
