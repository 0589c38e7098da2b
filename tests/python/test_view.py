"""What `unis top` shows, made from two snapshots."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from unis.cli.view import (
    Rates,
    about_cpus,
    about_goals,
    bar,
    edges,
    live_view,
    lost,
    mean_waits,
    number,
    processes,
    times,
)  # fmt: skip
from unis.runtime.account import account_line
from unis.runtime.process import ProcessId
from unis.runtime.state import FunctionProcess
from unis.v1 import common_pb2
from unis.v1 import engine_pb2 as pb

SECOND = 1_000_000_000


def snapshot(seconds: int) -> pb.Stats:
    """A chain of one function that has run so long at 2 Mpps, with 1000 switches a second."""
    packets = 2_000_000 * seconds
    return pb.Stats(
        time_ns=SECOND * seconds,
        policy=common_pb2.POLICY_UNIS,
        controller=pb.CONTROLLER_PRIORITY,
        chains=[pb.ChainStats(name="edge", offered=packets + 7, delivered=packets)],
        functions=[
            pb.FunctionStats(
                name="nat", cpu=1, state=pb.FUNCTION_STATE_RUNNING, switched_in=500 * seconds,
                cpu_time_ns=SECOND * seconds // 4,
                time=pb.FunctionTime(
                    elapsed_ns=SECOND * seconds, busy_ns=SECOND * seconds // 5,
                    spinning_ns=SECOND * seconds // 20, run_delay_ns=SECOND * seconds // 4,
                    backpressured_ns=SECOND * seconds // 10, blocked_ns=SECOND * seconds * 2 // 5,
                ),
                paths=[
                    pb.PathStats(
                        chain="edge", rx_packets=packets, counted=True, received_known=True,
                        sent_known=True,
                        ingress=pb.LinkStats(name="in", packets=1900, capacity=2047),
                    ),
                    pb.PathStats(chain="back", egress=pb.LinkStats(packets=7, capacity=2047)),
                ],
            ),
            pb.FunctionStats(
                name="fw", cpu=1, cpu_time_ns=SECOND * seconds // 2,
                time=pb.FunctionTime(busy_ns=SECOND * seconds // 2),
            ),
        ],
        cores=[pb.CoreStats(cpu=1, switches=1000 * seconds, rests=3 * seconds)],
        engine_cpu_ns=SECOND * seconds * 3 // 4,
        components=[
            pb.ComponentStats(name="source", cpu=0, handled=packets, busy_ns=SECOND * seconds // 2),
            pb.ComponentStats(
                name="scheduler", cpu=0, handled=1000 * seconds, busy_ns=SECOND * seconds // 100
            ),
        ],
    )  # fmt: skip


def shown(rates: Rates, width: int = 160) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width).print(live_view("demo", rates, width))
    return [" ".join(line.split()) for line in stream.getvalue().splitlines()]


def test_rates_are_those_between_the_snapshots() -> None:
    lines = shown(Rates(snapshot(3), snapshot(5)))
    assert "demo: policy unis, controller priority" in lines[0]
    assert any(line.startswith("edge 2M 2M") for line in lines)
    assert any(
        line.startswith("nat 1 20% 5% 25% 10% 40% edge 2M") and "1900" in line for line in lines
    )
    assert any(line.startswith("back –") and " 7 " in line for line in lines)
    assert any(line.startswith("1 70% 5% 25% 1k 3 ") for line in lines)
    assert "source 0 50% 2M packets" in lines
    assert "scheduler 0 1% 1k switches" in lines
    assert "all, with polling 75%" in lines


def test_the_bar_of_a_cpu_tells_its_parts_without_colours() -> None:
    row = next(line for line in shown(Rates(snapshot(3), snapshot(5))) if line.startswith("1 70%"))
    assert row.split()[-1] == "█" * 17 + "▒" + "·" * 6


def test_the_view_fits_a_terminal_of_80_columns() -> None:
    stream = io.StringIO()
    view = live_view("demo", Rates(snapshot(3), snapshot(5)), 80)
    Console(file=stream, width=200).print(view)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80, stream.getvalue()
    row = next(line for line in lines if line.startswith("nat"))
    assert row.split() == ["nat", "1", "20%", "5%", "edge", "2M", "1900", "0", "500", "0"]


@given(st.floats(0, 1e12))
def test_numbers_have_three_digits_and_a_letter(value: float) -> None:
    text = number(value)
    letter = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1])
    read = float(text[:-1]) * letter if letter else float(text)
    assert abs(read - value) <= 0.006 * value + 1e-300
    assert len(text) <= 8 or value < 1e-3


@given(st.integers(0, 5000), st.integers(0, 4096))
def test_a_bar_is_as_wide_whatever_the_ring_holds(packets: int, capacity: int) -> None:
    assert len(bar(packets, capacity).plain) == len(bar(0, 0).plain)


def test_a_function_that_was_not_there_before_counts_from_nothing() -> None:
    rates = Rates(pb.Stats(time_ns=0), snapshot(1))
    assert rates.cpu(1).busy == pytest.approx(0.7)
    assert rates.cpu(1).idle == pytest.approx(0.25)


def test_a_process_tells_what_it_ran() -> None:
    stream = io.StringIO()
    Console(file=stream, width=200).print(processes(snapshot(4), {}))
    lines = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    assert any(" 1.0 s 0.0 edge 8M " in line for line in lines if line.startswith("nat")), lines
    assert any(" 2.0 s 0.0" in line for line in lines if line.startswith("fw")), lines


def test_the_states_of_a_function_are_shares_of_its_time() -> None:
    stream = io.StringIO()
    stats = snapshot(4)
    stats.functions.add(name="new")
    Console(file=stream, width=80).print(times(stats))
    lines = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    assert lines[0] == "function elapsed busy spinning run delay backpressured blocked"
    assert lines[1] == "nat 4.0 s 20% 5% 25% 10% 40%"
    assert lines[2] == "fw 2.0 s 100% 0% 0% 0% 0%"
    assert lines[3] == "new 0.0 s – – – – –", "none was taken hold of"


def test_a_wide_terminal_tells_of_functions_without_a_cpu() -> None:
    rates = Rates(snapshot(3), snapshot(5))
    assert any(line.startswith("nat 1 20% 5% 25% 10% 40% edge") for line in shown(rates, 152))
    assert any(line.startswith("nat 1 20% 5% edge") for line in shown(rates, 151))
    stream = io.StringIO()
    Console(file=stream, width=200).print(live_view("demo", rates, 152))
    assert max(len(line.rstrip()) for line in stream.getvalue().splitlines()) <= 152


def test_states_are_shares_of_the_time_of_all_threads_of_a_function() -> None:
    def at(seconds: int) -> pb.Stats:
        """Three threads on one CPU, of which one sleeps."""
        tenth = SECOND * seconds // 10
        time = pb.FunctionTime(
            elapsed_ns=30 * tenth, busy_ns=6 * tenth, spinning_ns=3 * tenth,
            run_delay_ns=11 * tenth, blocked_ns=10 * tenth,
        )  # fmt: skip
        functions = [pb.FunctionStats(name="ids", cpu=1, time=time, paths=[pb.PathStats()])]
        cores = [pb.CoreStats(cpu=1)]
        return pb.Stats(time_ns=SECOND * seconds, functions=functions, cores=cores)

    lines = shown(Rates(at(1), at(3)))
    assert any(line.startswith("ids 1 20% 10% 37% 0% 33%") for line in lines), lines
    assert any(line.startswith("1 60% 30% 10% ") for line in lines), "a CPU has its own time"
    again = Rates(at(3), at(1))
    assert any(line.startswith("ids 1 – – – – –") for line in shown(again)), (
        "its counters began anew"
    )


def test_a_counter_that_begins_anew_has_no_rate() -> None:
    """As those of a function do that came again: it has not sent fewer than none."""

    def at(seconds: int, received: int, dropped: int) -> pb.Stats:
        path = pb.PathStats(
            chain="edge", rx_packets=received, received_known=True, sent_known=True,
            dropped_egress_full=dropped,
        )  # fmt: skip
        functions = [pb.FunctionStats(name="fw", switched_in=received // 100, paths=[path])]
        chain = pb.ChainStats(name="edge", dropped_ingress_full=dropped, dropped_down=received)
        return pb.Stats(time_ns=SECOND * seconds, functions=functions, chains=[chain])

    lines = shown(Rates(at(1, 5000, 700), at(2, 6000, 10)))
    assert any(line.startswith("edge 0 0 0.00 1k") for line in lines), lines
    assert any(line.startswith("fw 0 – – – – – edge 1k") for line in lines), lines
    assert any(line.endswith(" 10 0") for line in lines), lines
    assert not any("-" in line for line in lines)


def test_who_keeps_a_cpu_from_being_idle_is_named_and_how_long_turns_and_delays_are() -> None:
    cores = [pb.CoreStats(cpu=1, cannot_rest="ids"), pb.CoreStats(cpu=2), pb.CoreStats(cpu=3)]
    cores[2].quota = 1448
    cores += [
        pb.CoreStats(cpu=4, wakes=20, wake_delay_ns=1_840_000),
        pb.CoreStats(cpu=5, sends_by_timer="l2fwd"),
        pb.CoreStats(cpu=6, order_seen=4000, out_of_order=360),
        pb.CoreStats(cpu=7, order_seen=4000, out_of_order=20),
    ]
    assert [line.plain for line in about_cpus(pb.Stats(cores=cores))] == [
        "CPU 1 is never idle: ids may not sleep",
        "CPU 3: turns of up to 1448 packets",
        "CPU 4: first packets waited 92 µs for functions that slept, on average",
        "CPU 5: functions poll, because l2fwd sends packets by a timer",
        "CPU 6: 9% of 4,000 switches that were seen were out of the order of the chain",
    ]
    before = pb.Stats(cores=[pb.CoreStats(cpu=4, wakes=10, wake_delay_ns=1_340_000)])
    lines = [line.plain for line in about_cpus(pb.Stats(cores=cores), before)]
    assert "CPU 4: first packets waited 50 µs for functions that slept, on average" in lines


def test_goals_stand_beside_what_is_measured() -> None:
    p95s = {"kept": 83e3, "missed": 130e3, "idle": None}
    kept, missed, idle = about_goals(p95s, dict.fromkeys(p95s, 100e3))
    assert kept.plain == "chain kept: p95 83 µs (goal 100 µs)"
    assert missed.plain == "chain missed: p95 130 µs (goal 100 µs)"
    assert (kept.style, missed.style) == ("", "red")
    assert idle.plain == "chain idle: p95 – (goal 100 µs)"


def test_edges_of_chains_with_branches_are_shown() -> None:
    def edge(origin: str, to: str, offered: int, dropped: int) -> pb.EdgeStats:
        more: Any = {"from": origin}
        taken = offered - dropped - 1
        return pb.EdgeStats(
            to=to, port=1, offered=offered, taken=taken, dropped=dropped, waiting=1, **more
        )

    branches = [edge("", "fw", 10_000, 0), edge("fw", "nat", 2000, 5), edge("fw", "", 3000, 0)]
    stats = pb.Stats(chains=[pb.ChainStats(name="web", edges=branches)])
    table = edges(stats, {"web": [1e6, 25_400.0, None]})
    assert table
    stream = io.StringIO()
    Console(file=stream, width=200).print(table)
    assert [line.split() for line in stream.getvalue().splitlines()] == [
        ["chain", "edge", "port", "offered", "taken", "dropped", "waiting", "wait"],
        ["web", "ingress", "→", "fw", "10k", "10k", "0", "1", "1,000", "µs"],
        ["fw", "→", "nat", "1", "2k", "1.99k", "5", "1", "25", "µs"],
        ["fw", "→", "egress", "1", "3k", "3k", "0", "1", "–"],
    ]
    path = [edge("", "fw", 10, 0), edge("fw", "nat", 10, 0), edge("nat", "", 10, 0)]
    assert edges(pb.Stats(chains=[pb.ChainStats(name="web", edges=path)]), {}) is None


def test_a_branch_to_a_function_that_ended_is_told() -> None:
    branches: list[Any] = [{"to": "fw"}, {"from": "fw", "to": "dpi"}, {"from": "fw", "to": ""}]
    chain = pb.ChainStats(name="web", edges=[pb.EdgeStats(**edge) for edge in branches])
    dpi = FunctionProcess("dpi", 1, ProcessId(7, 1), ended="was killed by SIGKILL")
    told = [line.plain for line in lost(pb.Stats(chains=[chain]), {"dpi": dpi})]
    assert told == [
        "chain web: fw → dpi is down: dpi is not there", "dpi (pid 7) was killed by SIGKILL",
    ]  # fmt: skip
    chain.down = "dpi"
    assert [line.plain for line in lost(pb.Stats(chains=[chain]), {"dpi": dpi})] == [
        "chain web is down: dpi is not there", "dpi (pid 7) was killed by SIGKILL",
    ]  # fmt: skip


def test_of_functions_that_do_not_count_nobody_knows_what_they_hold() -> None:
    account = pb.Account(offered=9, delivered=5, in_flight=4)
    assert account_line(account).endswith(" 4 in flight")
    assert account_line(account, counted=False).endswith(" 4 in flight or dropped by functions")
    account.exact = True
    assert account_line(account, counted=False).endswith(" 4 in flight")


@pytest.mark.parametrize(("counted", "taken"), [(True, "5"), (False, "–")])
def test_packets_are_shown_where_a_function_or_its_links_count_them(
    *, counted: bool, taken: str
) -> None:
    """What a function keeps it alone knows: a count by links may be too low."""
    path = pb.PathStats(
        chain="edge", rx_packets=4005, tx_packets=4000, taken=5, counted=counted,
        received_known=True, sent_known=True,
    )  # fmt: skip
    stats = pb.Stats(functions=[pb.FunctionStats(name="fw", paths=[path])])
    stream = io.StringIO()
    Console(file=stream, width=200).print(processes(stats, {}))
    assert stream.getvalue().splitlines()[-1].split()[-5:] == ["edge", "4k", "4k", "0", taken]
    now = pb.Stats(time_ns=SECOND, functions=stats.functions)
    row = next(line for line in shown(Rates(pb.Stats(), now)) if line.startswith("fw"))
    assert "edge 4k" in row


def test_what_a_link_dropped_is_shown_of_a_program_that_counts_nothing() -> None:
    path = pb.PathStats(chain="edge", dropped_egress_full=4321)
    stats = pb.Stats(functions=[pb.FunctionStats(name="fw", paths=[path])])
    stream = io.StringIO()
    Console(file=stream, width=200).print(processes(stats, {}))
    assert stream.getvalue().splitlines()[-1].split()[-5:] == ["edge", "–", "–", "4.32k", "–"]
    assert account_line(pb.Account(offered=9, delivered=5, dropped_on_links=4)) == (
        "9 offered = 5 delivered + 4 dropped (4 by the kernel, on links) + 0 in flight"
    )


def unseen(seconds: int) -> pb.Stats:
    """A function between two links that nobody can look into."""
    links = [pb.LinkStats(name=name, capacity=1024) for name in ("a", "b")]
    path = pb.PathStats(chain="edge", ingress=links[0], egress=links[1])
    time = pb.FunctionTime(
        elapsed_ns=SECOND * seconds, spinning_ns=SECOND * seconds // 2,
        run_delay_ns=SECOND * seconds // 2,
    )  # fmt: skip
    function = pb.FunctionStats(name="fw", cpu=1, time=time, paths=[path])
    cores = [pb.CoreStats(cpu=1, cannot_rest="fw")]
    return pb.Stats(time_ns=SECOND * seconds, functions=[function], cores=cores)


@pytest.mark.parametrize(("width", "states"), [(160, " 50% 0% 0%"), (80, "")])
def test_what_nobody_sees_is_unknown_and_not_zero(width: int, states: str) -> None:
    lines = shown(Rates(unseen(1), unseen(3)), width)
    assert max(map(len, lines)) <= width
    row = next(line for line in lines if line.startswith("fw "))
    assert row == f"fw 1 unknown unknown{states} edge – unknown unknown 0 –"
    assert any(line.startswith("1 unknown unknown 50% ") for line in lines), lines
    assert "CPU 1 is never idle: nobody sees whether fw has packets" in lines
    stream = io.StringIO()
    Console(file=stream, width=200).print(times(unseen(2)))
    row = stream.getvalue().splitlines()[-1]
    assert row.split() == ["fw", "2.0", "s", "unknown", "unknown", "50%", "0%", "0%"]


def test_what_is_lost_where_nobody_looks_is_told() -> None:
    assert account_line(pb.Account(offered=9, delivered=5, lost_unseen=4)) == (
        "9 offered = 5 delivered + 4 dropped (4 lost unseen) + 0 in flight"
    )


def test_edges_of_chains_with_branches_have_rates() -> None:
    def at(seconds: int) -> pb.Stats:
        edges: list[Any] = [
            {"to": "fw", "taken": 100 * seconds, "waiting": 4},
            {"from": "fw", "to": "a", "taken": 70 * seconds, "dropped": 5 * seconds},
            {"from": "fw", "to": "b", "taken": 30 * seconds},
        ]
        web = pb.ChainStats(name="web", edges=[pb.EdgeStats(**edge) for edge in edges])
        return pb.Stats(time_ns=SECOND * seconds, chains=[web])

    lines = shown(Rates(at(1), at(3)))
    assert "web ingress → fw 100 0 4" in lines
    assert "fw → a 70 5 0" in lines
    assert not any("→" in line for line in shown(Rates(snapshot(1), snapshot(2))))


def test_how_long_packets_wait_on_an_edge_follows_from_how_many_wait_and_pass() -> None:
    def at(ms: int, taken: int, waiting: int) -> pb.Stats:
        edges: list[Any] = [
            {"to": "fw", "taken": taken, "waiting": waiting},
            {"from": "fw", "to": "a", "taken": 5, "waiting": 7},
            {"from": "fw", "to": "b", "taken": taken},
        ]
        web = pb.ChainStats(name="web", edges=[pb.EdgeStats(**edge) for edge in edges])
        path = pb.ChainStats(name="path", edges=[pb.EdgeStats(to="fw", taken=taken)])
        return pb.Stats(time_ns=ms * 1_000_000, chains=[path, web])

    # 200 wait in the mean, 100 pass in a ms: each waits 2 ms.
    snapshots = [at(0, 1000, 0), at(1, 1100, 300), at(2, 1200, 300)]
    assert mean_waits(snapshots) == {"web": [2e6, None, 0.0]}
    assert mean_waits([*snapshots, pb.Stats(time_ns=9)]) == {}, "the chains changed meanwhile"
