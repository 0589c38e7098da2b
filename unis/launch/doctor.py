"""`unis doctor`: is this machine fit for UNiS, and if not, what mends it?"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from unis import built
from unis.chain.machine import Machine, format_cpu_list, parse_cpu_list
from unis.launch import preflight
from unis.launch.state import Phase, all_runs

_KERNEL = Path("/proc/sys/kernel")
_CPU = Path("/sys/devices/system/cpu")
_CLOCK = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_PMDS = Path("/usr/lib/x86_64-linux-gnu/dpdk")


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"  # works; results may be worse or spread more
    BLOCKED = "blocked"  # `unis up` will not work


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str
    level: Level
    found: str
    meaning: str = ""
    mend: str = ""  # a command


def _ok(check: str, found: str) -> Finding:
    return Finding(check, Level.OK, found)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def permission() -> Finding:
    """May we use real-time classes and hugepages?"""
    if os.geteuid() == 0:
        return _ok("permission", "root")
    return Finding(
        "permission",
        Level.BLOCKED,
        f"user {os.geteuid()}",
        "hugepages and real-time scheduling of other processes need root",
        "sudo unis up FILE",
    )


def cpus() -> Finding:
    """Is there a CPU for functions beside the platform's?"""
    online = Machine.this().cpus
    if len(online) > 1:
        return _ok("CPUs", f"{len(online)} ({format_cpu_list(online)})")
    return Finding(
        "CPUs",
        Level.BLOCKED,
        "1",
        "the scheduler and the traffic keep one CPU busy, functions need another",
        "unis simulate FILE",
    )


def hugepages() -> Finding:
    """Is there packet memory?"""
    if preflight.hugepage_directory() is None:
        return Finding(
            "hugepages",
            Level.BLOCKED,
            "not mounted",
            "packets and rings live in hugepages, which all processes of a chain share",
            "mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages",
        )
    free = preflight.free_hugepages_mb()
    if free >= preflight.HUGEPAGE_MB:
        return _ok("hugepages", f"{free} MB free in {preflight.hugepage_directory()}")
    return Finding(
        "hugepages",
        Level.BLOCKED,
        f"{free} MB free",
        f"packets and rings of a chain need {preflight.HUGEPAGE_MB} MB",
        "sysctl -w vm.nr_hugepages=512",
    )


def rt_throttling() -> Finding:
    """Does the kernel take CPU time from real-time functions?"""
    runtime = _read(_KERNEL / "sched_rt_runtime_us")
    if runtime == "-1":
        return _ok("RT throttling", "off")
    period = _read(_KERNEL / "sched_rt_period_us")
    return Finding(
        "RT throttling",
        Level.NOTE,
        f"{runtime} of {period} µs",
        "the kernel stops real-time tasks for the rest of each period; unisd lifts this while a "
        "chain runs and puts it back",
        "sysctl -w kernel.sched_rt_runtime_us=-1",
    )


def _cpu_cgroup() -> Path | None:
    """Our cgroup of the version 1 cpu controller, whose real-time budget binds us."""
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            for mount in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"):
                if Path(mount).is_dir():
                    return Path(mount + path)
    return None


def rt_groups() -> Finding:
    """Does our cgroup have a budget of real-time?"""
    group = _cpu_cgroup()
    budget = _read(group / "cpu.rt_runtime_us") if group else ""
    if not budget:
        return _ok("RT groups", "no budget applies to this cgroup")
    if budget != "0":
        return _ok("RT groups", f"{budget} µs in {group}")
    return Finding(
        "RT groups",
        Level.BLOCKED,
        f"0 µs in {group}",
        "a kernel with RT group scheduling refuses real-time classes in a cgroup without a budget",
        "echo $$ > /sys/fs/cgroup/cpu/cgroup.procs",
    )


def isolated_cores() -> Finding:
    """Does the kernel keep its own tasks off the functions' CPUs?"""
    isolated = parse_cpu_list(_read(_CPU / "isolated"))
    if isolated:
        return _ok("isolated cores", format_cpu_list(isolated))
    free = format_cpu_list(Machine.this().cpus - {Machine.this().platform_cpu}) or "1"
    return Finding(
        "isolated cores",
        Level.NOTE,
        "none",
        "other tasks and interrupts run on the functions' CPUs too and spread the results",
        f"add isolcpus={free} nohz_full={free} rcu_nocbs={free} to the kernel command line",
    )


def tsc() -> Finding:
    """Is the time stamp counter a clock?"""
    cpuinfo = _read(Path("/proc/cpuinfo"))
    flags = set(re.findall(r"\b(?:constant_tsc|nonstop_tsc)\b", cpuinfo))
    clock = _read(_CLOCK)
    if len(flags) == 2 and clock in ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page"):
        return _ok("TSC", f"constant, nonstop, clock source {clock}")
    lacking = {"constant_tsc", "nonstop_tsc"} - flags
    return Finding(
        "TSC",
        Level.NOTE,
        f"clock source {clock or 'unknown'}, lacks {', '.join(sorted(lacking)) or 'nothing'}",
        "time slices and latencies are counted on the TSC; here it may drift or stop",
        "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
    )


def transparent_hugepages() -> Finding:
    """May the kernel rearrange memory while functions run?"""
    match = re.search(r"\[(\w+)\]", _read(_THP))
    mode = match[1] if match else "absent"
    if mode != "always":
        return _ok("THP", mode)
    return Finding(
        "THP",
        Level.NOTE,
        "always",
        "the kernel gathers pages behind a program's back, which delays it now and then",
        f"echo madvise > {_THP}",
    )


def governor() -> Finding:
    """Do the CPUs keep their clock rate?"""
    governors = {_read(path) for path in _CPU.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    if not governors:
        return _ok("governor", "the clock rate is not ours to set (virtual machine)")
    if governors == {"performance"}:
        return _ok("governor", "performance")
    return Finding(
        "governor",
        Level.NOTE,
        ", ".join(sorted(governors)),
        "the clock rate follows the load, and so do measured costs (the paper fixes it, 5.1.1)",
        "cpupower frequency-set -g performance",
    )


def smt() -> Finding:
    """Do CPUs share a core?"""
    pairs = {
        text
        for path in _CPU.glob("cpu[0-9]*/topology/thread_siblings_list")
        if len(parse_cpu_list(text := _read(path))) > 1
    }
    if not pairs:
        return _ok("SMT", "every CPU is a core of its own")
    return Finding(
        "SMT",
        Level.NOTE,
        f"siblings {' '.join(sorted(pairs))}",
        "functions on siblings slow each other; give a chain one CPU of each pair",
        "echo off > /sys/devices/system/cpu/smt/control",
    )


def dpdk() -> Finding:
    """Is DPDK there?"""
    tool = shutil.which("pkg-config")
    version = ""
    if tool:
        done = subprocess.run(
            [tool, "--modversion", "libdpdk"], capture_output=True, text=True, check=False
        )
        version = done.stdout.strip()
    if version:
        return _ok("DPDK", version)
    return Finding(
        "DPDK", Level.BLOCKED, "not found", "UNiS builds on it", "apt-get install dpdk libdpdk-dev"
    )


def mempool_handler() -> Finding:
    """Is the packet memory's lock-free handler there?"""
    found = [*_PMDS.glob("pmds-*/librte_mempool_stack.so*")]
    if found:
        return _ok("mempool", f"lf_stack in {found[0]}")
    return Finding(
        "mempool",
        Level.BLOCKED,
        "no librte_mempool_stack",
        "the default packet memory deadlocks when a real-time function is preempted in it; "
        "lf_stack does not",
        "apt-get install librte-mempool-stack23",
    )


def build() -> Finding:
    """Is UNiS built?"""
    try:
        unisd = built.unisd()
        built.port_driver()
        built.simulator()
    except built.NotBuiltError as error:
        return Finding("build", Level.BLOCKED, str(error), "nothing runs without it", "make build")
    return _ok("build", str(unisd))


def runs() -> Iterator[Finding]:
    """Which chains run, and what killed ones have left."""
    found = all_runs()
    if not found:
        yield _ok("runs", "none")
    for directory, state in found:
        if state.phase == Phase.FAILED:
            yield Finding(
                "runs",
                Level.NOTE,
                f"{state.name} failed",
                state.reason.splitlines()[0],
                f"unis down {state.name}",
            )
        elif state.live():
            yield _ok("runs", f"{state.name} on CPU {format_cpu_list(set(state.cpus))}")
        else:
            yield Finding(
                "runs",
                Level.NOTE,
                f"{state.name} is stale",
                f"its launcher was killed and {directory.path} is left; the next `unis up` or this "
                "cleans up",
                f"unis down {state.name}",
            )


def lcore_clashes() -> Finding:
    """Do two processes of one DPDK group claim the same lcore?"""
    claimed: dict[tuple[str, str], list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = _read(path).split("\0")
        prefix = _option(words, "--file-prefix")
        for part in (_option(words, "--lcores") or "").split(","):
            if prefix and part:
                claimed.setdefault((prefix, part.partition("@")[0]), []).append(int(path.parts[2]))
    clashes = {key: pids for key, pids in claimed.items() if len(pids) > 1}
    if not clashes:
        return _ok("lcores", "distinct in every DPDK group")
    (prefix, lcore), pids = next(iter(clashes.items()))
    return Finding(
        "lcores",
        Level.BLOCKED,
        f"lcore {lcore} of group {prefix} is used by {', '.join(map(str, pids))}",
        "processes with the same lcore share one cache of the packet memory and corrupt it",
        f"kill {pids[-1]}",
    )


def _option(words: list[str], name: str) -> str | None:
    for index, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and index + 1 < len(words):
            return words[index + 1]
    return None


_CHECKS: tuple[Callable[[], Finding], ...] = (
    permission, cpus, hugepages, rt_throttling, rt_groups, isolated_cores, tsc,
    transparent_hugepages, governor, smt, dpdk, mempool_handler, build, lcore_clashes,
)  # fmt: skip


def examine() -> list[Finding]:
    """Every finding, in the order in which they matter."""
    return [*(check() for check in _CHECKS), *runs()]
