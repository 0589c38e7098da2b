"""`python -m evaluation ways`: what is refused, what is added to costs; and all of it, recorded."""

import json
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.app import app as evaluation_app
from evaluation.caches import functions, geometry, references
from evaluation.caches.functions import CostWithWays, cost_with_ways
from evaluation.caches.geometry import PAPER, read_caches
from evaluation.caches.references import Recorded, RecordedProgram
from evaluation.commands.caches import costs_with_ways
from tests.needs import need
from tests.python.commands import evaluation, json_of, run
from tests.python.planned import small
from tests.python.strategies import scaled
from tests.python.test_caches_model import MISSES, profile_of
from unis import built
from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.counted.flows import Flows
from unis.plan.solo import solo_chain
from unis.runtime.planning import plan_anywhere
from unis.simulate.run import SimulationSummary, simulate
from unis.simulate.scenario import CostOf, MachineCosts, scenario

DEMO = str(Path(__file__).resolve().parents[2] / "examples" / "demo.yaml")
HEAD = "apiVersion: unis/v1\nname: x\ndefaults: {cpu: 1}\nchains: {c: {path: [a]}}\n"


def a_file(folder: Path, function: str = "{program: sh}", source: str = "kind: synthetic") -> Path:
    file = folder / "x.yaml"
    file.write_text(f"{HEAD}functions: {{a: {function}}}\ntraffic: {{source: {{{source}}}}}\n")
    return file


def refused(file: Path, *words: str) -> str:
    """The sentence, with neither the frame of an error nor the ends of its lines."""
    code, text = evaluation("ways", file, "--cost", "a=40", *words)
    assert code == 2, text
    assert "Traceback" not in text
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("option", ["--ways", "--caches"])
def test_the_options_of_before_say_where_they_are(option: str) -> None:
    code, said = run("simulate", DEMO, option, "nat=2")
    assert (code, "python -m evaluation ways FILE NAME=N" in said) == (2, True)
    assert option not in run("simulate", "--help")[1].split()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["b=2"], "NAME=N: there is no function `b`: a"),
        (["a"], "`a`: write NAME=N"),
        (["a=1.5"], "`a=1.5`: write NAME=N"),
        (["a=0"], "`a=0`: the last-level cache of Xeon E5-2695 v4 has 20 ways, 2 of"),
        (["a=-1"], "functions have 1 or more each, and 18 in all"),
        (["a=19"], "functions have 1 or more each, and 18 in all"),
    ],
)
def test_ways_that_cannot_be(tmp_path: Path, words: list[str], sentence: str) -> None:
    assert sentence in refused(a_file(tmp_path), "--caches", "paper", *words)


def test_functions_have_no_more_ways_than_there_are_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 20 the device has two; each for itself would have enough."""
    monkeypatch.setattr(functions, "record", not_recorded)
    monkeypatch.setattr(functions, "cache_profile", lambda *_: profile_of((0.0,) * 20))
    chain = LoadedChain(Path("x.yaml"), ChainFile.model_validate(small()))
    whole: dict[str, CostOf] = {"nat": 100.0, "monitor": 100.0}

    def of(nat: int, monitor: int) -> list[int]:
        ways = {"nat": nat, "monitor": monitor}
        return [found.ways for found in costs_with_ways(chain, ways, whole, "paper")]

    assert of(10, 8) == [10, 8]
    with pytest.raises(typer.BadParameter, match=r"`nat=10 monitor=9`.* has 20 ways.* 18 in all"):
        of(10, 9)
    with pytest.raises(typer.BadParameter, match="1 or more each"):
        of(10, 0)


def test_caches_that_cannot_be(tmp_path: Path) -> None:
    assert "invalid caches `mine`; expected one of this, paper" in refused(
        a_file(tmp_path), "a=2", "--caches", "mine"
    )


def test_a_machine_that_tells_no_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "read_caches", lambda: read_caches(0, tmp_path))
    text = refused(a_file(tmp_path), "a=2")
    assert "levels none" in text
    assert "`--caches paper` takes those of Xeon E5-2695 v4" in text


def test_what_the_model_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(file: Path) -> str:
        return refused(file, "a=2", "--caches", "paper")

    (tmp_path / "x.pcap").write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff0000"))
    assert "not captures or ports" in told(a_file(tmp_path, source="kind: pcap, file: x.pcap"))
    assert "`a` is a command of others" in told(a_file(tmp_path, "{command: [sh, -x]}"))
    for name in ("nowhere", "9" * 5000):  # longer than a file's name can be
        assert f"there is no program `{name}`" in told(a_file(tmp_path, f"{{program: '{name}'}}"))
    (tmp_path / "unis-refs").touch()
    monkeypatch.setattr(references, "_recorder", lambda: tmp_path / "unis-refs")
    monkeypatch.setenv("VALGRIND_LIB", "/nowhere")
    assert "Valgrind is missing" in told(a_file(tmp_path))


def test_each_size_costs_as_much_more() -> None:
    whole = {64: 100.0, 1518: 300.0}
    of = CostWithWays("nat", 1, whole, 25.0, {64: 3, 1518: 1}, "a cache")
    assert of.cost == {64: 125, 1518: 325}
    assert str(of) == "cost of nat with 1 way: 175 ns instead of 150, modelled: a cache"
    assert of.as_json() == {
        "ways": 1, "ns": 175, "ns_with_whole_cache": 150, "cost_ns": {64: 125, 1518: 325},
        "source": "modelled: a cache",
    }  # fmt: skip


def not_recorded(subject: RecordedProgram, flows: Flows, **_: object) -> Recorded:
    return Recorded(subject.name, subject.program, flows.total, flows.flows)


@pytest.mark.parametrize("cost", [60.0, 600.0])
def test_what_is_added_is_the_models_whatever_the_cost(
    cost: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each miss takes 85 ns instead of 20, and the core bears one part in 3.5 of that."""
    monkeypatch.setattr(functions, "record", not_recorded)
    monkeypatch.setattr(functions, "cache_profile", lambda *_: profile_of((7.0, 3.0, 0.0)))
    chain = LoadedChain(Path("x.yaml"), ChainFile.model_validate(small()))
    plan = plan_anywhere(solo_chain(chain, "nat"))
    costs = [cost_with_ways(plan, ways, PAPER, cost, lambda _: None).cost for ways in (1, 2, 3)]
    assert costs == pytest.approx([cost + misses * 65 / 3.5 for misses in (7, 3, 0)])


@pytest.mark.system
@settings(max_examples=scaled(10))
@given(misses=MISSES, cost=st.floats(20, 500) | st.fixed_dictionaries({64: st.floats(20, 500)}))
def test_whatever_it_misses_fewer_ways_never_pass_more(
    misses: tuple[float, ...], cost: CostOf
) -> None:
    """Of a chain whose second function has them."""
    chain = LoadedChain(Path("x.yaml"), ChainFile.model_validate(small()))
    others: dict[str, CostOf] = {"fw": 50.0, "monitor": 70.0}
    ways = sorted({1, 2, (len(misses) + 1) // 2, len(misses)} & {*range(1, len(misses) + 1)})

    def passed(count: int) -> float:
        of = cost_with_ways(
            plan_anywhere(solo_chain(chain, "nat")), count, PAPER, cost, lambda _: None
        )
        wanted = scenario(
            chain, {**others, of.function: of.cost}, "cooperative", 0.02, MachineCosts()
        )
        return SimulationSummary.of(simulate(wanted)).mpps

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functions, "record", not_recorded)
        patch.setattr(functions, "cache_profile", lambda *_: profile_of(misses))
        mpps = [passed(count) for count in ways]
    whole = simulate(scenario(chain, {**others, "nat": cost}, "cooperative", 0.02, MachineCosts()))
    assert mpps[-1] == pytest.approx(SimulationSummary.of(whole).mpps)
    # A burst more or less at either end of what is counted, and where a turn happens to end.
    burst = 3 * 32 / 0.02 / 1e6
    assert all(fewer <= 1.02 * more + burst for fewer, more in pairwise(mpps))


# ------------------------------------------------------------------ recorded

CACHES = ["--caches", "paper"]  # the same on every machine


def need_valgrind() -> None:
    need(shutil.which("valgrind") is not None, "needs valgrind: apt-get install valgrind")


def chain_file(tmp_path: Path, program: str, cost: str = "80") -> str:
    file = tmp_path / "chain.yaml"
    file.write_text(
        "apiVersion: unis/v1\nname: x\ndefaults: {cpu: 1}\n"
        "traffic: {source: {kind: synthetic, size: 64, flows: 30000}}\n"
        f"functions: {{f: {{program: {program}, cost_ns: {cost}}}}}\nchains: {{c: {{path: [f]}}}}\n"
    )
    return str(file)


def modelled(*words: str) -> Any:
    return json.loads(json_of("ways", *words, *CACHES, "--json", of=evaluation_app))


@pytest.mark.system
def test_fewer_ways_never_pass_more(tmp_path: Path) -> None:
    """What 30,000 flows need of monitor, some 2 MB, is more than one way of the paper's cache."""
    need_valgrind()
    file = chain_file(tmp_path, "monitor")

    def mpps(cost: float) -> float:
        words = ["--policy", "cooperative", "--seconds", "0.1", "--cost", f"f={cost!r}", "--json"]
        (answer,) = json.loads(json_of("simulate", file, *words))
        return float(answer["mpps"])

    costs = [modelled(file, f"f={ways}")["f"] for ways in (1, 2, 3, 18)]
    by_ways = [mpps(cost["cost_ns"]) for cost in costs]
    assert all(fewer["ns"] >= more["ns"] for fewer, more in pairwise(costs))
    assert all(fewer <= more for fewer, more in pairwise(by_ways))
    assert costs[0]["ns"] > 1.1 * costs[0]["ns_with_whole_cache"]
    assert by_ways[0] < mpps(80) / 1.1
    assert by_ways[-1] == mpps(80)
    assert {cost["source"].partition(":")[0] for cost in costs} == {"modelled"}
    assert all("the paper's Xeon assumed (20 and 85 ns)" in cost["source"] for cost in costs)


@pytest.mark.system
def test_the_flows_of_the_demo_fit_into_one_way() -> None:
    need_valgrind()
    costs = modelled(DEMO, "firewall=1", "nat=1", "monitor=1").values()
    assert len(costs) == 3
    assert all(cost["ns"] == pytest.approx(cost["ns_with_whole_cache"], abs=0.01) for cost in costs)


@pytest.mark.system
def test_a_recording_is_the_same_in_each_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which lies above the stack, and so moves it."""
    need_valgrind()
    subject = RecordedProgram("nat", built.reference_function("nat"), ("--public", "198.51.100.1"))
    found = []
    for length in (0, 333, 2100):
        monkeypatch.setenv("UNIS_TEST_OF_LENGTH", "x" * length)
        folder = tmp_path / f"{length:04}"
        found.append(references.record(subject, Flows(100, 400), folder=folder).file.read_bytes())
    assert found[0] == found[1] == found[2]


@pytest.mark.system
def test_what_is_modelled_says_so_and_is_recorded_once(tmp_path: Path) -> None:
    need_valgrind()
    file = chain_file(tmp_path, "macswap")
    code, text = evaluation("ways", file, "f=1", *CACHES)
    assert code == 0
    assert "recording macswap with 130000 packets, under Valgrind" in text
    assert "cost of f with 1 way: 80 ns instead of 80, modelled: cache of 20 ways" in text
    assert "30000 flows, caches of Xeon E5-2695 v4, latencies of the paper's Xeon" in text
    assert f"\nunis simulate {file} --cost f=80\n" in text
    assert "recording" not in evaluation("ways", file, "f=2", *CACHES)[1]


@pytest.mark.system
def test_costs_by_size_are_for_the_file(tmp_path: Path) -> None:
    need_valgrind()
    file = chain_file(tmp_path, "macswap", "{64: 80, 1500: 90}")
    text = evaluation("ways", file, "f=1", *CACHES)[1]
    assert f"\nin {file}: functions.f.cost_ns: {{64: 80, 1500: 90}}\n" in text
    assert "unis simulate" not in text


@pytest.mark.system
def test_a_program_without_symbols_is_refused(tmp_path: Path) -> None:
    need_valgrind()
    need(shutil.which("strip") is not None, "needs strip, of binutils")
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, built.reference_function("macswap")], check=True)
    code, text = evaluation("ways", chain_file(tmp_path, str(stripped)), "f=1", *CACHES)
    assert code == 2
    assert "stripped of its symbols" in text
