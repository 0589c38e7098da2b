"""What memory, switches, calls and probes take: what is printed, kept, and shown again."""

import json
import platform
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.python.commands import json_of, run, stale_run
from unis import built
from unis.calibrate import machine as measuring
from unis.calibrate.machine import parsed
from unis.cli.primitives_tables import VIEWS
from unis.errors import UnisError
from unis.measure.primitives import FILE, MedianNs, Primitive, Primitives, kept
from unis.plan.machine import Machine
from unis.runtime import costs
from unis.runtime.process import ProcessId

NS = st.floats(-1e6, 1e9, allow_nan=False)
MEDIANS = st.builds(
    lambda values, samples: MedianNs(
        samples=samples, low_ns=min(values), median_ns=sorted(values)[1], high_ns=max(values)
    ),
    st.tuples(NS, NS, NS),
    st.integers(6, 1000),
)
ROWS = st.builds(
    lambda group, name, labels, found: Primitive(
        group=group, name=name, labels=labels, provider="clock",
        ns=found if isinstance(found, MedianNs) else None,
        missing=found if isinstance(found, str) else None,
    ),
    st.sampled_from(["memory", "call", "switch", "wake_up", "timer", "packet", "probe"]),
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=9), st.integers(0, 1 << 40) | st.text(max_size=9), max_size=4),
    MEDIANS | st.text(min_size=1),
)  # fmt: skip


def row(group: str, name: str, median_ns: float | None, **labels: int | str) -> str:
    """As the program prints it."""
    of: dict[str, object] = {"group": group, "name": name, "labels": labels, "provider": "clock"}
    if median_ns is None:
        return json.dumps({**of, "missing": "this kernel has no BTF"})
    ns = {"samples": 9, "median_ns": median_ns, "low_ns": median_ns - 1, "high_ns": median_ns + 1}
    return json.dumps({**of, "ns": ns})


PRINTED = [
    row("memory", "random", 3.3, array_bytes=4096, stride_bytes=64, page_bytes=4096, pages="small"),
    row("memory", "random", 3.0, array_bytes=4096, stride_bytes=64, page_bytes=1 << 21, pages="t"),
    row("memory", "random", -0.3, array_bytes=4096, stride_bytes=64, part="tlb"),
    row("memory", "forward", 1.5, array_bytes=4096, stride_bytes=64, page_bytes=4096),
    row("call", "getppid", 117),
    row("switch", "fifo", 940, by="yield", between="processes"),
    row("switch", "fifo", 910, by="yield", between="threads"),
    row("wake_up", "other", 17_500, by="futex", **{"from": "other CPU"}),
    row("timer", "other", 52_500, slack="default", period_ns=10_000),
    row("packet", "empty recv", 229),
    row("packet", "sendmmsg", 1290, frame_bytes=60, batch=64, qdisc="bypassed"),
    row("packet", "recvmmsg", 445, frame_bytes=60, batch=64),
    row("probe", "sched_switch", None, program="first"),
    row("probe", "sched_switch", None, program="second"),
]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for unis-calibrate; a test writes what it does."""
    path = tmp_path / "build" / "models" / "calibrate" / "unis-calibrate"
    path.parent.mkdir(parents=True)
    monkeypatch.setenv("UNIS_BUILD", str(tmp_path / "build"))
    monkeypatch.setattr(Machine, "this", staticmethod(lambda: Machine(frozenset({0, 1}))))
    does(path, "\n".join(PRINTED))
    return path


def does(path: Path, printed: str, then: str = "exit 0") -> None:
    (path.parent / "printed").write_text(printed + "\n")
    path.write_text(
        f'#!/bin/sh\ncd {path.parent}\necho "$@" > asked\ncat printed\n{then}\n'
    )  # fmt: skip
    path.chmod(0o755)


@given(st.lists(ROWS))
def test_what_is_printed_is_read_back(rows: list[Primitive]) -> None:
    assert list(parsed(found.model_dump_json(exclude_none=True) for found in rows)) == rows
    whole = Primitives.of(1, None, rows)
    assert Primitives.model_validate_json(whole.model_dump_json()) == whole


@given(st.lists(ROWS, min_size=1), st.data())
def test_a_row_is_found_by_some_of_its_labels(rows: list[Primitive], data: st.DataObject) -> None:
    wanted = data.draw(st.sampled_from(rows))
    some = {name: wanted.labels[name] for name in data.draw(st.sets(st.sampled_from([*wanted.labels])))} if wanted.labels else {}  # noqa: E501  # fmt: skip
    found = Primitives.of(1, 0, rows).find(wanted.group, wanted.name, **some)
    assert found is not None
    assert (found.group, found.name) == (wanted.group, wanted.name)
    assert some.items() <= found.labels.items()
    assert Primitives.of(1, 0, rows).find(wanted.group, wanted.name, nobody="has this") is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"ns": {"samples": 5, "median_ns": 1, "low_ns": 1, "high_ns": 1}}, "ns.samples: "),
        ({"ns": {"samples": 9, "median_ns": 3, "low_ns": 1, "high_ns": 2}}, "outside its interval"),
        ({"ns": {"samples": 9, "median_ns": 1, "low_ns": 2, "high_ns": 3}}, "outside its interval"),
        ({"missing": "and yet it is there"}, "either `ns` or `missing`"),
        ({"ns": None}, "either `ns` or `missing`"),
        ({"group": "disk"}, "group: "),
        ({"more": 1}, "more: Extra inputs"),
    ],
)
def test_a_row_that_cannot_be_is_refused(change: dict[str, object], told: str) -> None:
    line = json.dumps({**json.loads(PRINTED[0]), **change})
    with pytest.raises(UnisError) as caught:
        list(parsed([line]))
    assert told in str(caught.value)
    assert "run `make build`" in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_median_is_a_number(value: float) -> None:
    with pytest.raises(ValidationError):
        MedianNs(samples=9, median_ns=value, low_ns=value, high_ns=value)


def test_what_is_found_is_printed_kept_and_shown(program: Path) -> None:
    code, text = run("calibrate", "--only", "machine")
    assert code == 0
    assert (program.parent / "asked").read_text() == "1 0\n"
    for line in (
        "memory: 4 measured", "probe: 0 measured, 2 not",
        "3.30 [2.30, 4.30]", "3.00 [2.00, 4.00]", "-0.30 [-1.30, 0.70]", "1.50 [0.50, 2.50]",
        "940 [939, 941]", "910 [909, 911]", "17500 [17499, 17501]", "52500 [52499, 52501]",
        "–: this kernel has no BTF (2 times)", "9 samples each; clock; pages: small, t",
    ):  # fmt: skip
        assert line in text
    assert str(FILE.path) in text
    assert kept().find("switch", "fifo", by="yield", between="threads") is not None
    tables = text[text.index("CPU 1 of ") : text.index(str(FILE.path))]
    program.unlink()
    code, text = run("calibrate", "--show", "--only", "machine")
    assert code == 0
    assert tables in text
    shown = json.loads(json_of("calibrate", "--show", "--json"))
    assert [found["name"] for found in shown["machine"]["rows"]] == [
        json.loads(line)["name"] for line in PRINTED
    ]
    assert shown["simulator"] is None


def test_each_column_is_explained() -> None:
    rows = list(parsed(PRINTED))
    shown = {name for view in VIEWS for name in view.first}
    shown |= {view.column(found) for view in VIEWS for found in rows if view.shows(found)}
    page = (built.clone() / "docs" / "columns.md").read_text().partition("## `unis calibrate`")[2]
    told = {
        name
        for line in page.splitlines()
        if line.startswith("| `")
        for name in re.findall("`([^`]+)`", line.split(" | ")[0])
    }
    assert shown <= told


def test_the_short_version_keeps_nothing(program: Path) -> None:
    code, text = run("calibrate", "--quick")
    assert code == 0
    assert "940 [939, 941]" in text
    assert (program.parent / "asked").read_text() == "1 0 --quick\n"
    assert not FILE.path.exists()
    code, text = run("calibrate", "--quick", "--only", "simulator")
    assert code == 2
    assert "no short version" in text


def test_a_machine_with_one_cpu_has_nobody_to_wake_it_up(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "this", staticmethod(lambda: Machine(frozenset({3}))))
    found = json.loads(json_of("calibrate", "--only", "machine", "--json"))["machine"]
    assert (program.parent / "asked").read_text() == "3\n"
    assert (found["cpu"], found["other_cpu"]) == (3, None)


def test_a_program_that_fails_is_told_and_nothing_is_kept(program: Path) -> None:
    does(program, PRINTED[0], "echo no such CPU >&2; exit 2")
    code, text = run("calibrate", "--only", "machine")
    assert code == 1
    assert "unis-calibrate ended with 2: no such CPU" in text
    does(program, "{", "exec sleep 60")  # it is ended
    code, text = run("calibrate", "--only", "machine")
    assert code == 1
    assert "unis-calibrate printed `{`" in text
    assert not FILE.path.exists()


def test_without_a_file_there_is_nothing_to_show() -> None:
    code, text = run("calibrate", "--show")
    assert code == 2
    assert " ".join(text.split()).count("run `unis calibrate` as the same user") == 2


def test_what_is_of_another_machine_is_shown_but_not_reckoned_with(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("calibrate", "--only", "machine")[0] == 0
    assert program.exists()
    kept()
    with monkeypatch.context() as patch:
        patch.setattr(platform, "release", lambda: "7.0")
        with pytest.raises(UnisError, match=r"it is of another kernel \(.*\): run `unis calibrate"):
            kept()
        code, text = run("calibrate", "--show", "--only", "machine")
        assert code == 0
        assert "it is of another kernel" in text
        assert "940 [939, 941]" in text
    of_another = FILE.read().model_copy(update={"cpu_model": costs.cpu_model() + " II"})
    FILE.write(of_another)
    with pytest.raises(UnisError, match="it is of another CPU"):
        kept()


@pytest.mark.parametrize(("cpus", "told"), [(0.04, False), (0.62, True)])
def test_a_machine_that_was_not_idle_is_told(
    program: Path, monkeypatch: pytest.MonkeyPatch, cpus: float, told: bool
) -> None:
    monkeypatch.setattr(measuring, "others_busy", lambda: lambda: cpus)
    said = f"Disturbed: others kept {cpus:.2f} CPUs busy meanwhile."
    for words in ([], ["--show"], ["--json"]):
        code, text = run("calibrate", "--only", "machine", *words)
        assert code == 0
        assert (said in text) == told
    assert program.exists()
    assert kept().others_cpus == cpus
    assert json.loads(json_of("calibrate", "--show", "--json"))["machine"]["others_cpus"] == cpus


@pytest.mark.parametrize(
    ("of_functions", "of_platform", "refused"),
    [([1], [0], "CPU 1"), ([0], [2], "CPU 0"), ([2], [1], "CPU 1"), ([2], [0], None)],
)
def test_a_cpu_that_a_run_has_is_left_to_it(
    program: Path, tmp_path: Path, of_functions: list[int], of_platform: list[int],
    refused: str | None,
) -> None:  # fmt: skip
    stale_run(tmp_path, launcher=ProcessId.me(), cpus=of_functions, platform_cpus=of_platform)
    code, text = run("calibrate", "--only", "machine")
    assert code == (1 if refused else 0)
    assert (program.parent / "asked").exists() == (refused is None)
    if refused:
        assert f"{refused} is in use by run `ghost`" in text
