"""The example chains in the simulator."""

import json
from pathlib import Path

import pytest

from tests import forked
from unis import built
from unis.chain.load import load

pytestmark = pytest.mark.system

EXAMPLES = sorted((built.clone() / "examples").glob("*.yaml"))


def simulate(*words: str | Path) -> str:
    """In turn by two processes, each with its order of sets."""
    code, output, errors = forked.unis(["simulate", *map(str, words)], Path.cwd(), 120)
    assert code == 0, errors
    return output


def mpps(table: str) -> dict[str, float]:
    """The column of throughput by policy."""
    rows = [line.split() for line in table.splitlines()]
    return {row[0]: float(row[1]) for row in rows if row and row[0] != "policy"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_runs_in_the_simulator(example: Path) -> None:
    file = load(example).file
    costs = [
        f"--cost={name}=40" for name, function in file.functions.items() if function.cost_ns is None
    ]
    first = simulate(example, "--seconds", "0.5", *costs)
    throughput = mpps(first)
    if file.traffic.rate == "max":
        assert throughput["unis"] > 5 * throughput["other"] > throughput["rr"] > 0
    else:
        # Of a low rate both pass all: bursts of `other` may end a little before the window.
        assert throughput["unis"] >= 0.98 * throughput["other"] > 0
    assert simulate(example, "--seconds", "0.5", *costs) == first


def test_a_table_is_headed_by_the_file_and_the_source_of_each_cost(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "apiVersion: unis/v1\nname: x\ndefaults: {cpu: 1}\nfunctions:\n"
        "  a: {program: /no/a, cost_ns: 41.25}\n  b: {program: /no/b, cost_ns: {64: 50, 512: 90}}\n"
        "  c: {program: /no/c}\n  d: {program: /no/d, cost_ns: 9}\n"
        "chains: {c: {path: [a, b, c, d]}}\n"
    )
    words = ["simulate", str(file), "--seconds", "0.01", "--policy", "unis", "--cost", "d=12000"]
    _, _, errors = forked.unis(words, Path.cwd(), 120)
    told = "ns a packet: a 41.25 (file), b 50 to 90 (file), c 60 (assumed), d 12000 (--cost)"
    assert f"{file}; {told}\n" in errors


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
