"""The example chains in the simulator."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.e2e.machine import UNIS
from unis import built
from unis.chain.load import load
from unis.cli.app import app

pytestmark = pytest.mark.system

EXAMPLES = sorted((built.clone() / "examples").glob("*.yaml"))


def simulate(*words: str | Path) -> str:
    done = CliRunner().invoke(app, ["simulate", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def mpps(table: str) -> dict[str, float]:
    """The column of throughput by policy."""
    rows = [line.split() for line in table.splitlines()]
    return {row[0]: float(row[1]) for row in rows if row and row[0] != "policy"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_runs_in_the_simulator(example: Path) -> None:
    costs = [
        f"--cost={name}=40"
        for name, function in load(example).file.functions.items()
        if function.cost_ns is None
    ]
    first = simulate(example, "--seconds", "0.5", *costs)
    throughput = mpps(first)
    assert throughput["unis"] > 5 * throughput["other"] > throughput["rr"] > 0
    assert simulate(example, "--seconds", "0.5", *costs) == first


def test_another_process_finds_the_same() -> None:
    """Whose sets have another order."""
    example = built.clone() / "examples" / "diamond.yaml"
    words: list[str | Path] = [example, "--seconds", "0.5"]
    words += [f"--cost={name}=40" for name in load(example).file.functions]
    other = subprocess.run(
        [UNIS, "simulate", *words], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )  # fmt: skip
    assert other.returncode == 0, other.stderr
    assert other.stdout == simulate(*words)


def test_source_and_sink_may_be_the_limit(tmp_path: Path) -> None:
    demo = built.clone() / "examples" / "demo.yaml"
    costs = [f"--cost={name}=10" for name in ("firewall", "nat", "monitor")]
    limits = ["--source-ns", "100", "--sink-ns", "150"]
    words: list[str | Path] = [demo, *costs, "--policy", "cooperative", "--seconds", "0.2"]
    free = mpps(simulate(*words))["cooperative"]
    shared = mpps(simulate(*words, *limits))["cooperative"]
    apart = mpps(simulate(*words, *limits, "--three-cpus"))["cooperative"]
    assert shared == pytest.approx(1e3 / 250, rel=0.05)
    assert apart == pytest.approx(1e3 / 150, rel=0.05)
    assert free > 2 * apart
    trace = tmp_path / "t.json"
    simulate(*words, "--trace", trace)
    assert json.loads(trace.read_text())["traceEvents"]
