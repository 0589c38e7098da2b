"""Whoever reaches the engine's socket says what he likes, in any order, in messages and in bytes
that are none: the engine goes on, answers, ends on Stop, and its memory stays what it was.
"""

import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.fuzz.mutation import rounds, spoiled
from tests.needs import need_root
from unis import built
from unis.engine.client import EngineClient
from unis.v1 import costs_pb2
from unis.v1 import engine_pb2 as pb

REQUESTS: dict[str, Any] = {
    "Deploy": pb.DeployRequest(
        run="fuzz",
        links=[{"name": "in.0", "kind": "LINK_RING", "slots": 64},
               {"name": "out.0", "kind": "LINK_RING", "slots": 64}],
        functions=[{"name": "a", "cpu": 1, "cost_ns": 50, "group": 1,
                    "ports": [{"name": "a.0", "rx": "in.0", "tx": "out.0"}]}],
        chains=[{"name": "c", "ingress": "in.0", "hops": [{"function": "a"}], "egress": "out.0"}],
        traffic={"synthetic": {"flows": 4, "size": 64, "mix": 1}},
        scheduler={"gamma": 0.7, "interval_ns": 1000},
    ),
    "Apply": pb.DeployRequest(
        run="fuzz", links=[{"name": "in.1", "kind": "LINK_RING", "slots": 64}],
        traffic={"synthetic": {"flows": 4, "size": 64, "mix": 1}},
        scheduler={"gamma": 0.7, "interval_ns": 1000},
    ),
    "Detach": pb.DetachRequest(function="a"),
    "Attach": pb.AttachRequest(function="a", pid=os.getpid(), timeout_ns=1_000_000),
    "Estimate": costs_pb2.EstimateRequest(functions=["a"], sizes=[64], rounds=1),
    "MeasureSwitchCost": costs_pb2.SwitchCostRequest(cpu=7, rounds=1),
    "Start": pb.PolicyRequest(policy="POLICY_UNIS"),
    "SetPolicy": pb.PolicyRequest(policy="POLICY_RR"),
    "GetStats": pb.StatsRequest(latency=True),
    "Watch": pb.WatchRequest(interval_ns=10_000_000),
    "Measure": pb.MeasureRequest(window_ns=1_000_000),
    "Settle": pb.SettleRequest(timeout_ns=1_000_000),
    "Trace": pb.TraceRequest(duration_ns=1_000_000),
}  # fmt: skip
WORDS = [b"in.0", b"..", b"/", b"a" * 300, b"\xff" * 10, b"\x00", b"\x80" * 9 + b"\x01"]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    need_root()
    path = tmp_path / "engine.sock"
    prefix = f"fuzz{os.getpid()}"
    arguments = [str(built.unisd()), "--socket", str(path), "--file-prefix", prefix]
    with subprocess.Popen(arguments) as unisd:
        try:
            end = time.monotonic() + 60
            while not path.exists() and unisd.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            yield unisd, path
        finally:
            unisd.kill()
            unisd.wait()
            for left in Path("/dev/hugepages").glob(f"fuzz{os.getpid()}map_*"):
                left.unlink()


def resident(unisd: subprocess.Popen[bytes]) -> int:
    """KiB, without what DPDK shares."""
    status = Path(f"/proc/{unisd.pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0])


def say_bytes(dice: random.Random, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(2)
        raw.connect(str(path))
        frame = dice.randbytes(dice.randint(0, 60))
        start = dice.choice(
            (b"", PREFACE, PREFACE + b"\0\0\0\4\0\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n")
        )
        try:
            raw.sendall(start + dice.choice((frame, spoiled(dice, start + frame, WORDS))))
        except OSError:
            return  # the engine has hung up


def say_message(dice: random.Random, channel: grpc.Channel) -> None:
    method = dice.choice(list(REQUESTS))
    message = REQUESTS[method].SerializeToString()
    match dice.randrange(5):
        case 0:
            pass
        case 1:  # larger than any message
            message += b"\x0a" + b"\xff\xff\xff\x02" + b"a" * dice.choice((1 << 16, 5 << 20))
        case _:
            message = spoiled(dice, message, WORDS)
    name = f"/unis.v1.Engine/{method}"
    try:
        if method == "Watch":
            watch: Any = channel.unary_stream(name)(message, timeout=1)
            next(iter(watch), None)
            watch.cancel()
        else:
            channel.unary_unary(name)(message, timeout=dice.choice((0.001, 5)))
    except grpc.RpcError:
        return  # refused; whether it lives is looked at elsewhere


def test_the_engine_goes_on_whatever_it_is_told(
    engine: tuple[subprocess.Popen[bytes], Path],
) -> None:
    unisd, path = engine
    with (
        EngineClient(path) as client,
        grpc.insecure_channel(
            f"unix:{path}", options=[("grpc.default_authority", "unisd")]
        ) as channel,
    ):
        client.stats(seconds=30)
        before = resident(unisd)
        for dice in rounds():
            if dice.random() < 0.2:
                say_bytes(dice, path)
            else:
                say_message(dice, channel)
            assert unisd.poll() is None
        client.stats(seconds=60)
        assert resident(unisd) - before < 200 << 10
        with EngineClient(path) as last:
            last.stop(seconds=1)
    assert unisd.wait(timeout=60) == 0
