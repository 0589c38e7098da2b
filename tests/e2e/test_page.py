"""The page of `unis serve` in a browser: on engines that are made up, and on real runs."""

import json
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.browser import Browser, Tab, browser
from tests.e2e.machine import Machine, macswap
from tests.python import test_serve_tls
from tests.python.answering import answering
from tests.python.asgi import runs_below
from tests.python.commands import run as command
from tests.python.test_serve_tls import free_port
from tests.serving import serving
from unis.runtime.directory import run_directory
from unis.runtime.process import ProcessId
from unis.runtime.state import FunctionProcess
from unis.v1 import common_pb2 as common
from unis.v1 import engine_pb2 as pb

pair = test_serve_tls.pair  # a certificate and its key

RATE = 1_000_000  # packets a second of each chain
NASTY = '<img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@contextmanager
def forwarded(path: Path) -> Iterator[str]:
    """The address at which a browser reaches a Unix socket, as by `ssh -L`."""

    def carry(a: socket.socket, b: socket.socket) -> None:
        with suppress(OSError):
            while data := a.recv(1 << 16):
                b.sendall(data)
        for end in (a, b):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.socket(socket.AF_UNIX)
                try:
                    far.connect(str(path))
                except OSError:
                    near.close()
                    continue
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=carry, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://localhost:{listening.getsockname()[1]}/"
        listening.shutdown(socket.SHUT_RDWR)


def told(chains: int, length: int) -> Callable[[], pb.Stats]:
    """Statistics of chains on four CPUs, whose counters grow as time goes on."""
    began = time.monotonic() - 100

    def now() -> pb.Stats:
        seconds = time.monotonic() - began
        packets = int(seconds * RATE)
        stats = pb.Stats(policy=common.POLICY_UNIS, account=pb.Account(
            offered=packets * chains, delivered=packets * chains * 9 // 10,
            dropped_egress_full=packets * chains // 10))  # fmt: skip
        for chain in range(chains):
            name = f"chain{chain}"
            latency = pb.ChainStats().latency
            latency.value_ns.extend([100_000, 2_000_000])
            latency.count.extend([90, 10])
            passed = pb.ChainStats(name=name, offered=packets, delivered=packets * 9 // 10)
            passed.functions.extend(f"f{chain}-{at}" for at in range(length))
            passed.latency.CopyFrom(latency)
            stats.chains.append(passed)
            links = [pb.LinkStats(name=f"{name}.{at}", packets=1000 * at % 4096, capacity=4096)
                     for at in range(length + 1)]  # fmt: skip
            for at in range(length):
                path = pb.PathStats(
                    chain=name, ingress=links[at], egress=links[at + 1], rx_packets=packets,
                    tx_packets=packets, received_known=True, sent_known=True,
                    dropped_egress_full=packets // 10 if at == 1 else 0,
                )  # fmt: skip
                each = int(seconds * 1e9 / 10)
                stats.functions.append(pb.FunctionStats(
                    name=f"f{chain}-{at}", cpu=1 + chain % 4, pid=7, paths=[path],
                    time=pb.FunctionTime(busy_ns=each, spinning_ns=each, run_delay_ns=5 * each,
                                         backpressured_ns=2 * each, blocked_ns=each)))  # fmt: skip
        for cpu in range(1, 5):
            reason = pb.SwitchCount(reason=common.SWITCH_REASON_SELF, switches=int(seconds * 5000))
            stats.cores.append(pb.CoreStats(cpu=cpu, switches=reason.switches, reasons=[reason]))
        return stats

    return now


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No real run is seen."""
    runs_below(tmp_path, monkeypatch)


@pytest.fixture
def two_runs(below: None, tmp_path: Path) -> Iterator[str]:  # noqa: ARG001
    """A page of two runs, and its address. A function of the first one has died."""
    ended = [FunctionProcess("f0-1", 1, ProcessId.me(), restarts=2, ended=NASTY)]
    goals: dict[str, Any] = {"goals_ns": {"chain0": 1e6}}
    with (
        answering(tmp_path, "a", told(1, 3), functions=ended, **goals),
        answering(tmp_path, "b", told(2, 2)),
        serving(tmp_path) as (_, path),
        forwarded(path) as url,
    ):
        yield url


def shown(tab: Tab) -> None:
    """Once the page knows rates."""
    tab.wait_for("/[1-9].*\\/s/.test(document.getElementById('offered').innerText)", "rates")


def packets_in(tab: Tab) -> float:
    """As the page tells it, a second."""
    text = tab.text("#offered")
    number, unit = re.fullmatch(r"([\d.]+)([kMG]?)/s", text).groups()  # type: ignore[union-attr]
    return float(number) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[unit]


@pytest.mark.usefixtures("below")
def test_a_hundred_functions_change_in_place(chromium: Browser, tmp_path: Path) -> None:
    with (
        answering(tmp_path, "many", told(10, 10)),
        serving(tmp_path) as (_, path),
        forwarded(path) as url,
    ):
        tab = chromium.open(url, 1600)
        shown(tab)
        assert tab.run("document.querySelectorAll('svg.graph g.function').length") == 100
        assert tab.run("document.querySelectorAll('svg.graph g.link').length") == 110
        assert tab.run("document.querySelectorAll('#cores .core').length") == 4
        assert 5e6 < packets_in(tab) < 2e7, "10 M, of answers that may come late"
        # All is changed in place: the same elements, and nothing is loaded again.
        before = tab.run("""(() => {
            window.kept = [...document.querySelectorAll('#shown *')];
            return document.getElementById('dropped-all').innerText })()""")
        tab.wait_for(
            f"document.getElementById('dropped-all').innerText != {json.dumps(before)}",
            "new counts",
        )
        assert tab.run("window.kept.every((node) => node.isConnected)")
        assert tab.run("window.kept.length == document.querySelectorAll('#shown *').length")
        assert tab.run("performance.getEntriesByType('navigation').length") == 1
        assert tab.faults() == []


def test_drops_dead_functions_and_broken_promises_are_told_in_words(
    chromium: Browser, two_runs: str
) -> None:
    tab = chromium.open(f"{two_runs}#run=a")
    shown(tab)
    assert "dropped" in tab.text("svg.graph")
    assert "▲ broken" in tab.text("#promise-table")
    alarms = tab.text("#alarms")
    assert "chain chain0 does not keep its promise: above goal" in alarms
    assert f"function f0-1 does not run: {NASTY}" in alarms, "as text"
    assert tab.run("document.querySelectorAll('img').length") == 0
    # What the graph tells, tables tell too.
    tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    tab.wait_for("document.querySelectorAll('.chain tbody tr').length == 4", "the table of links")
    assert re.search(r"f0-1 → f0-2\s+\S+\s+2,000\s+4,096\s+49 %\s+\S+k", tab.text(".chain tbody"))
    assert "run delay 50 %" in tab.text("#function-rows")
    assert tab.faults() == []


def test_each_state_has_a_pattern_of_its_own(chromium: Browser, two_runs: str) -> None:
    tab = chromium.open(f"{two_runs}#run=b")
    shown(tab)
    fills = tab.run("""[...document.querySelectorAll('#legend rect.state')].map(
        (one) => getComputedStyle(one).fill)""")
    assert len(fills) == len({*fills}) == 7
    patterns = [fill for fill in fills if fill.startswith("url(")]
    assert len(patterns) == 5, "beside busy, which is full, and the rest, which is empty"


@pytest.mark.usefixtures("below")
def test_the_engine_dies_and_comes_back(chromium: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as (_, path), forwarded(path) as url:
        with answering(tmp_path, "a", told(1, 3)):
            tab = chromium.open(url)
            shown(tab)
            seen = tab.text("#dropped-all")
        tab.wait_for("!document.getElementById('state').hidden", "the page notices")
        assert re.match(r"▲ The engine does not answer since \d", tab.text("#state"))
        assert tab.run("document.querySelectorAll('svg.graph g.function').length") == 3
        assert tab.text("#offered") == "–"
        first, last = (
            int(text.split()[-4].replace(",", "")) for text in (seen, tab.text("#dropped-all"))
        )
        assert last >= first > 0, "what was counted last stays"
        assert "is not ready" in tab.text("#alarms")
        with answering(tmp_path, "a", told(1, 3)):
            tab.wait_for("document.getElementById('state').hidden", "it is back")
            shown(tab)
        assert tab.faults() == []


@pytest.mark.usefixtures("below")
def test_the_server_dies_and_comes_back(chromium: Browser, tmp_path: Path) -> None:
    socket_path = tmp_path / "serve.sock"
    with answering(tmp_path, "a", told(1, 3)), forwarded(socket_path) as url:
        with serving(tmp_path) as (process, _):
            tab = chromium.open(url)
            shown(tab)
            process.send_signal(signal.SIGKILL)
            process.wait()
        tab.wait_for("!document.getElementById('state').hidden", "the page notices")
        assert "unis serve does not answer since" in tab.text("#state")
        assert tab.run("document.querySelectorAll('svg.graph g.function').length") == 3
        with serving(tmp_path):
            tab.wait_for("document.getElementById('state').hidden", "it is back")
            shown(tab)
        assert tab.faults() == []


def focused(tab: Tab) -> str:
    found: str = tab.run("document.activeElement.id || document.activeElement.innerText")
    return found


def test_all_of_it_by_the_keyboard(chromium: Browser, two_runs: str) -> None:
    tab = chromium.open(f"{two_runs}#run=a")
    shown(tab)
    seen: list[str] = []
    for _ in range(80):
        tab.press("Tab")
        if tab.run("document.activeElement == document.body") and seen:
            break  # it has been everywhere
        name = focused(tab)
        seen.append(name)
        outline = tab.run("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", f"{name} shows that it has the focus"
    assert seen[0] == "Skip to the run"
    reached = {"down", "record", "record-seconds", "file-chooser", "file", "keys-open", "events"}
    assert reached <= {*seen}, seen

    tab.press("?", shift=True)
    tab.wait_for("document.getElementById('keys').open", "the keys are listed")
    tab.press("Escape")
    tab.wait_for("document.activeElement == document.body", "and closed")
    tab.press("j")
    tab.wait_for("document.getElementById('run-name').innerText == 'b'", "the next run")
    assert tab.run("location.hash") == "#run=b"
    tab.press("k")
    tab.wait_for("document.getElementById('run-name').innerText == 'a'", "the run before")
    tab.press("5")
    assert focused(tab) == "timeline-heading"
    tab.press("7")
    tab.run("document.getElementById('file').focus()")
    tab.press("j")
    assert tab.run("location.hash") == "#run=a", "a letter in a text is a letter"


def test_each_control_and_picture_has_a_name(chromium: Browser, two_runs: str) -> None:
    tab = chromium.open(f"{two_runs}#run=a")
    shown(tab)
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "link", "textbox", "checkbox", "combobox", "image", "img", "region"}
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and node.get("role", {}).get("value") in roles
    ]
    assert len(named) > 20
    assert [role for role, name in named if not name.strip()] == []


_CONTRAST = """((selector) => {
    const light = (colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).map((part) => {
            const value = part / 255;
            return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const paper = light(getComputedStyle(document.body).backgroundColor);
    const ink = light(getComputedStyle(document.querySelector(selector)).color);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_by_day_and_by_night(
    chromium: Browser, two_runs: str, scheme: str
) -> None:
    tab = chromium.open(f"{two_runs}#run=a", prefers_color_scheme=scheme)
    shown(tab)
    for selector in ("body", ".soft", "#alarms .bad", "#phase"):
        contrast = tab.run(f"{_CONTRAST}('{selector}')")
        assert contrast >= 4.5, f"{selector}, as WCAG has it"
    paper = tab.run("getComputedStyle(document.body).backgroundColor")
    dark = sum(map(int, re.findall(r"\d+", paper)[:3])) < 3 * 128
    assert dark == (scheme == "dark")


@pytest.mark.parametrize("width", [360, 1600])
def test_it_fits_windows_of(chromium: Browser, two_runs: str, width: int) -> None:
    tab = chromium.open(f"{two_runs}#run=a", width)
    shown(tab)
    assert tab.run("document.documentElement.scrollWidth") <= width
    # A chain without branches needs no scrolling, either.
    assert tab.run("document.querySelector('.canvas').scrollWidth") <= tab.run(
        "document.querySelector('.canvas').clientWidth"
    )


@pytest.mark.usefixtures("below")
def test_over_tls_it_asks_for_the_token_once(
    chromium: Browser, tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    tokens = tmp_path / "tokens"
    code, said = command("serve", "--new-token", "looker:look", "--tokens", tokens)
    assert code == 0, said
    port = free_port()
    options = ["--listen", f"127.0.0.1:{port}", "--tls-cert", str(pair[0]), "--tls-key",
               str(pair[1]), "--tokens", str(tokens)]  # fmt: skip
    with answering(tmp_path, "a", told(1, 3)), serving(tmp_path, *options):
        tab = chromium.open("about:blank")
        tab.call("Security.enable")
        tab.call("Security.setIgnoreCertificateErrors", ignore=True)
        tab.go(f"https://127.0.0.1:{port}/")
        for token, why in (("wrong", ""), (said.splitlines()[0], "not known")):
            tab.wait_for(
                "document.getElementById('token-dialog')?.open && "
                f"document.getElementById('token-why').innerText.includes('{why}')",
                "it asks",
            )
            tab.run("document.getElementById('token').focus()")
            tab.type(token)
            tab.press("Enter")
            tab.wait_for("!document.getElementById('token').value", "it is sent")
        shown(tab)
        tab.go(f"https://127.0.0.1:{port}/?again")
        shown(tab)
        assert not tab.run("document.getElementById('token-dialog').open")
        put_file(tab, "apiVersion: unis/v1\nname: x\n")
        tab.run("document.getElementById('plan').click()")
        tab.wait_for("!document.getElementById('plan-error').hidden", "it is refused")
        assert "may only look" in tab.text("#plan-error")


def put_file(tab: Tab, text: str) -> None:
    """Into the place of the chain file, as somebody who types."""
    tab.run("document.getElementById('file').value = ''; document.getElementById('file').focus()")
    tab.type(text)


def enabled(tab: Tab, button: str) -> bool:
    return not tab.run(f"document.getElementById('{button}').disabled")


def press_button(tab: Tab, button: str) -> None:
    tab.wait_for(f"!document.getElementById('{button}').disabled", f"{button} can be pressed")
    tab.run(f"document.getElementById('{button}').click()")


def noted(tab: Tab, place: str, words: str) -> None:
    tab.wait_for(
        f"document.getElementById('{place}').innerText.includes({json.dumps(words)})", words
    )


def test_a_run_is_planned_started_changed_recorded_and_ended(
    chromium: Browser, machine: Machine
) -> None:
    def text(*names: str) -> str:
        file = machine.chain_file({name: macswap() for name in names}, traffic={"rate": "20kpps"})
        return file.read_text()

    with ExitStack() as stack:
        _, path = stack.enter_context(serving(machine.directory))
        url = stack.enter_context(forwarded(path))
        tab = chromium.open(url)
        tab.wait_for("!document.getElementById('nothing').hidden", "it says that no run is up")
        put_file(tab, text("a"))
        assert not enabled(tab, "apply")
        press_button(tab, "plan")
        noted(tab, "plan-note", "starts run")
        assert "macswap" in tab.text("#planned")
        assert enabled(tab, "apply")
        tab.run("document.getElementById('file').focus()")
        tab.type(" ")
        assert not enabled(tab, "apply"), "another text was not planned"
        press_button(tab, "plan")
        press_button(tab, "apply")
        noted(tab, "work-note", "done")
        shown(tab)
        assert tab.text("#run-name") == machine.name

        put_file(tab, text("a", "b"))
        press_button(tab, "plan")
        noted(tab, "plan-note", "changes run")
        assert re.search(r"function\s+b\s+added", tab.text("#planned"))
        press_button(tab, "apply")
        noted(tab, "work-note", "done")
        tab.wait_for("document.querySelectorAll('g.function').length == 2", "the new function")

        press_button(tab, "record")
        tab.wait_for("document.querySelectorAll('#timeline-picture .run').length > 1", "turns")
        tab.run("document.getElementById('timeline-picture').focus()")
        tab.press("ArrowRight")
        assert re.search(r"on CPU 1: from .* for .*, \d+ packets", tab.text("#timeline-told"))

        press_button(tab, "down")
        assert not enabled(tab, "down-really")
        tab.run("document.getElementById('down-name').focus()")
        tab.type(machine.name)
        press_button(tab, "down-really")
        noted(tab, "work-note", "done")
        noted(tab, "state", "is down")
        assert tab.faults() == []
    assert run_directory(machine.name).read() is None
    machine.assert_clean()


def test_the_engine_of_a_real_run_is_killed(chromium: Browser, machine: Machine) -> None:
    machine.up(machine.chain_file({"a": macswap()}, traffic={"rate": "20kpps"}))
    with serving(machine.directory) as (_, path), forwarded(path) as url:
        tab = chromium.open(f"{url}#run={machine.name}")
        shown(tab)
        machine.kill(machine.pid_of("unisd"))
        tab.wait_for("!document.getElementById('alarms').innerText == ''", "an alarm")
        noted(tab, "alarms", "is not ready")
        assert tab.run("document.querySelectorAll('g.function').length") == 1
        noted(tab, "events", "▲ Warning")
        assert tab.faults() == []
