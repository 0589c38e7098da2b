"""Where the time of a packet goes: a known delay is in its part, and in no other."""

import contextlib
import itertools
import json
import os
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.machine import UNIS, Json, Machine, macswap
from tests.e2e.test_run import CAPTURE
from tests.e2e.test_veth import on_veths
from unis.chain.load import load
from unis.engine.client import EngineClient
from unis.parts.accounting import (
    BLOCKED,
    COPY,
    PARTS,
    PROCESSING,
    QUEUEING,
    RECEIVE,
    RUN_DELAY,
    SEND,
)
from unis.parts.following import follow, threads_of
from unis.parts.passages import passage_logs
from unis.parts.result import ChainParts
from unis.parts.route import route
from unis.parts.tracer import ThreadWatch
from unis.runtime.directory import run_directory
from unis.runtime.planning import plan_anywhere

_SHORT = ("--rounds", "2", "--window", "0.2")
_TOLD = (0, 1)  # 1: the parts do not explain the latency, as where other programs disturb it
_TRACER = "unis-thread-trace"


def chain_file(machine: Machine, costs: dict[str, str], **more: object) -> Path:
    functions = {name: macswap(cost) for name, cost in costs.items()}
    links = on_veths(*functions, driver="mmsg")
    return machine.chain_file(functions, links=links, traffic={"rate": "5kpps"}, **more)


def parts_in(folder: Path) -> dict[str, list[str]]:
    """The parts of each function."""
    text = (folder / "profile.json").read_text()
    found = ChainParts.model_validate_json(text)
    assert found.packets > sum(found.left_out.values())
    assert found.lost_events == 0
    told: Json = json.loads(text)
    assert {"median_latency_ns", "explained_ns", "residual"} <= set(told)
    return {function.name: [*function.parts] for function in found.functions}


def followed(machine: Machine, meanwhile: Callable[[], None]) -> dict[str, dict[str, float]]:
    """ns of each part, by function: medians over the packets of one window. Of differences of
    windows nothing can be said where other programs disturb them.
    """
    directory = run_directory(machine.name)
    state = directory.read()
    assert state
    assert state.unisd
    with EngineClient(directory.socket) as client:
        stats = client.stats()
    plan = plan_anywhere(load(Path(state.chain_file), state.name))
    way = route(plan, {each.name: each.pid for each in stats.functions}, state.unisd.pid)
    watch = ThreadWatch((), 0.01, 0.002, 0.002, 60)
    with passage_logs(way.programs) as logs:
        follow(logs, way.functions, stats.packet_mark, watch, lambda: time.sleep(0.1))
        watch = replace(watch, threads=threads_of(logs))
        _, found = follow(logs, way.functions, stats.packet_mark, watch, meanwhile)
    assert found.lost == 0
    packets = found.account.packets
    assert len(packets) > found.account.left_out.total()
    return {
        name: {
            part: statistics.median(each.parts.get((name, part), 0) for each in packets)
            for part in PARTS
        }
        for name in way.functions
    }


def tracers() -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if path.read_text().strip() == _TRACER[:15]:
                found.append(int(path.parent.name))
    return found


def test_what_a_function_does_with_a_packet_is_its_processing(machine: Machine) -> None:
    machine.up(chain_file(machine, {"light": "light", "heavy": "30000"}))
    parts = followed(machine, lambda: time.sleep(1))
    assert parts["heavy"][PROCESSING] > 5 * parts["light"][PROCESSING] > 0


def test_a_function_that_is_stopped_now_and_then_is_blocked(machine: Machine) -> None:
    file = chain_file(machine, {"first": "light", "second": "light"}, scheduler={"policy": "other"})
    machine.up(file)
    pid = machine.ps()["functions"]["second"]

    def stop_now_and_then() -> None:
        for _ in range(100):
            for number in (signal.SIGSTOP, signal.SIGCONT):
                os.kill(pid, number)
                time.sleep(0.01 if number == signal.SIGSTOP else 0.002)

    parts = followed(machine, stop_now_and_then)
    assert parts["second"][BLOCKED] > 10 * (parts["first"][BLOCKED] + 1)


def test_a_chain_is_profiled_and_nothing_stays(machine: Machine, tmp_path: Path) -> None:
    file = chain_file(machine, {"one": "light", "other": "light"})
    said = machine.unis("profile", "chain", str(file), "-o", str(tmp_path), *_SHORT, codes=_TOLD)
    assert "the residual is " in said
    assert parts_in(tmp_path) == {"one": [*PARTS], "other": [*PARTS]}
    assert tracers() == []
    machine.assert_clean()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["ring", "memif"])
def test_packets_are_followed_where_the_kernel_sees_none(
    kind: str, machine: Machine, tmp_path: Path
) -> None:
    path = ["ingress", "one", "other", "egress"]
    links = [{"from": a, "to": b, "kind": kind} for a, b in itertools.pairwise(path)]
    file = machine.chain_file({"one": macswap(), "other": macswap()}, links=links)
    machine.unis("profile", "chain", str(file), "-o", str(tmp_path), *_SHORT, codes=_TOLD)
    parts = parts_in(tmp_path)
    for name in ("one", "other"):
        assert {QUEUEING, RUN_DELAY, RECEIVE, PROCESSING, SEND} <= set(parts[name])
        assert COPY not in parts[name]


@pytest.mark.long
def test_without_the_right_to_bpf_the_rest_works(machine: Machine, tmp_path: Path) -> None:
    machine.up(chain_file(machine, {"only": "light"}))
    rights = ("setpriv", "--bounding-set=-sys_admin,-bpf,-perfmon", UNIS)
    words = ("profile", "chain", machine.name, "-o", str(tmp_path), *_SHORT)
    with machine.start(*words, program=rights) as process:
        said, _ = process.communicate(timeout=120)
    assert process.returncode in _TOLD, said
    assert "missing: run delay and blocked, which the other parts contain" in said
    assert "missing: copy, which the other parts contain" in said
    parts = parts_in(tmp_path)["only"]
    assert {QUEUEING, RECEIVE, PROCESSING, SEND} <= set(parts)
    assert not {RUN_DELAY, BLOCKED, COPY} & set(parts)


@pytest.mark.long
def test_no_tracer_outlives_a_profile_that_is_killed(machine: Machine, tmp_path: Path) -> None:
    machine.up(chain_file(machine, {"only": "light"}))
    process = machine.start("profile", "chain", machine.name, "-o", str(tmp_path), *_SHORT)
    machine.wait_for(lambda: bool(tracers()), "no tracer comes")
    process.kill()
    process.communicate()
    machine.wait_for(lambda: not tracers(), "the tracer is left")
    # Another profile of the run finds nothing of it.
    machine.unis("profile", "chain", machine.name, "-o", str(tmp_path), *_SHORT, codes=_TOLD)
    assert [*parts_in(tmp_path)] == ["only"]


def test_a_chain_that_cannot_be_followed_is_refused_before_anything_starts(
    machine: Machine,
) -> None:
    file = machine.chain_file(
        {"only": macswap()}, traffic={"source": {"kind": "pcap", "file": str(CAPTURE)}}
    )
    said = machine.unis("profile", "chain", str(file), code=2)
    assert f"{file}: cannot follow the packets of this chain: its source is of kind pcap" in said
    assert "starting" not in said
