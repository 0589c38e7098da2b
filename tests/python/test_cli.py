"""What a user sees: one clear sentence and exit code 2 for bad input, and nothing left running."""

import errno
import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from rich.live import Live

from tests.python.commands import busy_file, json_of, run, stale_run
from tests.python.place import step
from unis import built
from unis.cli import run_commands, terminal
from unis.cli.bench_options import arms_of
from unis.engine.client import EngineClient, EngineError
from unis.links import KINDS
from unis.runtime import doctor, launcher
from unis.runtime.doctor import kernel, runs
from unis.runtime.doctor.finding import Level
from unis.runtime.process import ProcessId
from unis.runtime.state import Phase

SIMULATED = built.clone() / "examples" / "two-cores.yaml"
DEMO = built.clone() / "examples" / "demo.yaml"


@pytest.mark.parametrize(
    "command",
    ["up", "down", "restart", "apply", "policy", "config", "ps", "top", "logs", "inspect",
     "account", "demo", "trace", "estimate", "simulate", "bench", "doctor", "schema", "version"],
)  # fmt: skip
def test_every_command_explains_itself(command: str) -> None:
    code, text = run(command, "--help")
    assert code == 0
    assert "Usage:" in text
    if command not in ("schema", "version", "bench"):
        assert f"unis {command}" in text  # an example


@pytest.mark.parametrize("command", [["up"], ["up", "--detach"], ["simulate"]])
def test_bad_files_are_refused(tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("apiVersion: unis/v1\nname: x\nchains: []\n")
    code, _ = run(*command, file)
    assert code == 2
    assert run(*command, tmp_path / "none.yaml")[0] == 2
    assert not (tmp_path / "run").exists()


def test_bad_names_are_refused(tmp_path: Path) -> None:
    assert run("up", DEMO, "--policy", "best")[0] == 2
    assert run("policy", "best")[0] == 2
    assert run("simulate", DEMO, "--policy", "best")[0] == 2
    assert run("simulate", DEMO, "--cost", "firewall")[0] == 2
    assert run("simulate", DEMO, "--cost", "firewall=-1")[0] == 2
    assert run("estimate", "no-such-program")[0] == 2
    assert run("demo", "--pcap", "/nowhere.pcap", "--out", tmp_path)[0] == 2


def test_commands_without_a_run() -> None:
    for command in (
        ["top"], ["policy", "rr"], ["trace", "-o", "x"], ["down"], ["ps", "nobody"], ["restart"],
        ["account"], ["inspect"], ["logs"], ["logs", "nobody"], ["down", "nobody.yaml"],
    ):  # fmt: skip
        assert run(*command)[0] == 2
    assert run("down", "--all")[0] == 0
    code, text = run("ps", "--json")
    assert (code, json.loads(text)) == (0, [])


def test_a_stale_run_is_told_and_removed(tmp_path: Path) -> None:
    directory = stale_run(tmp_path)
    code, text = run("ps")
    assert code == 0
    assert "its launcher was killed" in text
    assert json.loads(run("ps", "--json")[1])[0]["phase"] == "stale"
    assert run("top")[0] == 1, "no fault of what was typed"
    assert run("down")[0] == 0
    assert not directory.path.exists()


def test_a_newer_run_outlives_a_late_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `down` looked at went away by itself, and the name was taken again."""
    directory = stale_run(tmp_path)
    looked_at = directory.read()
    assert looked_at
    stale_run(tmp_path, run_id="two", launcher=ProcessId.me())
    monkeypatch.setattr(run_commands, "choose", lambda _: (directory, looked_at))
    monkeypatch.setattr(run_commands, "runs", lambda **_: [])
    assert run("down", "ghost")[0] == 0
    left = directory.read()
    assert left
    assert left.run_id == "two"


def test_several_runs_must_be_told_apart(tmp_path: Path) -> None:
    stale_run(tmp_path, "one")
    stale_run(tmp_path, "two")
    assert run("down")[0] == 2
    assert run("down", "one")[0] == 0
    assert run("down", "--all")[0] == 0


@pytest.mark.parametrize("command", [["policy", "rr"], ["trace", "-o", "t.json"]])
def test_one_run_is_named_once(tmp_path: Path, command: list[str]) -> None:
    for name in ("one", "two"):
        stale_run(tmp_path, name)
    code, text = run(*command, "one", "--name", "two")
    assert (code, "two runs are named, one and two" in text) == (2, True)
    assert "`one` was killed" in run(*command, "one", "--name", "one")[1]


def test_arms_that_mean_the_same_are_one() -> None:
    arms = arms_of("unis/priority, unis/priority,cooperative/4,cooperative/04")
    assert [str(arm) for arm in arms] == ["unis/priority", "cooperative/4"]


def test_a_run_is_known_by_its_file_too(tmp_path: Path) -> None:
    stale_run(tmp_path, "one")
    stale_run(tmp_path, "two")
    assert run("down", tmp_path / "three.yaml")[0] == 2
    assert run("down", tmp_path / "two.yaml")[0] == 0
    assert [state["name"] for state in json.loads(run("ps", "--json")[1])] == ["one"]


def test_what_clean_up_left_is_told_till_it_is_gone(tmp_path: Path) -> None:
    """Whoever could not undo it: also a launcher that nobody listened to."""
    directory = stale_run(tmp_path, phase=Phase.FAILED, problems=["cannot remove x"], reason="why")
    code, text = run("ps")
    assert code == 1
    assert "cannot remove x" in text
    assert run("down")[0] == 0  # this time it can
    assert not directory.path.exists()


def test_clean_up_that_fails_fails_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = stale_run(tmp_path)
    monkeypatch.setattr(step("Engine"), "undo", lambda *_: ["cannot remove x"])
    code, text = run("down")
    assert code == 1
    assert "ghost: cannot remove x" in text
    assert directory.event_log.exists(), "logs are kept"
    assert run("ps")[0] == 1
    monkeypatch.undo()
    assert run("down")[0] == 0


def test_one_hung_engine_does_not_hide_the_others(tmp_path: Path) -> None:
    me = ProcessId.me()
    hung = stale_run(tmp_path, "hung", phase=Phase.RUNNING, launcher=me)
    stale_run(tmp_path, "other", phase=Phase.STARTING, launcher=me)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(hung.socket))
        listener.listen()  # and never answers
        code, text = run("ps")  # it has a deadline
    assert code == 1
    assert "hung: unisd did not answer GetStats" in text
    assert "other: starting" in text


def test_a_run_that_ends_while_it_is_asked_is_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its engine is gone by then."""
    directory = stale_run(tmp_path, launcher=ProcessId.me(), phase=Phase.RUNNING)

    def gone(*_: object, **__: object) -> None:
        state = directory.read()
        assert state
        directory.write(state.with_changes(phase=Phase.STOPPING))
        raise EngineError("unisd does not answer", gone=True)

    monkeypatch.setattr(EngineClient, "stats", gone)
    code, text = run("ps", "ghost")
    assert (code, "ghost: stopping" in text) == (0, True), text
    for command in ("account", "top"):
        assert run(command, "ghost") == (1, "`ghost` is stopping\n")


def test_a_cpu_that_this_process_keeps_off_is_one() -> None:
    """As a shell does whose first command was to attach a function there."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {0})
    try:
        ends = ("--ingress", "memif:0", "--egress", "memif:1", "--name", "no name")
        _, text = run("attach", "--pid", str(os.getpid()), "--cpu", str(max(allowed)), *ends)
    finally:
        os.sched_setaffinity(0, allowed)
    assert "does not exist" not in text
    assert "invalid run" in text


def test_nothing_is_attached_to_a_run_that_ends(tmp_path: Path) -> None:
    stale_run(tmp_path, "ending", launcher=ProcessId.me(), phase=Phase.STOPPING, attached=True)
    ends = ("--ingress", "memif:0", "--egress", "memif:1", "--cpu", "0", "--name", "ending")
    code, text = run("attach", "--pid", str(os.getpid()), *ends)
    assert (code, text.startswith("`ending` is stopping; try again")) == (1, True), text


def test_nothing_is_attached_to_a_cpu_that_is_not_there(tmp_path: Path) -> None:
    code, text = run("attach", "--pid", str(os.getpid()), "--cpu", "999")
    assert code == 2
    assert "CPU 999 does not exist here: give --cpu one of " in text
    assert not (tmp_path / "run" / "runs").exists()


def test_words_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    code, text = run("estimate", DEMO, "extra", "words")
    assert code == 2
    assert "extra words" in text
    directory = stale_run(tmp_path)
    assert run("down", "ghost", "--all")[0] == 2
    assert directory.path.exists()


def test_waiting_has_an_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []

    def start(*_: object, timeout: float | None, **__: object) -> int:
        asked.append(timeout)
        return 0

    monkeypatch.setattr(launcher, "start_detached", start)
    assert run("up", busy_file(tmp_path), "--wait")[0] == 0
    assert run("up", busy_file(tmp_path), "--detach")[0] == 0
    assert asked == [60, None]


def test_a_run_whose_notes_are_damaged_is_told(tmp_path: Path) -> None:
    (stale_run(tmp_path).path / "state.json").write_text('{"run_id": ')
    code, text = run("ps")
    assert code == 1
    assert "the notes of run `ghost`" in text
    assert "no run exists" not in text
    (row,) = json.loads(json_of("ps", "--json"))
    assert (row["name"], row["phase"]) == ("ghost", "damaged")
    assert "the notes of run `ghost`" in row["reason"]
    code, text = run("down", "ghost")
    assert code == 1
    assert "the notes of run `ghost`" in text
    assert any("`ghost`" in finding.meaning for finding in runs.runs())
    assert (tmp_path / "run" / "runs" / "ghost" / "state.json").exists()


def test_no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert kernel.permission().level == Level.BLOCKED


def test_a_file_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    for place in (Path("/proc/x"), tmp_path):
        code, text = run("simulate", SIMULATED, "--seconds", "3600", "--trace", place)
        assert code == 2
        assert "cannot write" in text


def test_mistyped_options_are_refused() -> None:
    code, text = run("estimate", "macswap", "--no-cash")
    assert code == 2
    assert "--no-cash" in text


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["policy", "roundrobin"], "invalid policy `roundrobin`; expected one of unis, "),
        (["policy", "first", "unis"], "idle; usage: unis policy POLICY [NAME]"),
        (["up", DEMO, "--controller", "cgroup"], "invalid controller `cgroup`; expected one of "),
        (["simulate", DEMO, "--policy", "rr,best"], "invalid policy `best`; expected one of "),
        (["simulate", DEMO, "--controller", "x"], "`x`; expected one of handover, priority"),
        (["detach"], "name a function, or give --pid"),
    ],
)
def test_names_that_do_not_exist_are_told_with_those_that_do(command: list[str], told: str) -> None:
    code, text = run(*command)
    assert code == 2
    assert told in " ".join(text.replace("│", " ").split())


def test_a_file_that_calls_its_run_otherwise_names_the_option(tmp_path: Path) -> None:
    def told() -> str:
        code, text = run("apply", DEMO)
        assert code == 2
        assert "no run `demo`" in text
        return text

    stale_run(tmp_path, "dead")
    assert "--name" not in told(), "it takes no change"
    stale_run(tmp_path, launcher=ProcessId.me())
    assert "(existing: dead, ghost)" in told()
    assert "add `--name NAME`" in told()
    assert "--name" not in run("apply", DEMO, "--name", "third")[1]


def test_a_path_is_no_markup(tmp_path: Path) -> None:
    file = tmp_path / "[red]" / "ghost.yaml"
    file.parent.mkdir()
    busy_file(tmp_path).rename(file)
    assert str(file) in run("config", file)[1]


def test_the_plan_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "apiVersion: unis/v1\nname: x\n"
        "functions: {a: {program: /bin/true, cpu: 1, args: [--deep, thought]}}\n"
        "chains: {c: {path: [a]}}\n"
    )
    code, text = run("config", file)
    assert code == 0
    assert "--deep thought" in text
    assert "CPU 1" in text
    assert "user root, capabilities dac_override, ipc_lock" in text.replace("\n", " ")
    plan = json.loads(run("config", file, "--json", "--name", "y")[1])
    assert (plan["name"], plan["cpus"], plan["platform_cpus"]) == ("y", [1], [0])
    assert not (tmp_path / "run").exists(), "nothing is started"


GRAPH = """
apiVersion: unis/v1
name: x
defaults: {cpu: 1}
functions:
  a: {program: /bin/true}
  b: {program: PROGRAM}
chains:
  c:
    graph:
    - {from: ingress, to: a}
    - {from: a, to: b, port: 0}
    - {from: a, to: egress, port: 1}
    - {from: b, to: egress}
"""


def test_a_plan_draws_a_graph_once_and_only_if_there_is_a_plan(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(GRAPH.replace("PROGRAM", "/bin/true"))
    code, text = run("config", file)
    assert code == 0
    assert text.count("chain c:") == 1
    assert "  a       ┬→ b, from port 0, over c.1\n" in text
    file.write_text(GRAPH.replace("PROGRAM", "/no/such"))
    assert json_of("config", str(file)) == ""


def test_a_file_that_runs_can_be_planned(tmp_path: Path) -> None:
    stale_run(tmp_path, launcher=ProcessId.me())
    assert "CPU 1" in run("config", busy_file(tmp_path))[1]


def test_a_cpu_that_is_in_use_is_no_fault_of_the_file(tmp_path: Path) -> None:
    stale_run(tmp_path, launcher=ProcessId.me())
    code, text = run("config", busy_file(tmp_path), "--name", "other")
    assert code == 1
    assert "CPU 1 is in use by run `ghost`" in text
    assert "end that run with `unis down ghost`" in text
    assert run("config", busy_file(tmp_path, "/no/such"), "--name", "other")[0] == 2


@pytest.mark.parametrize("command", [["doctor"], ["logs"], ["ps"]])
def test_who_looks_keeps_off_the_cpus_of_functions(tmp_path: Path, command: list[str]) -> None:
    stale_run(tmp_path, launcher=ProcessId.me())
    run(*command)
    assert 1 not in os.sched_getaffinity(0)


def test_doctor_explains_each_finding() -> None:
    findings = doctor.examine()
    checks = [finding.check for finding in findings]
    for check in (
        "RT throttling", "RT groups", "fair server", "cgroup", "hugepages", "isolated cores",
        "TSC", "THP", "governor", "SMT", "mempool", "lcores", "DPDK", "runs", "interfaces",
        "containers", *(f"links: {kind}" for kind in KINDS),
    ):  # fmt: skip
        assert check in checks
    for finding in findings:
        assert finding.found
        if finding.level != Level.OK:
            assert finding.meaning
            assert finding.mend or finding.check == "cache isolation", finding
    code, text = run("doctor", "--json")
    data = json.loads(text)
    blocked = any(finding["level"] == "blocked" for finding in data)
    assert code == (1 if blocked else 0)


def test_doctor_reads_command_lines_of_any_bytes() -> None:
    with subprocess.Popen([b"/bin/sh", b"-c", b"read x", b"\xff\xfe"], stdin=subprocess.PIPE):
        assert runs.lcore_clashes().check == "lcores"


def test_doctor_sees_a_stale_run(tmp_path: Path) -> None:
    stale_run(tmp_path)
    assert any(finding.mend == "unis down ghost" for finding in runs.runs())


def test_schema_and_version() -> None:
    assert json.loads(run("schema")[1])["title"] == "UNiS chain file"
    assert run("version")[1].strip()[0].isdigit()


@pytest.mark.parametrize("nobody_reads", [True, False])
def test_a_command_goes_on_where_it_cannot_say_what_it_does(*, nobody_reads: bool) -> None:
    """`unis up` is the data plane: a pager that ends, or a full disk, is no reason to end it."""
    code = "from unis.cli.terminal import say; say('one'); say('two'); print('went on', flush=True)"
    reader, pipe = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            stdout=subprocess.PIPE, stderr=pipe if nobody_reads else full,
            text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(pipe)
        os.close(full)
    assert done.stdout == "went on\n"
    assert done.returncode == 0 or not nobody_reads


ENDS = """
import sys, unis.cli
unis.cli.run_app = lambda _: (print("said"), sys.exit(3))
unis.cli.main()
"""


@pytest.mark.parametrize(
    ("where", "code", "said"),
    [("2>&1", 3, "said\n"), (">&- 2>&-", 3, ""), (">/dev/full", 120, "No space left on device")],
)
def test_a_process_ends_with_its_code_and_all_it_said(where: str, code: int, said: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -P -c "$1" {where}', sys.executable, ENDS],
        env={**os.environ, "PYTHONUNBUFFERED": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True)
    assert "Traceback" not in done.stderr


class FullDisk(io.StringIO):
    """A file on it, and what was written."""

    full = True

    def flush(self) -> None:
        if self.full:
            self.seek(0)
            self.truncate()
            raise OSError(errno.ENOSPC, "No space left on device")


def test_what_could_not_be_written_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk()
    monkeypatch.setattr(terminal.err, "_file", disk)
    with Live(console=terminal.err, transient=True, auto_refresh=False) as live:
        live.update("a view", refresh=True)
    terminal.warn("one")
    disk.full = False
    terminal.say("two")
    assert disk.getvalue() == "two\n"


def test_a_view_goes_on_where_the_terminal_is_closed() -> None:
    code = (
        "import os; other_end, terminal = os.openpty(); os.dup2(terminal, 2)\n"
        "from rich.live import Live; from unis.cli.terminal import err, say\n"
        "with Live(console=err, transient=True, auto_refresh=False) as live:\n"
        "    os.close(other_end); live.update('a view', refresh=True); say('one')\n"
        "assert err.quiet"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], timeout=60, check=False)
    assert done.returncode == 0
