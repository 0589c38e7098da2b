"""What the engine counts is declared once, and read by its declaration."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Group
from rich.table import Table

from tools import counter_pages
from unis.built import clone
from unis.cli import view
from unis.cli.look_commands import as_dict
from unis.counters.declared import METRICS, NO_METRIC, TIME, reading
from unis.counters.metric import MetricKind
from unis.counters.samples import BOUNDS, MetricSample, samples
from unis.v1 import common_pb2
from unis.v1 import engine_pb2 as pb

UNSIGNED = {FieldDescriptor.TYPE_UINT32: 32, FieldDescriptor.TYPE_UINT64: 64,
            FieldDescriptor.TYPE_FIXED64: 64}  # fmt: skip
SIGNED = {FieldDescriptor.TYPE_INT32: 32, FieldDescriptor.TYPE_INT64: 64}
NUMBERS = {*UNSIGNED, *SIGNED, FieldDescriptor.TYPE_DOUBLE}


def numbers(message: Any, path: str = "") -> Iterator[str]:
    """The path of every number below a message type, but of latencies, which are one histogram."""
    for field in message.fields:
        here = f"{path}.{field.name}".lstrip(".")
        if field.message_type is common_pb2.LatencyHistogram.DESCRIPTOR:
            yield here
        elif field.message_type:
            yield from numbers(field.message_type, here)
        elif field.type in NUMBERS:
            yield here


def test_every_number_of_the_statistics_is_declared_once() -> None:
    declared = Counter(r.path for metric in METRICS for r in metric.readings if not r.of)
    found = {*numbers(pb.Stats.DESCRIPTOR)}
    assert found - {*declared} - {*NO_METRIC} == set(), "say what it counts, or why it is no metric"
    assert {*NO_METRIC} - found == set(), "no such number"
    assert {*declared} & {*NO_METRIC} == set()
    assert {path: n for path, n in declared.items() if n > 1} == {}
    assert found <= {*declared} | {*NO_METRIC}


def test_names_are_those_of_prometheus() -> None:
    names = [metric.name for metric in METRICS]
    assert len({*names}) == len(names)
    for metric in METRICS:
        assert re.fullmatch("unis(_[a-z]+)+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name
        assert metric.name.removesuffix("_total").endswith(metric.unit), metric.name
        for says in (metric.help, *(r.help for r in metric.readings)):
            assert says.endswith("."), says
            assert "\n" not in says
            assert "`" not in says, "Prometheus has no Markdown"
        for label in metric.labels:
            assert re.fullmatch("[a-z_]+", label)
            assert label not in {"le", "quantile", "run"}
        # A label that a reading gives itself tells it from the others.
        own = [tuple(r.labels.items()) for r in metric.readings]
        assert len({*own}) in (len(own), 1), metric.name


def values(field: Any) -> st.SearchStrategy[Any]:
    if field.message_type:
        return statistics(field.message_type)
    if field.enum_type:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type in UNSIGNED:
        return st.integers(0, 2 ** UNSIGNED[field.type] - 1)
    if field.type in SIGNED:
        bits = SIGNED[field.type] - 1
        return st.integers(-(2**bits), 2**bits - 1)
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return st.floats(0, 1e12)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    return st.sampled_from(["", "a", "b", 'quo"te', "new\nline"])


def statistics(message: Any) -> st.SearchStrategy[Any]:
    """Any message of a type, of names that repeat."""

    def made(chosen: dict[str, Any]) -> Any:
        return message._concrete_class(**chosen)

    return st.fixed_dictionaries(
        {},
        optional={
            field.name: st.lists(values(field), max_size=3) if field.is_repeated else values(field)
            for field in message.fields
        },
    ).map(made)


def flat(stats: pb.Stats) -> list[MetricSample]:
    return [sample for _, found in samples(stats) for sample in found]


@given(statistics(pb.Stats.DESCRIPTOR))
def test_samples_are_whatever_the_statistics_a_valid_exposition(stats: pb.Stats) -> None:
    found = flat(stats)
    assert len({(sample.name, sample.labels) for sample in found}) == len(found)
    kinds = {metric.name: metric.kind for metric in METRICS}
    for name, labels, value in found:
        family = re.sub("_(bucket|sum|count)$", "", name) if name not in kinds else name
        assert family in kinds
        assert labels[0] == ("run", stats.run)
        assert len({label for label, _ in labels}) == len(labels)
        assert all(isinstance(text, str) for _, text in labels)
        assert not math.isnan(value)
        if kinds[family] is not MetricKind.GAUGE:
            assert value >= 0, name


@given(statistics(common_pb2.LatencyHistogram.DESCRIPTOR))
def test_a_histogram_counts_up_to_each_bound(latency: common_pb2.LatencyHistogram) -> None:
    stats = pb.Stats(run="demo", chains=[pb.ChainStats(name="edge", latency=latency)])
    found = [s for s in flat(stats) if s.name.startswith("unis_chain_latency_seconds")]
    buckets = [s.value for s in found if s.name.endswith("_bucket")]
    assert [dict(s.labels)["le"] for s in found[: len(BOUNDS)]][-2:] == ["1.0", "+Inf"]
    assert buckets == sorted(buckets)
    assert buckets[-1] == found[-1].value
    assert found[-1].name.endswith("_count")


def test_samples_are_in_base_units_and_of_each_place() -> None:
    link = pb.LinkStats(name="a-b", packets=512, capacity=1024)
    stats = pb.Stats(
        run="demo",
        functions=[
            pb.FunctionStats(
                name="a", time=pb.FunctionTime(elapsed_ns=10**9, busy_ns=25 * 10**7),
                paths=[pb.PathStats(chain="edge", egress=link, tx_packets=7, sent_known=True)],
            ),
            pb.FunctionStats(name="b", paths=[pb.PathStats(chain="edge", ingress=link)]),
        ],
        cores=[
            pb.CoreStats(
                cpu=1,
                reasons=[pb.SwitchCount(reason=common_pb2.SWITCH_REASON_SELF, switches=9)],
            )
        ],
        chains=[
            pb.ChainStats(
                name="edge",
                latency=common_pb2.LatencyHistogram(value_ns=[1500, 10**10], count=[3, 1]),
            ),
            pb.ChainStats(name="other", down="b"),
        ],
    )  # fmt: skip
    told = {(s.name, *(value for _, value in s.labels[1:])): s.value for s in flat(stats)}
    assert told["unis_function_cpu_seconds_total", "a", "busy"] == 0.25
    assert told["unis_function_sent_packets_total", "a", "edge"] == 7
    assert ("unis_function_sent_packets_total", "b", "edge") not in told, "nobody knows it"
    assert told["unis_link_occupancy_ratio", "a-b"] == 0.5
    assert told["unis_switches_total", "1", "self"] == 9
    assert told["unis_chain_up", "edge"] == 1
    assert told["unis_chain_up", "other"] == 0
    assert told["unis_chain_latency_seconds_bucket", "edge", "1e-06"] == 0
    assert told["unis_chain_latency_seconds_bucket", "edge", "2e-06"] == 3
    assert told["unis_chain_latency_seconds_bucket", "edge", "1.0"] == 3
    assert told["unis_chain_latency_seconds_bucket", "edge", "+Inf"] == 4
    assert told["unis_chain_latency_seconds_sum", "edge"] == pytest.approx(10 + 3 * 1.5e-6)
    assert ("unis_chain_latency_seconds_count", "other") not in told, "it was not asked for"
    assert MetricSample(
        "unis_link_waiting_packets", (("run", "demo"), ("link", "")), 0
    ) not in flat(stats)


def test_the_states_of_a_function_s_time_are_those_of_the_contract() -> None:
    states = [r.path.rpartition(".")[2] for r in TIME.readings]
    told = pb.FunctionTime(busy_ns=0)  # left out where nobody knows
    assert [*as_dict(told)] == ["elapsed_ns", *states]
    assert [r.labels["state"] for r in TIME.readings] == [s.removesuffix("_ns") for s in states]
    # The words of a packet's time, too: `unis profile chain`.
    assert {"run delay", "blocked"} < {r.short for r in TIME.readings}


def test_a_reading_of_nanoseconds_is_in_seconds() -> None:
    time = pb.FunctionTime(blocked_ns=1_500_000_000)
    assert reading("functions.time.blocked_ns").read(time) == 1.5


def test_the_pages_are_current() -> None:
    docs = clone() / "docs"
    why = "run `make docs`"
    assert (docs / "counters.md").read_text() == counter_pages.counters(), why
    page = (docs / "columns.md").read_text()
    assert page == counter_pages.with_tables(page), why
    assert {*re.findall(r"<!-- columns (\w+) -->", page)} == {*counter_pages.TABLES}


def test_each_column_that_is_shown_is_explained() -> None:
    chain = pb.ChainStats(name="a", edges=[pb.EdgeStats(to="b"), pb.EdgeStats(to="c")])
    stats = pb.Stats(
        chains=[chain], cores=[pb.CoreStats()], components=[pb.ComponentStats()],
        functions=[pb.FunctionStats(paths=[pb.PathStats()])],
    )  # fmt: skip
    shown = view.live_view("", view.Rates(stats, stats), 200)
    assert isinstance(shown, Group)
    top = [part for part in shown.renderables if isinstance(part, Table)]
    edges = view.edges(stats, {})
    assert edges is not None
    explained = "".join(map(counter_pages.table, counter_pages.TABLES))
    for command, tables in {"ps": [view.processes(stats, {}), view.times(stats), edges],
                            "top": top}.items():  # fmt: skip
        titles = {str(column.header) for table in tables for column in table.columns} - {""}
        for title in titles:
            rows = [line for line in explained.splitlines() if f"`{title}`" in line]
            assert any(f"`{command}`" in row or "| both |" in row for row in rows), title
