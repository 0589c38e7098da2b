"""Costs that are remembered, histograms, and the order of policies."""

import bisect
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unis.bench.synthetic import macswap_chain
from unis.chain.model import PcapSource, SyntheticSource
from unis.chain.values import mean_cost
from unis.engine.histogram import Latency
from unis.plan.programs import ProgramPlan
from unis.runtime.costs import Cost, cost_key, keep_cost, kept_costs, shares_of
from unis.v1 import common_pb2 as common


def function(directory: Path, **parts: object) -> ProgramPlan:
    program = ProgramPlan(
        name="a", program=directory / "p", words=("--rules", "rules"), drivers=("net_unis",),
        env={}, user=None, capabilities=(), yield_every=0, lcore_count=1, stdin=None,
        terminal=False, cwd=directory, container=None,
    )  # fmt: skip
    return dataclasses.replace(program, **parts)  # type: ignore[arg-type]


def test_the_key_of_a_cost_changes_with_all_that_may_change_it(tmp_path: Path) -> None:
    program, rules = tmp_path / "p", tmp_path / "rules"
    program.write_text("one")
    rules.write_text("one")
    base = function(tmp_path)
    keys = [
        cost_key(base, {64: 1}),
        cost_key(base, {1500: 1}),
        cost_key(base, {64: 1, 1500: 1}),
        cost_key(base, {64: 7, 1500: 1}),
        cost_key(function(tmp_path, words=("--rules", "x")), {64: 1}),
        cost_key(function(tmp_path, words=("--rules=rules",)), {64: 1}),
        cost_key(function(tmp_path, lcore_count=2), {64: 1}),
        cost_key(function(tmp_path, stdin="start\n"), {64: 1}),
        cost_key(function(tmp_path, terminal=True), {64: 1}),
        cost_key(function(tmp_path, yield_every=8), {64: 1}),
        cost_key(function(tmp_path, env={"DEPTH": "2"}), {64: 1}),
        cost_key(function(tmp_path, user="nobody"), {64: 1}),
        cost_key(function(tmp_path, capabilities=("net_raw",)), {64: 1}),
    ]
    rules.write_text("two")
    keys.append(cost_key(base, {64: 1}))
    program.write_text("two")
    keys.append(cost_key(base, {64: 1}))
    assert len(set(keys)) == len(keys)
    elsewhere = function(tmp_path, name="b")
    assert cost_key(elsewhere, {64: 1}) == keys[-1]


@pytest.mark.parametrize("argument", ["x" * 5000, "a\0b"])
def test_an_argument_that_can_name_no_file(tmp_path: Path, argument: str) -> None:
    (tmp_path / "p").write_text("one")
    keys = {cost_key(function(tmp_path, words=(it,)), {64: 1}) for it in ("x", argument)}
    assert len(keys) == 2


def test_the_key_of_a_cost_follows_what_a_program_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "real"
    wrapper = tmp_path / "p"
    wrapper.write_text('#!/bin/sh\nexec "./real" "$@"\n')
    monkeypatch.setenv("PATH", str(tmp_path))
    by_env = function(tmp_path, program=Path("/usr/bin/env"), words=("A=1", "real"))
    keys = set()
    for content in ("one", "two"):
        real.write_text(content)
        real.chmod(0o755)
        keys |= {cost_key(function(tmp_path, words=()), {64: 1}), cost_key(by_env, {64: 1})}
    assert len(keys) == 4


def test_costs_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "deep"))
    assert kept_costs() == {}
    cost = Cost(ns=50, ns_q1=45, ns_q3=60, cycles=120)
    keep_cost("x", cost)
    keep_cost("y", cost)
    assert kept_costs() == {"x": cost, "y": cost}
    (tmp_path / "deep" / "unis" / "costs.json").write_text("{broken")
    assert kept_costs() == {}
    keep_cost("x", cost)
    assert kept_costs() == {"x": cost}


def test_costs_of_runs_that_start_at_once_are_all_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cost = Cost(ns=50, ns_q1=45, ns_q3=60, cycles=120)
    ready = Barrier(4)

    def run(name: str) -> list[str]:
        keys = [f"{name}{function}" for function in range(5)]
        ready.wait()
        for key in keys:
            keep_cost(key, cost)
        return keys

    with ThreadPoolExecutor(4) as runs:
        keys = [key for written in runs.map(run, "abcd") for key in written]
    assert kept_costs().keys() == {*keys}


@given(
    st.lists(st.dictionaries(st.integers(1, 10**10), st.integers(1, 100), max_size=20), max_size=4),
    st.sampled_from([1, 5, 50, 95, 99, 99.9, 100]),
)
def test_latency_over_windows_is_that_of_all_their_packets(
    windows: list[dict[int, int]], percentile: float
) -> None:
    latency = Latency(
        common.LatencyHistogram(value_ns=sorted(window), count=[window[v] for v in sorted(window)])
        for window in windows
    )
    packets = sorted(v for window in windows for v, count in window.items() for _ in range(count))
    assert latency.count == len(packets)
    if packets:
        expected = np.percentile(packets, percentile, method="inverted_cdf")
        assert latency.percentile_us(percentile) == expected / 1000
    assert latency.curve() == [
        (value / 1000, bisect.bisect_right(packets, value) / len(packets))
        for value in sorted(set(packets))
    ]


def test_no_packet_has_no_latency() -> None:
    assert Latency().percentiles_us([50]) == {"p50": None}
    assert Latency().curve() == []


def test_sizes_that_costs_are_taken_over() -> None:
    chain = macswap_chain("agreement", "light", 2, 1)
    traffic = chain.file.traffic
    assert shares_of(traffic) == {64: 1}
    assert shares_of(traffic, [512, 1500]) == {512: 1, 1500: 1}
    mixed = traffic.model_copy(update={"source": SyntheticSource(kind="synthetic", size="imix")})
    assert shares_of(mixed) == {64: 7, 594: 4, 1518: 1}
    capture = traffic.model_copy(update={"source": PcapSource(kind="pcap", file="x.pcap")})
    assert shares_of(capture) == {64: 1, 512: 1, 1024: 1, 1500: 1}


def test_a_mean_cost_is_that_of_the_packets_that_come() -> None:
    by_size = {64: 10.0, 594: 40.0, 1518: 100.0}
    imix = {64: 7, 594: 4, 1518: 1}
    assert mean_cost(by_size, imix) == pytest.approx((7 * 10 + 4 * 40 + 100) / 12)
    assert mean_cost(by_size, {}) == 50
    assert mean_cost(7.0, imix) == 7
    table = {128: 45.0, 512: 70.0, 1024: 100.0}  # linear in between, flat beyond
    assert mean_cost(table, {320: 1}) == pytest.approx(57.5)
    assert mean_cost(table, {64: 1, 1518: 3}) == pytest.approx((45 + 3 * 100) / 4)
