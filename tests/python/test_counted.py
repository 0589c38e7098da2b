"""What is counted of functions: the kernel's files, events that share counters, sums and ratios."""

import errno
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import need
from unis.cli.counted_tables import print_counted
from unis.counted import events
from unis.counted.counting import Counting, packets_of
from unis.counted.engine import counts_of as engine_counts
from unis.counted.events import HARDWARE_EVENTS, SHARED, SOFTWARE_EVENTS, PerfEvents
from unis.counted.flows import Flows
from unis.counted.kernel import (
    KernelStatistics,
    parse_devices,
    parse_interrupts,
    parse_softnet,
)
from unis.counted.provider import CHAIN, CountedChain, CountedFunction
from unis.counted.references import parse_sums
from unis.counted.result import (
    CONTENTION_RUN,
    WAIT_RUN,
    Counted,
    WindowCounts,
    counted_of,
    least_share,
    merged,
    ratios_of,
)
from unis.counted.schedstat import (
    ELAPSED,
    RAN,
    WAITED,
    Schedstat,
    of_threads,
    parse_schedstat,
    parse_switches,
)
from unis.engine.client import EngineClient, EngineError
from unis.measure.counters import CountersError, EventReading, PerfEvent
from unis.v1 import engine_pb2 as pb

NUMBERS = st.integers(0, 2**40)


def chain_of(*functions: CountedFunction, cpus: tuple[int, ...] = ()) -> CountedChain:
    return CountedChain(cast("EngineClient", None), functions, cpus)


# ------------------------------------------------------------------ files of the kernel


@given(NUMBERS, NUMBERS, NUMBERS)
def test_schedstat_is_read(ran: int, waited: int, slices: int) -> None:
    found = parse_schedstat(f"{ran} {waited} {slices}\n")
    assert found == {RAN: ran, WAITED: waited, "slices": slices}


@given(st.text(max_size=30))
def test_another_schedstat_is_refused(text: str) -> None:
    if len([word for word in text.split() if word.isdecimal()]) == 3:
        return
    with pytest.raises(ValueError, match=r"unpack|int|values"):
        parse_schedstat(text)


@given(NUMBERS, NUMBERS)
def test_switches_of_both_kinds_are_told_apart(voluntary: int, involuntary: int) -> None:
    text = (
        f"Name:\tnat\nvoluntary_ctxt_switches:\t{voluntary}\n"
        f"nonvoluntary_ctxt_switches:\t{involuntary}\n"
    )
    found = parse_switches(text)
    assert found == {"voluntary switches": voluntary, "involuntary switches": involuntary}


@given(st.dictionaries(st.sampled_from(["a", "ab", "b", "lo"]), st.lists(NUMBERS, min_size=16,
       max_size=16), min_size=1), st.sets(st.sampled_from(["a", "ab", "b", "lo"])))  # fmt: skip
def test_only_devices_that_were_asked_for_count(
    numbers: dict[str, list[int]], asked: set[str]
) -> None:
    lines = ["Inter-|   Receive", " face |bytes    packets"]
    lines += [f"{name:>6}: {' '.join(map(str, each))}" for name, each in numbers.items()]
    found = parse_devices("\n".join(lines), asked)
    chosen = [numbers[name] for name in asked if name in numbers]
    assert found["device received"] == sum(each[1] for each in chosen)
    assert found["device receive drops"] == sum(each[3] for each in chosen)
    assert found["device sent"] == sum(each[9] for each in chosen)
    assert found["device send drops"] == sum(each[11] for each in chosen)


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=12, max_size=12), min_size=1))
def test_softnet_is_of_the_cpu_that_its_line_names(rows: list[list[int]]) -> None:
    cpus = range(3, 3 + 2 * len(rows), 2)  # others are offline
    lines = [
        " ".join(f"{each:08x}" for each in (*row, cpu)) for row, cpu in zip(rows, cpus, strict=True)
    ]
    found = parse_softnet("\n".join(lines))
    assert list(found) == list(cpus)
    for row, cpu in zip(rows, cpus, strict=True):
        assert [*found[cpu].values()] == row[:3]


def test_an_old_softnet_has_no_numbers() -> None:
    assert parse_softnet("00000010 00000001 00000002\n00000020 00000000 00000000")[1] == {
        "softnet processed": 0x20, "softnet dropped": 0, "softnet time squeeze": 0,
    }  # fmt: skip


def test_interrupts_are_summed_by_cpu() -> None:
    text = """           CPU0       CPU2
  24:          1          5  IO-APIC   5-edge      ACPI:Ged
 LOC:         10         20  Local timer interrupts
 ERR:          7
NET_RX:        3          4
"""
    assert parse_interrupts(text) == {0: 14, 2: 29}
    assert parse_interrupts(text, ("NET_RX",)) == {0: 3, 2: 4}
    assert parse_interrupts("") == {}


def test_kernel_statistics_are_of_the_functions_namespace(tmp_path: Path) -> None:
    def write(received: int, processed: int) -> None:
        (tmp_path / "7/net").mkdir(parents=True, exist_ok=True)
        (tmp_path / "net").mkdir(exist_ok=True)
        numbers = " ".join(["0", str(received), *["0"] * 14])
        (tmp_path / "7/net/dev").write_text(f"one: {numbers}\nother: {numbers}\n")
        (tmp_path / "net/softnet_stat").write_text(f"{processed:x} 0 0")

    function = CountedFunction("nat", 7, frozenset({"one"}))
    provider = KernelStatistics(chain_of(function, cpus=(0, 5)), tmp_path)
    write(10, 100)
    provider.begin()
    write(15, 103)
    found = provider.end()
    assert found["nat", "device received"] == 5
    assert found["CPU 0", "softnet processed"] == 3
    assert not any(place == "CPU 5" for place, _ in found)
    assert ("CPU 0", "interrupts") not in found  # no such file


def test_a_counter_that_was_set_back_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    file = tmp_path / "net/softnet_stat"
    provider = KernelStatistics(chain_of(cpus=(0,)), tmp_path)
    file.write_text("10 5 0")
    provider.begin()
    file.write_text("20 3 0")
    found = provider.end()
    assert found["CPU 0", "softnet processed"] == 0x10
    assert ("CPU 0", "softnet dropped") not in found


# ------------------------------------------------------------------ events


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 2**40), st.floats(0.01, 1)), min_size=1))
def test_events_that_share_counters_are_scaled(seen: list[tuple[int, int, float]]) -> None:
    readings = [EventReading(v, enabled, round(share * enabled) or 1) for v, enabled, share in seen]
    key = ("nat", "cycles")
    found = events.counts_of((key, each) for each in readings)
    expected = sum(each.value * each.enabled_ns / each.counted_ns for each in readings)
    assert found[key] == pytest.approx(expected)
    least = min(each.counted_ns / each.enabled_ns for each in readings)
    assert found.get((CHAIN, SHARED), 1.0) == pytest.approx(least)


def test_an_event_that_never_had_a_counter_is_not_zero() -> None:
    key, other = ("nat", "LLC loads"), ("nat", "cycles")
    never, always = EventReading(0, 1000, 0), EventReading(7, 1000, 1000)
    found = events.counts_of(iter([(key, never), (key, always), (other, always)]))
    assert key not in found
    assert found[other] == 7


def test_a_thread_that_hardly_ran_takes_no_event_from_its_function() -> None:
    key = ("nat", "LLC loads")
    busy, other = EventReading(1000, 10_000, 5_000), EventReading(0, 50, 0)
    found = events.counts_of(iter([(key, other), (key, busy)]))
    assert found == {key: 2000, (CHAIN, SHARED): 0.5}


def test_a_thread_that_did_not_run_counts_nothing() -> None:
    key = ("nat", "cycles")
    assert events.counts_of(iter([(key, EventReading(0, 0, 0))])) == {key: 0}


def test_what_cannot_be_counted_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> None:
        def opened(event: object, *_: object, **__: object) -> int:
            if number == 0 and event is SOFTWARE_EVENTS["task clock"]:
                return os.open(os.devnull, os.O_RDONLY)
            raise CountersError("no counters", number)

        monkeypatch.setattr(events, "open_event", opened)

    refuse(errno.ENOENT)
    (said,) = events.hardware(chain_of()).missing()
    assert said.startswith("hardware counters: no counters, as on most virtual machines")
    assert all(name in said for name in HARDWARE_EVENTS)
    refuse(errno.EACCES)
    (said,) = events.hardware(chain_of()).missing()
    assert "perf_event_paranoid" in said
    refuse(0)
    (said,) = events.software(chain_of()).missing()
    assert said.endswith("not known: page faults, context switches, CPU migrations")


def test_an_event_of_which_not_all_threads_are_counted_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, faults = SOFTWARE_EVENTS["task clock"], SOFTWARE_EVENTS["page faults"]
    wrong = {clock: errno.EMFILE, faults: errno.ESRCH}  # of all threads but the first
    opened: list[object] = []

    def open_event(event: PerfEvent, thread: int, *_: object) -> int:
        if thread and opened.count(event) == 2 and event in wrong:
            raise CountersError("none", wrong[event])
        opened.append(event)
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(events, "open_event", open_event)
    monkeypatch.setattr(events, "reading", lambda _: EventReading(7, 10, 10))
    monkeypatch.setattr(CountedFunction, "threads", {"a": 1, "b": 2})
    provider = events.software(chain_of(CountedFunction("nat", 1)))
    provider.begin()
    assert provider.end() == {
        ("nat", "page faults"): 7, ("nat", "context switches"): 14, ("nat", "CPU migrations"): 14,
    }  # fmt: skip
    (said,) = provider.missing()
    assert said.endswith("raise the limit (ulimit -n); not known: task clock")


@pytest.mark.system
def test_software_events_are_counted_by_thread_and_by_cpu() -> None:
    """By the way that hardware counters take."""
    need(os.geteuid() == 0, "needs root")
    go, done = threading.Event(), threading.Event()
    sleeper = threading.Thread(target=lambda: (go.wait(), [done.wait(0.001) for _ in range(50)]))
    sleeper.start()
    here = os.sched_getaffinity(0)
    function = CountedFunction("me", os.getpid())
    provider = PerfEvents("x", chain_of(function, cpus=(min(here),)), SOFTWARE_EVENTS, cpus=True)
    assert not provider.missing()
    before = len([*Path("/proc/self/fd").iterdir()])
    provider.begin()
    go.set()
    sleeper.join()
    found = provider.end()
    assert found["me", "context switches"] >= 50
    assert found["me", "task clock"] > 0
    assert found[f"CPU {min(here)}", "task clock"] > found["me", "task clock"]
    assert len([*Path("/proc/self/fd").iterdir()]) == before


# ------------------------------------------------------------------ threads


def test_only_threads_that_carry_packets_have_times() -> None:
    busy = {RAN: 100, WAITED: 50, ELAPSED: 1000, "slices": 3}
    idle = {RAN: 1, WAITED: 5, ELAPSED: 1000, "slices": 4}
    assert of_threads([busy, idle, busy]) == {RAN: 200, WAITED: 100, ELAPSED: 2000, "slices": 10}
    assert of_threads([{RAN: 0, WAITED: 0, ELAPSED: 10, "slices": 0}]) == {"slices": 0}
    assert of_threads([]) == {}


@pytest.mark.system
def test_a_thread_that_sleeps_waits_and_one_that_computes_runs() -> None:
    provider = Schedstat(chain_of(CountedFunction("me", os.getpid())))
    assert not provider.missing()
    provider.begin()
    before = parse_switches(Path("/proc/thread-self/status").read_text())
    event = threading.Event()
    for _ in range(20):
        event.wait(0.005)
    after = parse_switches(Path("/proc/thread-self/status").read_text())
    found = provider.end()
    grown = after["voluntary switches"] - before["voluntary switches"]
    assert grown >= 20
    assert found["me", "voluntary switches"] >= grown
    ratios = ratios_of(found, ["me"])
    assert ratios[WAIT_RUN] > 1  # it slept for 100 ms


def test_without_schedstat_what_is_not_known_is_said(tmp_path: Path) -> None:
    (said,) = Schedstat(chain_of(), tmp_path / "schedstat").missing()
    assert "Wait/Run" in said


# ------------------------------------------------------------------ sums


def window(ran: float, waited: float, received: float = 10, delivered: float = 5) -> WindowCounts:
    return WindowCounts(
        packets={"nat": received, CHAIN: delivered},
        by_provider={
            "schedstat": {
                ("nat", RAN): ran, ("nat", WAITED): waited, ("nat", ELAPSED): 1000,
                ("fw", RAN): ran, ("fw", WAITED): 0, ("fw", ELAPSED): 1000,
            },
            "kernel": {("CPU 1", "interrupts"): 20},
        },
    )  # fmt: skip


def test_counts_are_by_the_packet_of_their_place() -> None:
    units = {"schedstat": Schedstat.units, "kernel": KernelStatistics.units}
    rows = counted_of([window(100, 50), window(200, 50), window(300, 50)], units)
    names = [row.name for row in merged(rows, ["fw", "nat"])]
    assert names == ["fw", "nat", "CPU 1", CHAIN]
    by_name = {row.name: row for row in rows}
    assert by_name["nat"].counts[RAN].value == 20  # of 10 packets that it received
    assert by_name["nat"].counts[RAN].interval == (10, 30)
    assert by_name["nat"].counts[RAN].unit == "ns a packet"
    assert by_name["fw"].counts[RAN].value == 40  # its own are not known: of 5 delivered
    assert by_name["CPU 1"].counts["interrupts"].value == 4
    assert ELAPSED not in by_name["nat"].counts


def test_ratios_are_the_papers() -> None:
    counts = window(100, 50).by_provider["schedstat"]
    assert ratios_of(counts, ["nat"]) == {WAIT_RUN: 8.5, CONTENTION_RUN: 0.5}
    assert ratios_of(counts, ["nat", "fw"]) == {WAIT_RUN: 8.75, CONTENTION_RUN: 0.25}
    assert ratios_of(counts, ["other"]) == {}
    (chain,) = [row for row in counted_of([window(100, 50)], {}) if row.name == CHAIN]
    assert chain.ratios[WAIT_RUN].value == 8.75
    assert chain.ratios[WAIT_RUN].provider == "schedstat"


def test_a_window_without_packets_says_nothing() -> None:
    units = {"kernel": KernelStatistics.units}
    assert not any(row.counts for row in counted_of([window(1, 1, 0, 0)], units))


def test_two_providers_may_count_the_same() -> None:
    one = counted_of([window(100, 50)], {"schedstat": {RAN: "ns"}})
    other = counted_of(
        [WindowCounts(packets={CHAIN: 1}, by_provider={"x": {("nat", RAN): 7}})], {"x": {RAN: "ns"}}
    )
    (nat,) = [row for row in merged([*one, *other], ["nat"]) if row.name == "nat"]
    assert (nat.counts[RAN].value, nat.counts[f"{RAN}, x"].value) == (10, 7)


def test_the_least_share_of_all_windows_is_told() -> None:
    shared = WindowCounts(packets={}, by_provider={"x": {(CHAIN, SHARED): 0.4}})
    assert least_share([window(1, 1)]) is None
    assert least_share([window(1, 1), shared]) == 0.4


def test_what_the_engine_does_not_know_is_left_out() -> None:
    paths = [
        pb.PathStats(rx_packets=3, tx_packets=9, received_known=True),
        pb.PathStats(rx_packets=4, received_known=True, counted=True, dropped_egress_full=2),
    ]
    stats = pb.Stats(
        functions=[pb.FunctionStats(name="nat", paths=paths), pb.FunctionStats(name="fw")],
        account=pb.Account(delivered=11, dropped_on_links=1),
    )
    found = engine_counts(stats)
    assert found["nat", "received"] == 7
    assert ("nat", "sent") not in found
    assert found["nat", "dropped, link full"] == 2
    assert found[CHAIN, "dropped by links"] == 1
    assert packets_of(found) == {"nat": 7, CHAIN: 11}


def test_the_table_has_what_is_not_zero(capsys: pytest.CaptureFixture[str]) -> None:
    units = {"schedstat": Schedstat.units, "kernel": KernelStatistics.units}
    rows = merged(counted_of([window(500, 0)], units), ["nat", "fw"])
    print_counted(Counted(places=rows, counter_share=0.25))
    lines = capsys.readouterr().out.splitlines()
    (run,) = [line.split() for line in lines if line.startswith("run,")]
    assert run == ["run,", "ns", "50", "100", "schedstat"]
    assert not any(line.startswith("Contention/Run") for line in lines)
    assert any(line.startswith("Wait/Run") for line in lines)
    assert "25%" in lines[-1]


# ------------------------------------------------------------------ windows


class Clocked:
    """Counts seconds."""

    name = "clock"
    units: Mapping[str, str] = {"time": "s"}

    def __init__(self, _: CountedChain) -> None:
        self.began = 0.0

    def missing(self) -> list[str]:
        return []

    def begin(self) -> None:
        self.began = time.monotonic()

    def end(self) -> dict[tuple[str, str], float]:
        return {("nat", "time"): time.monotonic() - self.began}


class Engine:
    """Delivers a packet each time it is asked."""

    def __init__(self, fails: int = 1000) -> None:
        self.asked, self.fails = 0, fails

    def stats(self) -> pb.Stats:
        self.asked += 1
        if self.asked >= self.fails:
            raise EngineError("gone")
        return pb.Stats(account=pb.Account(delivered=self.asked))


def counting_of(engine: Engine, *, of_engine: bool = False) -> Counting:
    chain = CountedChain(cast("EngineClient", engine), (), ())
    return Counting(chain, [Clocked], of_engine=of_engine)


def test_a_count_is_over_though_its_window_is_not() -> None:
    counting = counting_of(Engine(), of_engine=True)
    with counting.during(0.2, 0.3):
        end = time.monotonic() + 60
        while not counting.windows and time.monotonic() < end:
            time.sleep(0.01)
        assert len(counting.windows) == 1
    (found,) = counting.windows
    assert found.packets[CHAIN] == 1
    assert found.by_provider["clock"]["nat", "time"] > 0.2
    assert found.by_provider["engine"][CHAIN, "delivered"] == 1
    assert set(counting.units) == {"clock", "engine"}


def test_a_window_that_ends_before_it_begins_is_not_counted() -> None:
    counting = counting_of(Engine())
    with pytest.raises(KeyError), counting.during(60, 60):
        raise KeyError
    assert counting.windows == []
    assert set(counting.units) == {"clock"}


def test_an_engine_that_is_gone_is_told() -> None:
    counting = counting_of(Engine(fails=2))
    with pytest.raises(EngineError, match="gone"), counting.during(0.01, 0.01):
        time.sleep(0.2)


# ------------------------------------------------------------------ references


def test_sums_of_callgrind() -> None:
    text = "version: 1\nevents: Ir Dr Dw D1mr\nsummary: 100 20 10\n"
    assert parse_sums(text) == {"Ir": 100, "Dr": 20, "Dw": 10, "D1mr": 0}
    with pytest.raises(ValueError, match="no sums"):
        parse_sums("events: Ir\n")


def test_as_many_frames_as_flows_and_packets() -> None:
    flows = Flows(3, 5)
    assert len([*flows.frames()]) == flows.total == 8
