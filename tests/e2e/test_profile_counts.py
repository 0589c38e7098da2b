"""What a profile counts beside the parts of a packet's time, and where its functions run."""

import contextlib
import ctypes
import os
import shutil
import signal
import struct
import time
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, macswap
from tests.e2e.test_veth import on_veths
from tests.needs import need
from unis.chain.load import load
from unis.counted.counting import COSTLY, FREE, Counting, counted_chain
from unis.counted.references import PROVIDER, references
from unis.counted.schedstat import parse_switches
from unis.engine.client import EngineClient
from unis.parts.result import ChainParts
from unis.plan.model import Plan
from unis.runtime.directory import run_directory
from unis.runtime.planning import plan_anywhere

_PROCESS_MADVISE, _PAGEOUT = 440, 21  # of Linux
_SHORT = ("--rounds", "2", "--window", "0.2")
_TOLD = (0, 1)  # 1: the parts do not explain the latency, as where other programs disturb it


def chain_file(machine: Machine, **costs: str) -> Path:
    functions = {name: macswap(cost) for name, cost in costs.items()}
    links = on_veths(*functions, driver="mmsg")
    return machine.chain_file(functions, links=links, traffic={"rate": "5kpps"})


def switches(pid: int) -> dict[str, int]:
    """Of all threads."""
    found: dict[str, int] = {}
    for file in Path(f"/proc/{pid}/task").glob("*/status"):
        for what, count in parse_switches(file.read_text()).items():
            found[what] = found.get(what, 0) + count
    return found


def faults(pid: int) -> int:
    """Of all threads, minor and major, as proc(5) has them."""
    found = 0
    for file in Path(f"/proc/{pid}/task").glob("*/stat"):
        words = file.read_text().rpartition(")")[2].split()
        found += int(words[7]) + int(words[9])
    return found


def up(machine: Machine, **costs: str) -> Plan:
    file = chain_file(machine, **costs)
    machine.up(file)
    return plan_anywhere(load(file, machine.name))


def page_out(pid: int) -> None:
    """Takes the code of its program from it, so that it must fault it in again."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.pidfd_open(pid)
    try:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split()
            if len(words) < 6 or not words[1].startswith("r-x") or "/" not in words[5]:
                continue
            begin, end = (int(word, 16) for word in words[0].split("-"))
            span = struct.pack("=QQ", begin, end - begin)
            libc.syscall(_PROCESS_MADVISE, descriptor, span, ctypes.c_size_t(1), _PAGEOUT, 0)
    finally:
        os.close(descriptor)


def test_counts_of_a_function_are_those_of_the_kernel(machine: Machine) -> None:
    plan = up(machine, only="light")
    pid = machine.ps()["functions"]["only"]
    with EngineClient(run_directory(machine.name).socket) as client:
        chain = counted_chain(plan, client)
        counting = Counting(chain, (*FREE, *COSTLY))
        outer = (switches(pid), faults(pid))
        counting.begin()
        inner = (switches(pid), faults(pid))
        page_out(pid)
        time.sleep(1)
        inner_end = (switches(pid), faults(pid))
        counting.end()
        outer_end = (switches(pid), faults(pid))
    (window,) = counting.windows
    found = window.by_provider["schedstat"]
    for what in ("voluntary switches", "involuntary switches"):
        least = inner_end[0][what] - inner[0][what]
        most = outer_end[0][what] - outer[0][what]
        assert least <= found["only", what] <= most
    assert found["only", "voluntary switches"] > 0
    faulted = window.by_provider["software events"]["only", "page faults"]
    assert inner_end[1] - inner[1] <= faulted <= outer_end[1] - outer[1]
    assert faulted > 0
    received = window.by_provider["kernel"]["only", "device received"]
    assert received == pytest.approx(window.packets["only"], rel=0.1, abs=100)


@pytest.mark.long
def test_the_code_of_the_busy_function_is_named(machine: Machine, tmp_path: Path) -> None:
    need(shutil.which("perf") is not None, "needs perf: apt-get install linux-perf")
    machine.up(chain_file(machine, light="light", busy="30000"))
    words = ("profile", "chain", machine.name, "-o", str(tmp_path), "--hot", *_SHORT)
    said = machine.unis(*words, codes=_TOLD)
    found = ChainParts.model_validate_json((tmp_path / "profile.json").read_text())
    assert found.hot
    hot = {each.name: each for each in found.hot.functions}
    assert hot["busy"].samples > hot["light"].samples
    hottest = hot["busy"].symbols[0]
    assert hottest.symbol.startswith("unis::functions::")
    assert hottest.module == "macswap"
    assert f"{hottest.share:.1%}" in said
    folded = (tmp_path / "hot.folded").read_text().splitlines()
    counted = sum(int(line.rpartition(" ")[2]) for line in folded if line.startswith("busy;"))
    assert counted == hot["busy"].samples
    assert hottest.symbol.partition("<")[0] in (tmp_path / "hot.svg").read_text()


def samplers(pid: int) -> list[int]:
    """Processes of perf that sample `pid`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            words = path.read_bytes().split(b"\0")
            if b"record" in words and str(pid).encode() in words:
                found.append(int(path.parent.name))
    return found


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_perf_outlives_a_profile(machine: Machine, number: signal.Signals) -> None:
    need(shutil.which("perf") is not None, "needs perf: apt-get install linux-perf")
    machine.up(chain_file(machine, only="light"))
    pid = machine.ps()["functions"]["only"]
    process = machine.start("profile", "chain", machine.name, "--hot", *_SHORT)
    machine.wait_for(lambda: bool(samplers(pid)), "perf does not come")
    process.send_signal(number)
    process.communicate()
    machine.wait_for(lambda: not samplers(pid), "perf is left")


@pytest.mark.long
def test_without_perf_the_rest_works_and_it_is_said(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.up(chain_file(machine, only="light"))
    folders = [each for each in os.environ["PATH"].split(":") if not (Path(each) / "perf").exists()]
    monkeypatch.setenv("PATH", ":".join(folders))
    words = ("profile", "chain", machine.name, "-o", str(tmp_path), "--hot", *_SHORT)
    said = machine.unis(*words, codes=_TOLD)
    assert "hot functions: perf is missing (apt-get install linux-perf)" in said
    found = ChainParts.model_validate_json((tmp_path / "profile.json").read_text())
    assert found.hot is None
    assert found.counted
    (only,) = [place for place in found.counted.places if place.name == "only"]
    assert {"run", "voluntary switches", "device received", "page faults"} <= set(only.counts)
    assert {"Wait/Run", "Contention/Run"} == set(only.ratios)
    assert not (tmp_path / "hot.svg").exists()


def test_references_of_a_function_are_modelled(machine: Machine) -> None:
    need(shutil.which("valgrind") is not None, "needs valgrind: apt-get install valgrind")
    plan = plan_anywhere(load(chain_file(machine, only="light"), machine.name))
    (only,), missing = references(plan, lambda _: None)
    assert missing == []
    assert {each.provider for each in only.counts.values()} == {PROVIDER}
    # It swaps two addresses: some 30 instructions.
    assert 10 < only.counts["instructions"].value < 100
    assert 0 < only.counts["data references"].value < only.counts["instructions"].value
