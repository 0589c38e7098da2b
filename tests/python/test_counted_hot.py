"""Stacks of perf: read, folded, drawn."""

import shutil
import stat
import xml.etree.ElementTree as ET
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.python.planned import planned, small
from unis.cli.counted_tables import print_hot
from unis.counted.beside import Beside, BesideSettings
from unis.counted.counting import Counting
from unis.counted.flame import Frame, Stacks, flame_graph, folded
from unis.counted.hot import Hot, HotError, hot_functions, parse_stacks, sampled
from unis.counted.provider import CountedChain, CountedFunction
from unis.engine.client import EngineClient
from unis.v1 import engine_pb2 as pb

SCRIPT = """12/12
\tffffffff813a2413 finish_task_switch.isra.0 ([kernel.kallsyms])
\t          101829 syscall (/usr/lib/libc.so.6)
\t            4418 unis::functions::Forward<unis::functions::Nat> (/build/functions/nat)
\t               1 [unknown] ([unknown])

12/13
\t            4418 unis::functions::Forward<unis::functions::Nat> (/build/functions/nat)

99/99
\t            4418 main (/bin/other)

20/20
\t            4418 main;x (/build/functions/fw)
"""
NAMES = {20: "fw", 12: "nat"}
FUNCTIONS = [CountedFunction("fw", 20), CountedFunction("nat", 12)]
CHAIN = CountedChain(cast("EngineClient", None), FUNCTIONS, ())


def test_samples_of_the_functions_are_read() -> None:
    stacks = parse_stacks(SCRIPT, NAMES)
    assert folded(stacks).splitlines() == [
        "fw;main:x 1",
        "nat;unis::functions::Forward<unis::functions::Nat> 1",
        "nat;unis::functions::Forward<unis::functions::Nat>;syscall;finish_task_switch.isra.0 1",
    ]
    kinds = {frame.symbol: frame.kind for stack in stacks for frame in stack}
    assert kinds["finish_task_switch.isra.0"] == "kernel"
    assert kinds["syscall"] == "library"
    assert kinds["main;x"] == "program"
    assert [stack[0].symbol for stack in stacks] == ["fw", "nat", "nat"]


def test_the_innermost_symbols_are_the_hot_ones() -> None:
    first, second = hot_functions(parse_stacks(SCRIPT, NAMES), FUNCTIONS)
    assert (first.name, first.samples, [each.share for each in first.symbols]) == ("fw", 1, [1.0])
    assert second.samples == 2
    assert {each.symbol for each in second.symbols} == {
        "finish_task_switch.isra.0", "unis::functions::Forward<unis::functions::Nat>",
    }  # fmt: skip


def test_no_more_than_ten_and_the_hottest_first() -> None:
    stacks: Stacks = {
        (Frame("fw", "", "function"), Frame(f"f{at}", "fw", "program")): at for at in range(1, 15)
    }
    (function, other) = hot_functions(stacks, FUNCTIONS)
    assert [each.symbol for each in function.symbols] == [f"f{at}" for at in range(14, 4, -1)]
    assert (other.samples, other.symbols) == (0, [])


FRAMES = st.builds(
    Frame, st.text(max_size=8), st.text(max_size=4), st.sampled_from(["program", "kernel"])
)
STACKS = st.dictionaries(
    st.lists(FRAMES, min_size=1, max_size=5).map(tuple), st.integers(1, 1000), max_size=6
)


@given(STACKS)
def test_whatever_symbols_are_called_the_picture_is_xml(
    stacks: dict[tuple[Frame, ...], int],
) -> None:
    printable = {
        tuple(Frame(_printable(f.symbol), _printable(f.module), f.kind) for f in stack): count
        for stack, count in stacks.items()
    }
    root = ET.fromstring(flame_graph(printable, "a < b"))  # noqa: S314
    rects = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if "y" in each.attrib]
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for rect in rects:
        assert float(rect.attrib["x"]) >= 0
        assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width + 0.1
        assert 0 <= float(rect.attrib["y"]) <= height
    total = sum(printable.values())
    titles = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [] if not total else titles[0] == f"all: {total} samples, 100.0%"


def _printable(text: str) -> str:
    return "".join(each for each in text if each.isprintable())


def test_a_frame_is_as_wide_as_its_share() -> None:
    outer, inner = Frame("outer", "m", "program"), Frame("inner", "m", "kernel")
    text = flame_graph({(outer,): 3, (outer, inner): 1}, "x")
    groups = ET.fromstring(text).iter("{http://www.w3.org/2000/svg}g")  # noqa: S314
    widths = {each[0].text: float(each[1].attrib["width"]) for each in groups}
    assert widths["outer (m): 4 samples, 100.0%"] == 1200
    assert widths["inner (m): 1 samples, 25.0%"] == 300
    assert "script" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def a_perf(folder: Path, record: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of perf: a shell script."""
    program = folder / "perf"
    program.write_text(
        "#!/bin/bash\ncase $1 in record)\n"
        'while [ "$1" != --control ]; do shift; done; pipes=${2#fd:}\n'
        f"{record}\n;; script)\n{script}\n;; esac\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(shutil, "which", lambda _: str(program))


RECORDS = "read -r word <&${pipes%,*}; echo ack >&${pipes#*,}; exec cat"


def test_without_perf_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(HotError, match="apt-get install linux-perf"):
        sampled(CHAIN, lambda: None)


def test_what_perf_says_of_its_failure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_perf(tmp_path, "echo WARNING: perf not found for kernel 6.18 >&2; exit 2", "", monkeypatch)
    with pytest.raises(HotError, match=r"perf not found for kernel 6\.18"):
        sampled(CHAIN, lambda: None)
    a_perf(tmp_path, RECORDS, "echo file too new >&2; exit 1", monkeypatch)
    with pytest.raises(HotError, match="perf script failed: file too new"):
        sampled(CHAIN, lambda: None)
    a_perf(tmp_path, RECORDS, "", monkeypatch)
    with pytest.raises(HotError, match="no samples"):
        sampled(CHAIN, lambda: None)


def test_what_perf_started_does_not_outlive_its_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = tmp_path / "late"
    record = f"exec 9<&0; (timeout 5 cat <&9 || touch {late}) & echo killed >&2; exit 2"
    a_perf(tmp_path, record, "", monkeypatch)
    with pytest.raises(HotError, match="perf record failed: killed"):
        sampled(CHAIN, lambda: None)
    assert not late.exists()


@pytest.mark.parametrize(("rounds", "windows"), [(3, 3), (100, 15)])
def test_long_windows_are_not_all_sampled(
    rounds: int, windows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = SimpleNamespace(stats=pb.Stats)
    settings = BesideSettings(hot=True)
    found = Beside(planned(small()), cast("EngineClient", client), settings, lambda _: None)
    a_perf(tmp_path, RECORDS, "printf '20/20\n\t4418 main (/fw)\n'", monkeypatch)
    asked: list[str] = []
    monkeypatch.setattr(Counting, "during", lambda *_: nullcontext())
    found.own_windows(lambda: asked.append(""), rounds, 0.1, 1.9)
    assert len(asked) == rounds + windows


def test_hidden_symbols_of_the_kernel_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script_of(symbol: str) -> str:
        return (
            "cat <<END\n12/12\n\tffffffff813a2413 "
            f"{symbol} ([kernel.kallsyms])\n\t4418 main (/nat)\nEND"
        )

    a_perf(tmp_path, RECORDS, script_of("[unknown]"), monkeypatch)
    found = sampled(CHAIN, lambda: None)
    assert "kptr_restrict" in found.missing[0]
    a_perf(tmp_path, RECORDS, script_of("schedule"), monkeypatch)
    assert sampled(CHAIN, lambda: None).missing == []


def test_the_table_names_each_function_once(capsys: pytest.CaptureFixture[str]) -> None:
    functions = hot_functions(parse_stacks(SCRIPT, NAMES), FUNCTIONS)
    print_hot(Hot(event="cpu-clock", hertz=999, functions=functions))
    said = capsys.readouterr().out
    assert "3 samples, 999 for each second of CPU time, by cpu-clock" in said
    assert [line.split()[0] for line in said.splitlines() if line[:1] not in ("", " ")][:3] == [
        "function", "fw", "nat",
    ]  # fmt: skip
