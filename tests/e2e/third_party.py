"""Programs that the project did not write, for chains of end-to-end tests."""

import os
from pathlib import Path

import pytest

from tests.e2e.machine import Json
from tests.needs import need
from unis import built

TESTPMD = ["--auto-start", "--rxd=1024", "--txd=1024",
           "--total-num-mbufs=16384", "--no-flush-rx", "--no-lsc-interrupt"]  # fmt: skip

# Traffic. testpmd drops packets when its egress is full, and an exact account then takes 0.5 s.
SLOWLY: Json = {"rate": "0.1Mpps"}


def third_party(name: str) -> Path:
    """A program that `tools/third-party` fetches, which continuous integration must have done."""
    program = built.clone() / "build" / "third-party" / "bin" / name
    need(program.exists(), f"needs {name}: run tools/third-party")
    return program


def on_path(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As if a package had installed it."""
    folder = third_party(name).parent
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def a_testpmd(mode: str = "macswap", *words: str, **more: object) -> Json:
    """A function for `Machine.chain_file` that forwards so."""
    command = [str(third_party("dpdk-testpmd")), f"--forward-mode={mode}", *TESTPMD, *words]
    return {"command": command, "lcores": 2, "cpu": 1, "cost_ns": 60, **more}


def a_skeleton(**more: object) -> Json:
    """Another: DPDK's basicfwd, of one lcore."""
    return {"command": [str(third_party("skeleton"))], "cpu": 1, "cost_ns": 60, **more}


def an_l3fwd(ports: int = 2, **more: object) -> Json:
    """DPDK's router, by its built-in routes: what is for 198.18.N.0/24 leaves by port N."""
    polled = ",".join(f"({port},0,{{lcore0}})" for port in range(ports))
    command = [str(third_party("l3fwd")), "{eal}", "--", "-p", f"{(1 << ports) - 1:x}", "-P",
               "--parse-ptype", f"--config={polled}"]  # fmt: skip
    return {"command": command, "cpu": 1, "cost_ns": 60, **more}
