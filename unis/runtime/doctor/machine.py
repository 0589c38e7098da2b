"""Is the machine fit: CPUs, clock, power, memory?"""

import ctypes
import re
import time
from collections.abc import Callable
from pathlib import Path

from unis.engine.transfer import line_transfer_ns
from unis.plan.cpus import format_cpu_list, parse_cpu_list
from unis.runtime.directory import all_runs
from unis.runtime.doctor.finding import Finding, blocked, content, fine, note

_CPU = Path("/sys/devices/system/cpu")
_CLOCK = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")

_FAR_NS = 100.0  # neighbours have 20 to 60
_SLEEP_US = 100
_SLEEPS = 200
_LATE_US = 150  # a virtual machine is about 60 late
_PR_SET_TIMERSLACK = 29
_LOOKED_AT = 16  # CPUs; each takes milliseconds if nobody else needs it


def cpus(ours: frozenset[int]) -> Finding:
    """Is there a CPU for functions beside the platform's?"""
    if len(ours) > 1:
        return fine("CPUs", f"{len(ours)} ({format_cpu_list(ours)})")
    return blocked(
        "CPUs",
        "1",
        "the scheduler and the traffic keep one CPU busy, functions need another",
        "unis simulate FILE",
    )


def distance(ours: frozenset[int]) -> Finding:
    """Does what passes between the platform's CPU and the functions' stay in a common cache?"""
    check = "distance"
    taken = {
        cpu
        for _, state in all_runs()
        if not state.undone()
        for cpu in (*state.cpus, *state.platform_cpus, *state.switch_cpus)
    }
    if taken & ours:  # it would keep the chains' CPUs busy
        return fine(check, "not measured: chains run")
    first, *others = sorted(ours)
    found = {cpu: took for cpu in others[:_LOOKED_AT] if (took := line_transfer_ns(first, cpu))}
    if not found:
        return note(check, "cannot be measured now", "a CPU is busy or unis-lines is missing",
            "run `unis doctor` again when the CPUs are idle"
        )  # fmt: skip
    nearest, farthest = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    told = f"CPU {first} to {farthest}: a cache line takes {found[farthest]:.0f} ns"
    if found[farthest] < _FAR_NS:
        return fine(check, told)
    return note(
        check,
        told,
        "packets cross it twice; a hypervisor may change it at any time, and half the throughput",
        f"functions on CPUs near the platform's: {nearest} has {found[nearest]:.0f} ns"
        if found[nearest] < _FAR_NS
        else "virtual CPUs pinned to cores of one last-level cache",
    )


def isolated_cores(ours: frozenset[int]) -> Finding:
    """Does the kernel keep its own tasks off the functions' CPUs?"""
    isolated = parse_cpu_list(content(_CPU / "isolated"))
    if isolated:
        return fine("isolated cores", format_cpu_list(isolated))
    free = format_cpu_list(ours - {min(ours)}) or "1"
    return note(
        "isolated cores",
        "none",
        "other tasks and interrupts run on the functions' CPUs too and spread the results",
        f"add isolcpus={free} nohz_full={free} rcu_nocbs={free} to the kernel command line",
    )


def tsc() -> Finding:
    """Is the time stamp counter a clock?"""
    cpuinfo = content(Path("/proc/cpuinfo"))
    flags = set(re.findall(r"\b(?:constant_tsc|nonstop_tsc)\b", cpuinfo))
    clock = content(_CLOCK)
    if len(flags) == 2 and clock in ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page"):
        return fine("TSC", f"constant, nonstop, clock source {clock}")
    lacking = {"constant_tsc", "nonstop_tsc"} - flags
    return note(
        "TSC",
        f"clock source {clock or 'unknown'}, lacks {', '.join(sorted(lacking)) or 'nothing'}",
        "time slices and latencies are counted on the TSC; here it may drift or stop",
        "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
    )


def transparent_hugepages() -> Finding:
    """May the kernel rearrange memory while functions run?"""
    match = re.search(r"\[(\w+)\]", content(_THP))
    mode = match[1] if match else "absent"
    if mode != "always":
        return fine("THP", mode)
    return note(
        "THP",
        "always",
        "the kernel merges pages of a running program, which delays it now and then",
        f"echo madvise > {_THP}",
    )


def governor() -> Finding:
    """Do the CPUs keep their clock rate?"""
    governors = {content(path) for path in _CPU.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    if not governors:
        return fine("governor", "the clock rate is not ours to set (virtual machine)")
    if governors == {"performance"}:
        return fine("governor", "performance")
    return note(
        "governor",
        ", ".join(sorted(governors)),
        "the clock rate follows the load, and so do measured costs (the paper fixes it, 5.1.1)",
        "cpupower frequency-set -g performance",
    )


def smt() -> Finding:
    """Do CPUs share a core?"""
    pairs = {
        text
        for path in _CPU.glob("cpu[0-9]*/topology/thread_siblings_list")
        if len(parse_cpu_list(text := content(path))) > 1
    }
    if not pairs:
        return fine("SMT", "every CPU is a core of its own")
    return note(
        "SMT",
        f"siblings {' '.join(sorted(pairs))}",
        "functions on siblings slow each other; give a chain one CPU of each pair",
        "echo off > /sys/devices/system/cpu/smt/control",
    )


def timers(sleep: Callable[[float], None] = time.sleep) -> Finding:
    """How late does a short sleep end? Functions and platform sleep between packets by such."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)  # ns, as unisd has it
    try:
        late = sorted(_late_us(sleep) for _ in range(_SLEEPS))
    finally:
        prctl(_PR_SET_TIMERSLACK, 0, 0, 0, 0)  # the default
    median, p95 = late[_SLEEPS // 2], late[_SLEEPS * 95 // 100]
    found = f"a sleep of {_SLEEP_US} µs ends {median:.0f} µs late; p95 {p95:.0f} µs"
    if median <= _LATE_US:
        return fine("timers", found)
    return note(
        "timers",
        found,
        "UNiS makes up for at most 100 µs of this; beyond that, packets wait longer than "
        "max_delay_us",
        "set max_delay_us: 0 where that is too long",
    )


def _late_us(sleep: Callable[[float], None]) -> float:
    begin = time.perf_counter()
    sleep(_SLEEP_US / 1e6)
    return (time.perf_counter() - begin) * 1e6 - _SLEEP_US
