"""What all functions share: options, errors, ports, signals, the end."""

import ctypes
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.functions.function_run import DATA, EAL, ROOT, Runner, binary, counters, read_pcap

NAMES = ["macswap", "firewall", "router", "nat", "monitor", "dpi", "ipsec", "wanopt"]
REQUIRED = {
    "macswap": [],
    "firewall": ["--rules", str(ROOT / "examples/firewall.rules")],
    "router": ["--routes", str(ROOT / "examples/routes.txt")],
    "nat": ["--public", "203.0.113.1"],
    "monitor": [],
    "dpi": ["--rules", str(ROOT / "examples/dpi.rules")],
    "ipsec": ["--policy", str(ROOT / "examples/ipsec.policy")],
    "wanopt": [],
}


def start(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [binary(name), *words], capture_output=True, text=True, timeout=60, check=False
    )


@contextmanager
def running(
    name: str, vdev: str, *options: str, eal: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A function that has begun to poll."""
    words = [binary(name), *EAL, "--vdev", vdev, *eal, "--", *REQUIRED[name], *options]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"{name}: polling ")
        yield process
    finally:
        process.kill()
        process.communicate()


def cpu_ticks(process: subprocess.Popen[str]) -> tuple[int, int]:
    """Clock ticks in user mode and in the kernel."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


def burn(process: subprocess.Popen[str], ticks: int) -> tuple[int, int]:
    """Waits until the process used `ticks` of CPU; how many in user mode, how many in kernel."""
    user, kernel = cpu_ticks(process)
    give_up = time.monotonic() + 60
    while True:
        assert process.poll() is None, "the function ended by itself"
        assert time.monotonic() < give_up, "the function does not use the CPU"
        now = cpu_ticks(process)
        if sum(now) - user - kernel >= ticks:
            return now[0] - user, now[1] - kernel
        time.sleep(0.02)


@pytest.mark.parametrize("name", NAMES)
def test_help(name: str) -> None:
    for words in (["--help"], ["-h"], ["--no-huge", "--", "--help"]):
        done = start(name, *words)
        assert done.returncode == 0
        assert done.stderr == ""
        assert done.stdout.startswith(f"Usage: {name} [EAL OPTIONS] -- [OPTIONS]")
        of_all = ("--ports", "--next-hop", "--yield-every", "--exit-idle", "net_pcap0")
        for option in (*REQUIRED[name][:1], *of_all):
            assert option in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_example_in_the_help_works(name: str, tmp_path: Path) -> None:
    (tmp_path / "in.pcap").write_bytes((DATA / "teams.pcap").read_bytes())
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = start(name, "--help").stdout.partition("Example: ")[2]
    words = text.partition("\n")[2].replace("\\\n", " ").split()
    done = subprocess.run(
        [binary(words[0]), "--no-shconf", *words[1:]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert counters(done.stdout)["rx_packets"] == len(read_pcap(DATA / "teams.pcap"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_with_counters(name: str, number: signal.Signals) -> None:
    with running(name, "net_null0") as process:
        burn(process, 5)
        process.send_signal(number)
        report, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        count = counters(report)
        assert count["rx_packets"] > 0
        assert count["rx_packets"] == sum(
            count[k] for k in ("tx_packets", "dropped_by_function", "dropped_egress_full")
        )


def queue_yielding(process: subprocess.Popen[str], value: int) -> None:
    """Asks a co-operative program to yield every so many bursts, or not (0)."""
    assert ctypes.CDLL(None).sigqueue(process.pid, signal.SIGRTMIN, ctypes.c_void_p(value)) == 0


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGSTOP)
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)


def test_what_was_asked_last_holds() -> None:
    with running("macswap", "net_ring0", "--yield-every", "1") as process:
        _, yielding = burn(process, 30)
        stop(process)
        for value in (0, 1, 0, 1, 0):
            queue_yielding(process, value)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        _, spinning = burn(process, 30)
        stop(process)
        for value in (0, 1, 0, 1):
            queue_yielding(process, value)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        _, resumed = burn(process, 30)
        assert yielding > 2 * spinning
        assert resumed > 2 * spinning


def test_cooperation_is_switched_by_signals() -> None:
    with running("macswap", "net_ring0", "--yield-every", "1") as process:
        _, yielding = burn(process, 30)
        queue_yielding(process, 0)
        time.sleep(0.1)
        _, spinning = burn(process, 30)
        queue_yielding(process, 1)
        time.sleep(0.1)
        _, resumed = burn(process, 30)
        assert yielding > 2 * spinning  # sched_yield is time in the kernel
        assert resumed > 2 * spinning


def test_how_often_it_yields_is_ordered() -> None:
    with running("macswap", "net_null0", "--yield-every", "1") as process:
        queue_yielding(process, 1000)
        burn(process, 50)
        process.terminate()
        count = counters(process.communicate(timeout=30)[0])
    assert 0 < count["yields"] < count["polls"] / 50


def test_others_ignore_these_signals() -> None:
    with running("macswap", "net_ring0") as process:
        queue_yielding(process, 1)
        queue_yielding(process, 0)
        burn(process, 20)
        process.terminate()
        report, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        assert counters(report)["yields"] == 0


def test_yields_after_every_k_bursts() -> None:
    with running("macswap", "net_null0", "--yield-every", "4") as process:
        burn(process, 5)
        process.terminate()
        count = counters(process.communicate(timeout=30)[0])
        assert count["empty_polls"] == 0
        assert count["yields"] == count["polls"] // 4


def pcap_ports(folder: Path) -> list[str]:
    """Two ports with something to receive each."""
    return [
        "--vdev",
        f"net_pcap0,rx_pcap={DATA / 'quic.pcap'},tx_pcap={folder / 'first.pcap'}",
        "--vdev",
        f"net_pcap1,rx_pcap={DATA / 'teams.pcap'},tx_pcap={folder / 'second.pcap'}",
    ]


@pytest.mark.parametrize(
    ("choice", "first", "second"),
    [
        ([], "teams", "quic"),
        (["--ports", "net_pcap0,net_pcap1"], None, "quic"),
        (["--ports", "net_pcap1,net_pcap0"], "teams", None),
        (["--ports", "net_pcap1"], None, "teams"),
    ],
)
def test_ports(tmp_path: Path, choice: list[str], first: str | None, second: str | None) -> None:
    """A pair forwards both ways; named ports one way."""
    options = ["--exit-idle", "100", *choice]
    done = start("monitor", *EAL, *pcap_ports(tmp_path), "--", *options)
    assert done.returncode == 0, done.stderr
    for port, capture in (("first", first), ("second", second)):
        frames = read_pcap(DATA / f"{capture}.pcap") if capture else []
        assert read_pcap(tmp_path / f"{port}.pcap") == frames


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


PCAP_MAC = [b"\x02pcap" + bytes([number]) for number in (0, 1)]  # net_pcap's own choice


@pytest.mark.parametrize("name", NAMES)
def test_frames_go_to_the_next_hop_from_their_own_port(
    name: str, run: Runner, capture: list[bytes]
) -> None:
    before = run(name, capture, *REQUIRED[name])
    after = run(name, capture, *REQUIRED[name], "--next-hop", "02:00:00:00:00:2a")
    assert after.sent
    for frame, was in zip(after.sent, before.sent, strict=True):
        assert frame[:12] == mac("02:00:00:00:00:2a") + PCAP_MAC[0]
        assert frame[12:] == was[12:] or name == "ipsec"


@pytest.mark.parametrize(
    ("choice", "first", "second"),
    [
        (["--next-hop", "02:00:00:00:00:0a,02:00:00:00:00:0b"], "0a", "0b"),
        (["--next-hop", "02:00:00:00:00:0c"], "0c", "0c"),
        (["--next-hop", "-,02:00:00:00:00:0e"], "", "0e"),
        (["--ports", "net_pcap0,net_pcap1", "--next-hop", "02:00:00:00:00:0d"], None, "0d"),
    ],
)
def test_each_port_has_its_next_hop(
    tmp_path: Path, choice: list[str], first: str | None, second: str | None
) -> None:
    options = ["--exit-idle", "100", *choice]
    done = start("monitor", *EAL, *pcap_ports(tmp_path), "--", *options)
    assert done.returncode == 0, done.stderr
    for number, (port, end) in enumerate((("first", first), ("second", second))):
        heads = {frame[:12] for frame in read_pcap(tmp_path / f"{port}.pcap")}
        if end == "":
            assert heads == {frame[:12] for frame in read_pcap(DATA / "teams.pcap")}
            continue
        assert heads == ({mac(f"02:00:00:00:00:{end}") + PCAP_MAC[number]} if end else set())


def test_counters_of_each_direction(tmp_path: Path) -> None:
    done = start("macswap", *EAL, *pcap_ports(tmp_path), "--", "--exit-idle", "100")
    assert done.returncode == 0, done.stderr
    count = counters(done.stdout)
    for direction, capture in ((0, "quic"), (1, "teams")):
        assert count[f"rx_packets_{direction}"] == len(read_pcap(DATA / f"{capture}.pcap"))
        assert count[f"tx_packets_{direction}"] == count[f"rx_packets_{direction}"]
    assert count["rx_packets"] == count["rx_packets_0"] + count["rx_packets_1"]
    assert "Direction 1: from net_pcap1 to net_pcap0" in done.stdout


def test_four_ports_are_two_pairs() -> None:
    """What goes out of a net_ring port comes in again: packets go round in their pair."""
    vdevs = [word for i in (0, 1) for word in ("--vdev", f"net_null{i}")]
    vdevs += [word for i in (0, 1) for word in ("--vdev", f"net_ring{i}")]
    done = start("macswap", *EAL, *vdevs, "--", "--exit-idle", "1", "--ports", "net_ring0")
    assert done.stdout.startswith("macswap: polling net_ring0, sending to net_ring0\n")
    with running("macswap", "net_null0", eal=vdevs[2:]) as process:
        burn(process, 5)
        process.terminate()
        report, _ = process.communicate(timeout=30)
        count = counters(report)
        assert count["rx_packets_0"] > 0
        assert count["rx_packets_1"] > 0
        assert count["rx_packets_2"] == count["rx_packets_3"] == 0
        assert "Direction 3: from net_ring1 to net_ring0" in report


def test_egress_that_takes_nothing_is_counted(tmp_path: Path, run: Runner) -> None:
    """A ring without reader: the second of its two ends fills up."""
    frames = read_pcap(DATA / "teams.pcap") * 4
    (tmp_path / "unread").mkdir()
    run("macswap", frames)  # leaves in.pcap
    done = start(
        "macswap", *EAL,
        "--vdev", f"net_pcap0,rx_pcap={run.folder / 'in.pcap'},tx_pcap={tmp_path / 'x.pcap'}",
        "--vdev", "net_ring0",
        "--", "--exit-idle", "100", "--ports", "net_pcap0,net_ring0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count = counters(done.stdout)
    assert count["rx_packets"] == len(frames)
    assert count["dropped_egress_full"] > 0
    assert count["tx_packets"] + count["dropped_egress_full"] == len(frames)


BAD = [
    ("macswap", ["--cost", "lite"], "bad cost 'lite'"),
    ("macswap", ["--cost", "64:1,32:2"], "bad cost step '32:2': sizes must grow"),
    ("macswap", ["--speed", "3"], "unknown option '--speed'"),
    ("macswap", ["--cost"], "option --cost needs a value"),
    ("macswap", ["--yield-every", "-1"], "bad value of --yield-every '-1'"),
    ("macswap", ["--exit-idle", "soon"], "bad value of --exit-idle 'soon'"),
    ("macswap", ["--ports", "a,b,c"], "bad value of --ports 'a,b,c'"),
    ("macswap", ["--next-hop", "2a"], "bad value of --next-hop '2a': must be six hexadecimal"),
    ("macswap", ["--next-hop", "02:00:00:00:00:01,"], "bad value of --next-hop ''"),
    ("macswap", ["--next-hop", "ff:ff:ff:ff:ff:ff"], "is an address of many"),
    ("firewall", [], "--rules FILE is missing"),
    ("firewall", ["--rules", "absent"], "cannot read absent: No such file or directory"),
    ("firewall", ["--rules", "."], "cannot read .: it is a directory"),
    ("firewall", ["--rules", "bad.rules"], "bad.rules:3: bad source '10.0.0.300'"),
    ("firewall", ["--default", "maybe"], "bad action 'maybe'"),
    ("router", [], "--routes FILE is missing"),
    ("router", ["--routes", "bad.routes"], "bad.routes:2: bad next hop MAC 'me'"),
    ("router", ["--routes", "empty"], "empty has no routes"),
    ("nat", [], "--public IP is missing"),
    ("nat", ["--public", "1.2.3"], "bad value of --public '1.2.3'"),
    ("nat", ["--public", "1.2.3.4", "--inside", "10.0.0.1/8"], "write 10.0.0.0/8 or 10.0.0.1"),
    ("nat", ["--public", "1.2.3.4", "--max-flows", "0"], "bad value of --max-flows '0'"),
    ("monitor", ["--csv", "absent/flows.csv"], "cannot write absent/flows.csv: No such file"),
    ("monitor", ["--top", "many"], "bad value of --top 'many'"),
    ("dpi", [], "--rules FILE is missing"),
    ("dpi", ["--rules", "bad.dpi"], "bad.dpi:2: Hyperscan does not take the pattern '(': Missing"),
    ("dpi", ["--rules", "empty"], "empty has no rules"),
    ("ipsec", [], "--policy FILE is missing, or --synthetic N"),
    ("ipsec", ["--policy", "bad.policy"], "bad.policy:1: bad key: aes-128-gcm takes 40"),
    ("ipsec", ["--policy", "empty", "--synthetic", "3"], "--policy and --synthetic exclude each"),
    ("ipsec", ["--mtu", "67"], "bad value of --mtu '67': must be a whole number from 68 to 65535"),
    ("ipsec", ["--default", "drop"], "bad action 'drop': must be bypass or discard"),
    ("wanopt", ["--level", "13"], "bad value of --level '13': must be a whole number from 0 to 12"),
    ("wanopt", ["--mode", "both"], "bad value of --mode 'both': must be compress or expand"),
]


@pytest.mark.parametrize(("name", "options", "sentence"), BAD)
def test_bad_options_fail_before_eal(
    name: str, options: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.rules").write_text("# rules\n\ndeny 10.0.0.300 * * * *\n")
    Path("bad.routes").write_text("# routes\n10.0.0.0/8 me 02:00:00:00:00:01\n")
    Path("bad.dpi").write_text("1 alert - fine\n2 drop i (\n")
    Path("bad.policy").write_text("protect 10.0.0.1 300 1.2.3.4 5.6.7.8 aes-128-gcm 00ff\n")
    Path("empty").write_text("")
    done = start(name, *EAL, "--vdev", "net_null0", "--", *options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"{name}: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1  # one sentence, and nothing of EAL's


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "EAL found no port; name one"),
        (["--vdev", "net_null0", "--", "--ports", "net_null7"],
         "there is no port 'net_null7'; EAL found: net_null0"),
        (["--vdev", "net_null0", "--vdev", "net_null1", "--vdev", "net_null2"],
         "there are 3 ports (net_null0, net_null1, net_null2), which makes no pairs; choose with"
         " --ports IN,OUT"),
        (["--vdev", "net_null0", "--", "--next-hop", "02:00:00:00:00:01,02:00:00:00:00:02"],
         "--next-hop has 2 addresses, and packets leave by 1 ports; give one for all, or one for"
         " each"),
        (["--frobnicate"], "DPDK's EAL did not start"),
        (["--cost", "light"], "option --cost belongs behind `--`"),
    ],
)  # fmt: skip
def test_bad_ports_and_eal_options(words: list[str], sentence: str) -> None:
    done = start("macswap", *EAL, *words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("macswap: ")
    assert sentence in done.stderr.splitlines()[-1]
