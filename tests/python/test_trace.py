"""The Chrome trace says who ran when and why, as the engine told it."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.python import measured
from tests.python.strategies import scaled
from unis.report.trace import chrome_trace, trace_text
from unis.v1 import common_pb2 as common


def test_runs_and_switches_arrive() -> None:
    reply = measured.trace("unis", 1.0, cpus=(1, 3))
    data = json.loads(trace_text(reply))
    events = data["traceEvents"]
    runs = [event for event in events if event["ph"] == "X"]
    switches = [event for event in events if event["ph"] == "i"]
    assert len(runs) == len(reply.runs)
    assert len(switches) == len(reply.switches)
    assert {event["pid"] for event in runs} == {1, 3}
    first = switches[1]
    assert first["name"] == "ingress low"
    assert first["args"]["to ingress"] == 1500
    assert first["args"]["from"] == "firewall"
    assert first["args"]["slice µs"] == 90
    named = {e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    assert named == {"CPU 1", "CPU 3"}
    assert data["otherData"]["policy"] == "unis"


@settings(max_examples=scaled(50))
@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 10**12), st.integers(0, 10**9)), max_size=30
    )
)
def test_times_are_microseconds_from_the_beginning(runs: list[tuple[int, int, int]]) -> None:
    intervals = [
        common.RunInterval(cpu=cpu, function="a", begin_ns=begin, end_ns=begin + length)
        for cpu, begin, length in runs
    ]
    events = [
        event
        for event in chrome_trace(common.POLICY_RR, intervals, [])["traceEvents"]
        if event["ph"] == "X"
    ]
    origin = min((begin for _, begin, _ in runs), default=0)
    for event, (cpu, begin, length) in zip(events, runs, strict=True):
        assert event["pid"] == cpu
        assert event["ts"] == (begin - origin) / 1000
        assert event["dur"] == length / 1000
