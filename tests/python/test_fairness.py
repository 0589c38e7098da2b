"""python -m evaluation fairness: what is said of windows and of a trace."""

import pytest
from typer.testing import CliRunner

from evaluation.app import app
from evaluation.fairness import longest_gap_ns, many_functions, two_chains
from tests.python.planned import path_of
from unis.bench.synthetic import macswap_chain
from unis.measure.windows import Arm, Rounds
from unis.v1 import engine_pb2 as pb

HANDOVER = Arm("unis", "handover", name="handover")
OTHER = Arm("other")


def chains(*delivered: tuple[int, int]) -> Rounds:
    return [
        {
            "handover": pb.MeasureReply(
                delivered=first + second,
                window_ns=1_000_000,
                chains=[
                    pb.ChainWindow(name="chain2", delivered=second),
                    pb.ChainWindow(name="chain1", delivered=first),
                ],
            )
        }
        for first, second in delivered
    ]


def functions(arm: str, *windows: dict[str, tuple[int, int]]) -> Rounds:
    return [
        {
            arm: pb.MeasureReply(
                window_ns=1_000_000_000,
                function_turns={name: turns for name, (turns, _) in window.items()},
                function_packets={name: packets for name, (_, packets) in window.items()},
            )
        }
        for window in windows
    ]


def trace(*runs: tuple[str, int, int], end: int = 100, lost: int = 0) -> pb.TraceReply:
    reply = pb.TraceReply(begin_ns=0, end_ns=end, dropped_events=lost)
    for function, begin, until in runs:
        reply.runs.add(function=function, begin_ns=begin, end_ns=until)
    return reply


def test_chains_are_compared_within_a_window() -> None:
    pair = two_chains(HANDOVER, chains((100, 100), (200, 180), (10, 12)))
    assert pair.ratio
    assert pair.ratio.median == 1.0
    assert pair.worst == pytest.approx(10 / 12)
    assert (pair.policy, pair.controller, pair.windows) == ("unis", "handover", 3)


def test_a_chain_that_gets_nothing_is_seen() -> None:
    assert two_chains(HANDOVER, chains((100, 0), (100, 0))).worst == 0
    starved = two_chains(HANDOVER, chains((0, 100), (0, 100)))
    assert starved.ratio is None
    assert starved.worst == 0
    assert two_chains(HANDOVER, chains((0, 0))).worst == 0


def test_the_function_counts_that_had_least_in_its_worst_window() -> None:
    rounds = functions(
        "handover", {"a": (50, 900), "b": (40, 800)}, {"a": (70, 5), "b": (3, 800)}
    )  # fmt: skip
    many = many_functions(HANDOVER, rounds, trace(("a", 0, 100), ("b", 10, 60)))
    assert (many.least_turns, many.least_packets, many.windows) == (3, 5, 2)
    assert many.longest_gap_us == pytest.approx(0.04)


def test_where_the_kernel_decides_nobody_counts_turns() -> None:
    many = many_functions(OTHER, functions("other", {"a": (0, 900)}), trace(("a", 0, 100)))
    assert (many.least_turns, many.least_packets) == (None, 900)


def test_a_function_that_never_polls_waits_all_the_time() -> None:
    runs = (("a", 0, 10), ("b", 12, 30), ("a", 31, 40), ("b", 41, 95))
    assert longest_gap_ns(trace(*runs), ["a", "b"]) == 60
    assert longest_gap_ns(trace(*runs), ["a", "b", "c"]) == 100
    # In any order; a run may last beyond the end.
    assert longest_gap_ns(trace(*reversed(runs[:3]), ("b", 41, 101)), ["a", "b"]) == 60


def test_a_trace_that_is_not_whole_tells_no_gap() -> None:
    rounds = functions("handover", {"a": (1, 1)})
    assert many_functions(HANDOVER, rounds, trace(lost=1)).longest_gap_us is None


def test_several_chains_have_nothing_in_common_but_the_cpu() -> None:
    chain = macswap_chain("x", "light", 3, 1, chains=2).file
    paths = [path_of(chain, name) for name in ("chain1", "chain2")]
    assert [len(path) for path in paths] == [3, 3]
    assert len({hop for path in paths for hop in path}) == len(chain.functions) == 6
    ports = {match.dst_port for of in chain.chains.values() for match in of.match}
    assert len(ports) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--functions", "15"], "an even number up to"),
        (["--functions", "200"], "an even number up to"),
        (["--policies", "fused"], "priority, handover"),
    ],
)
def test_a_mistake_is_told_with_what_could_be_written(arguments: list[str], told: str) -> None:
    ended = CliRunner().invoke(app, ["fairness", *arguments])
    assert ended.exit_code == 2
    assert told in " ".join(ended.output.replace("│", " ").split())
