"""What `unis profile chain` shows, and windows of a chain whose engine answers by a model."""

import json
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import typer

from tests.python.parts_found import found_parts
from tests.python.planned import small
from unis import built
from unis.advice import observed
from unis.chain.load import LoadedChain
from unis.cli import profile_chain_command
from unis.cli.profile_chain_command import print_parts
from unis.cli.terminal import writable
from unis.errors import UnisError
from unis.measure.disturbance import Disturbance
from unis.measure.summary import MachineSummary
from unis.parts import profiler, tracer
from unis.parts.accounting import COPY, PROCESSING, QUEUEING, SEND
from unis.parts.passages import Sampling
from unis.parts.result import ChainParts, PartTime, PlaceParts, TracingCost
from unis.parts.tracer import ThreadWatch, tracing
from unis.runtime import planning
from unis.runtime.errors import InterruptedRunError
from unis.runtime.state import RunState

WATCH = ThreadWatch([12, 13], delay=0.2, period=0.001, open=0.0005, longest=1.5)


def chain_parts(residual: float, functions: int = 1) -> ChainParts:
    time = PartTime(ns_per_packet=1234.0, interval=(1000, 2000), provider="passages")
    return ChainParts(
        machine=MachineSummary(cpu_model="x", cpus=2, kernel="6", dpdk="22"),
        chain="edge", policy="unis", load_kpps=10, most_kpps=20, per_second=900, rounds=2,
        window=0.5,
        functions=[
            PlaceParts(name=f"f{at}", parts={COPY: time, PROCESSING: time})
            for at in range(functions)
        ],
        edges=[PlaceParts(name="source", parts={SEND: time}),
               PlaceParts(name="sink", parts={QUEUEING: time})],
        median_latency_ns=9000, traced_latency_ns=9900, explained_ns=8000, traced_explained_ns=9800,
        residual=residual, residual_interval=(residual - 0.1, residual + 0.1),
        tracing_cost=TracingCost(
            latency=1.1, throughput=0.9, throughput_interval=(0.8, 1.0), ns_per_packet=900
        ),
        packets=1000, left_out={"did not come to the sink": 3}, lost_events=0,
        disturbed=Disturbance.of([]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("functions", "residual", "explained"),
    [(1, 0.15, True), (4, -0.16, False), (5, -0.16, True), (8, 0.26, False)],
)
def test_what_a_residual_may_be(functions: int, residual: float, explained: bool) -> None:
    assert chain_parts(residual, functions).is_explained is explained


def test_a_residual_that_is_too_large_is_said_first(capsys: pytest.CaptureFixture[str]) -> None:
    print_parts(chain_parts(-0.4))
    said, warned = capsys.readouterr()
    assert warned.startswith(
        "The parts add up to 8.0 µs, the latency is 9.0 µs: the residual is -40%, more than 15%"
    )
    assert "left out: 3 packets, did not come to the sink" in said
    print_parts(chain_parts(0.01))
    assert capsys.readouterr().err == ""


def test_what_a_hypervisor_took_is_said_in_the_terminal_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stolen = Disturbance(windows=4, disturbed=2, stolen=0.2, worst=0.3, cpu_seconds=8)
    print_parts(chain_parts(0).model_copy(update={"disturbed": stolen}))
    assert "Disturbed: a hypervisor gave 20.0% of the CPUs' time to others" in "".join(
        capsys.readouterr()
    )
    print_parts(chain_parts(0))
    assert "Disturbed" not in "".join(capsys.readouterr())


def test_each_row_sums_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    print_parts(chain_parts(0))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    (function,) = [row for row in rows if row[:1] == ["f0"]]
    assert function == ["f0", "1,234", "1,234", "2,468", "31%"]
    (every,) = [row for row in rows if row[:1] == ["all"]]
    assert every[-1] == "8,000"


def test_a_table_of_four_functions_fits_into_100_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_parts(found_parts(4, lambda _place, _part: 123_456.0))
    head, told, *table = capsys.readouterr().out.partition("while packets")[0].splitlines()
    assert head.startswith("edge, policy unis")
    assert told.startswith("A packet takes ")
    assert max(map(len, table)) <= 100
    places = [line.split()[0] for line in table[2:]]
    assert places == ["source", "f0", "f1", "f2", "f3", "sink", "all"]


@contextmanager
def a_tracer(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In place of ours: a shell script, wherever this process runs."""
    program = folder / "tracer"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(built, "thread_tracer", lambda: program)
    namespace = folder / "pid"
    namespace.symlink_to(tracer._INITIAL_NAMESPACE)
    monkeypatch.setattr(tracer, "_OWN_NAMESPACE", namespace)
    monkeypatch.setattr(built, "thread_trace_program", lambda: folder / "programs.o")
    yield folder


def test_the_tracer_is_told_whom_to_watch_and_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = '{"events": 0, "bytes": 16, "lost": 2, "clocks": [[1, 2], [3, 4]], "copies": []}'
    script = f"echo \"$*\" >{tmp_path}/words; echo ready 70 10; cat >/dev/null; echo '{head}'"
    with a_tracer(script, tmp_path, monkeypatch):
        with tracing(replace(WATCH, sets=2, copies=True)) as found, pytest.raises(RuntimeError):
            found.recording()
        assert found.sampling(5) == Sampling(5, origin=70, period=10, until=70 + 1500 * 10)
        assert found.recording().lost == 2
    words = (tmp_path / "words").read_text().split()
    assert words[1:] == [
        "--delay=0.2", "--period=0.001", "--open=0.0005", "--sets=2", "--seconds=1.5",
        "--threads=12,13", "--copies",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "script", ["echo no BTF >&2; exit 1", "echo ready 70 10; echo no BTF >&2; exit 1"]
)
def test_what_a_tracer_says_of_its_failure_is_told(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        a_tracer(script, tmp_path, monkeypatch),
        pytest.raises(UnisError, match=r"^no BTF$"),
        tracing(WATCH),
    ):
        pass


def test_an_error_meanwhile_ends_the_tracer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        a_tracer("echo ready 70 10; cat >/dev/null", tmp_path, monkeypatch),
        pytest.raises(KeyError),
        tracing(WATCH),
    ):
        raise KeyError


def test_a_tracer_that_does_not_end_is_told_and_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer, "_END_SECONDS", 0.1)
    with (
        a_tracer("echo ready 70 10; exec sleep 60", tmp_path, monkeypatch),
        pytest.raises(UnisError, match="unis-thread-trace does not end"),
        tracing(WATCH),
    ):
        pass


def test_threads_are_not_watched_by_numbers_of_another_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = '{"events": 0, "bytes": 16, "lost": 2, "clocks": [[1, 2], [3, 4]], "copies": []}'
    with a_tracer(f"echo ready 70 10; cat >/dev/null; echo '{head}'", tmp_path, monkeypatch):
        (tmp_path / "pid").unlink()
        (tmp_path / "pid").symlink_to("pid:[4026532001]")
        with tracing(replace(WATCH, threads=())) as found:
            pass  # clocks are the same
        assert found.recording().lost == 2
        with pytest.raises(UnisError, match="PID namespace in which UNiS runs"), tracing(WATCH):
            pass


def run_of(file: Path, **more: object) -> RunState:
    return cast("RunState", SimpleNamespace(name="x", chain_file=str(file), **more))


def test_a_run_is_planned_with_the_variables_that_it_was_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "chain.yaml"
    file.write_text(json.dumps(small(traffic={"rate": "${RATE}"})))
    state = run_of(file, attached=False, variables={"RATE": "7kpps"}, unisd=SimpleNamespace(pid=1))
    chains: list[LoadedChain] = []

    class Profiler:
        def __init__(self, chain: LoadedChain, *_: object) -> None:
            chains.append(chain)

        def profile(self) -> ChainParts:
            return chain_parts(0)

    monkeypatch.setenv("RATE", "9kpps")
    monkeypatch.setattr(profile_chain_command, "connect", lambda _: (None, state, nullcontext()))
    monkeypatch.setattr(planning, "plan_anywhere", lambda chain: chain)
    monkeypatch.setattr(profiler, "PartsProfiler", Profiler)
    monkeypatch.setattr(observed, "observed", lambda *_: None)
    profile_chain_command.chain("x")
    assert [chain.file.traffic.rate for chain in chains] == ["7kpps"]


def test_a_profile_of_a_run_that_is_terminated_cleans_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "chain.yaml"
    file.write_text(json.dumps(small()))
    state = run_of(file, attached=False, variables={}, unisd=SimpleNamespace(pid=1))

    class Profiler:
        def __init__(self, *_: object) -> None:
            pass

        def profile(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(profile_chain_command, "connect", lambda _: (None, state, nullcontext()))
    monkeypatch.setattr(planning, "plan_anywhere", lambda chain: chain)
    monkeypatch.setattr(profiler, "PartsProfiler", Profiler)
    monkeypatch.setattr(observed, "observed", lambda *_: pytest.fail("it goes on"))
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(InterruptedRunError):
            profile_chain_command.chain("x")
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_run_of_attached_functions_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = run_of(Path(), attached=True)
    monkeypatch.setattr(profile_chain_command, "connect", lambda _: (None, state, nullcontext()))
    with pytest.raises(typer.Exit):
        profile_chain_command.chain("x")
    assert "its functions were attached" in capsys.readouterr().err


@pytest.mark.parametrize("below", ["profile.json", "deeper/profile.json"])
def test_a_file_in_place_of_a_directory_for_results_is_told(
    below: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / below
    with pytest.raises(typer.Exit):
        writable(target)
    assert capsys.readouterr().err.split() == [
        "cannot", "write", f"{target}:", str(target.parent), "is", "not", "a", "directory",
    ]  # fmt: skip
