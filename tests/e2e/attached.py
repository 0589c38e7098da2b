"""Programs that somebody else started: Debian's dpdk-testpmd, by hand, with nothing of ours."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.e2e.machine import Machine
from tests.e2e.third_party import third_party
from unis.runtime.errors import LaunchError
from unis.runtime.memifs import find_end
from unis.runtime.process import keep_off

_PAUSE_SECONDS = 0.5
_BURSTS = 8  # that each of the first one's ports sends into the circle


@dataclass(frozen=True)
class Foreign:
    """A process and its console."""

    name: str
    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def say(self, command: str) -> None:
        stdin: IO[str] | None = self.process.stdin
        assert stdin
        stdin.write(f"{command}\n")
        stdin.flush()

    def threads(self) -> dict[int, tuple[object, ...]]:
        """Of each thread all that attaching may change."""
        return {
            int(task.name): (
                os.sched_getscheduler(int(task.name)),
                os.sched_getparam(int(task.name)).sched_priority,
                os.getpriority(os.PRIO_PROCESS, int(task.name)),
                frozenset(os.sched_getaffinity(int(task.name))),
                (task / "cgroup").read_text(),
            )
            for task in Path(f"/proc/{self.pid}/task").iterdir()
        }


@contextmanager
def started_by_hand(
    name: str, directory: Path, *arguments: str, inside: str = ""
) -> Iterator[Foreign]:
    """As somebody would start it on CPU 1, its main lcore on CPU 0, `inside` a network namespace
    or ours.
    """
    log = (directory / f"{name}.log").open("w")
    with log, subprocess.Popen(
        [
            *(("ip", "netns", "exec", inside) if inside else ()),
            third_party("dpdk-testpmd"), f"--file-prefix={name}", "--lcores", "0@0,1@1", "--no-pci",
            "-m", "64", "--no-telemetry", "--iova-mode=va", *arguments, "--", "-i", "--nb-cores=1",
            "--forward-mode=macswap", "--total-num-mbufs=16384", "--burst=64", "--rxd=1024",
            "--txd=1024", "--no-flush-rx", "--no-lsc-interrupt",
        ],
        stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            yield Foreign(name, process)
        finally:
            process.kill()


@contextmanager
def namespace(*pairs: tuple[str, str]) -> Iterator[str]:
    """A network namespace of its own, with pairs of veths. Numbers of devices are far apart:
    net_af_packet tells its groups of sockets apart by those and the numbers of processes.
    """
    name = f"ut{os.getpid()}"

    def ip(*words: object) -> None:
        subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)

    ip("netns", "add", name)
    try:
        for at, (near, far) in enumerate(pairs, 1):
            pair = ("type", "veth", "peer", "name", far, "index", at << 12 | 1 << 11)
            ip("-n", name, "link", "add", "name", near, "index", at << 12, *pair)
            for device in (near, far):
                quiet = f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6"
                ip("netns", "exec", name, "sh", "-c", f"echo 1 >{quiet}")
                ip("-n", name, "link", "set", device, "arp", "off", "multicast", "off", "up")
        yield name
    finally:
        ip("netns", "delete", name)


@contextmanager
def circle(directory: Path, *names: str) -> Iterator[list[Foreign]]:
    """Some with a memif from each to the next, in which packets go round both ways for ever.

    They get in each other's way, and we keep off their CPU.
    """
    sockets = [directory / f"{name}.sock" for name in names]
    last = len(names) - 1

    def memif(number: int, role: str, at: int) -> str:
        where = f"socket={sockets[at]},socket-abstract=no"
        return f"--vdev=net_memif{number},role={role},id=0,{where},rsize=10,bsize=2048"

    with ExitStack() as stack:
        started: list[Foreign] = []
        for at, name in enumerate(names):
            left = memif(0, "server" if at == 0 else "client", (at - 1) % len(names))
            right = memif(1, "client" if at == last else "server", at)
            started.append(
                stack.enter_context(started_by_hand(name, directory, "--in-memory", left, right))
            )
            if at < last:
                Machine.wait_for(sockets[at].exists, f"{name} serves no memif")
        mine = os.sched_getaffinity(0)
        stack.callback(os.sched_setaffinity, 0, mine)
        keep_off({1})
        Machine.wait_for(lambda: all(map(_connected, started)), "they are not connected")
        for one in started[1:]:
            one.say("start")
        Machine.wait_for(lambda: all(map(polls, started[1:])), "they do not poll")
        Machine.wait_for(lambda: _sends(started[0]), "no packets go round")
        yield started


def _connected(one: Foreign) -> bool:
    assert one.process.poll() is None, f"{one.name} has ended"
    try:
        return bool(find_end(one.pid, 0, "server") and find_end(one.pid, 1, "server"))
    except LaunchError:
        return False


def _sends(one: Foreign) -> bool:
    """Whether what it sends goes round; it is lost where a memif is not up yet."""
    one.say(f"start tx_first {_BURSTS}")
    time.sleep(_PAUSE_SECONDS)
    if _moves(one):
        return True
    one.say("stop")
    time.sleep(_PAUSE_SECONDS)
    return False


def _moves(one: Foreign) -> bool:
    """Whether a position of its first memif does."""
    inode = find_end(one.pid, 0, "server").inode
    files = Path(f"/proc/{one.pid}/fd").iterdir()
    memory = next(file for file in files if file.stat().st_ino == inode)
    with memory.open("rb", buffering=0) as opened:
        before = os.pread(opened.fileno(), 2, 6)
        time.sleep(0.1)
        return os.pread(opened.fileno(), 2, 6) != before


def polls(one: Foreign) -> bool:
    """Whether its worker does; its main thread serves the console."""
    stats = [(task / "stat").read_text() for task in Path(f"/proc/{one.pid}/task").iterdir()]
    return any("worker-1)" in stat and stat.rpartition(")")[2].split()[0] == "R" for stat in stats)
