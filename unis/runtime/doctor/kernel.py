"""Does the kernel let functions have their CPUs and memory?"""

import os
from pathlib import Path

from unis.runtime import cgroup, hugepages
from unis.runtime.doctor.finding import Finding, Level, content, fine

_KERNEL = Path("/proc/sys/kernel")
_CHAIN_MB = 256  # what a chain with default rings needs
_FAIR_SERVER = Path("/sys/kernel/debug/sched/fair_server")


def permission() -> Finding:
    """May we use real-time classes and hugepages?"""
    if os.geteuid() == 0:
        return fine("permission", "root")
    return Finding(
        "permission",
        Level.BLOCKED,
        f"user {os.geteuid()}",
        "hugepages and real-time scheduling of other processes need root",
        "sudo unis up FILE",
    )


def hugepage_memory() -> Finding:
    """Is there packet memory?"""
    place = hugepages.directory()
    if place is None:
        return Finding(
            "hugepages",
            Level.BLOCKED,
            f"none of {hugepages.default_page_kb()} kB, this kernel's default, are mounted",
            "packets and rings live in hugepages, which all processes of a chain share",
            hugepages.mend(),
        )
    free = hugepages.free_mb()
    if free >= _CHAIN_MB:
        return fine("hugepages", f"{free} MB free in {place}")
    return Finding(
        "hugepages",
        Level.BLOCKED,
        f"{free} MB free",
        f"packets and rings of a small chain need {_CHAIN_MB} MB; `unis config` tells it of yours",
        "sysctl -w vm.nr_hugepages=512",
    )


def rt_throttling() -> Finding:
    """Does the kernel take CPU time from real-time functions?"""
    runtime = content(_KERNEL / "sched_rt_runtime_us")
    if runtime == "-1":
        return fine("RT throttling", "off")
    period = content(_KERNEL / "sched_rt_period_us")
    return fine("RT throttling", f"{runtime} of {period} µs; unisd lifts it while a chain runs")


def _cpu_cgroup() -> Path | None:
    """Our cgroup of the version 1 cpu controller, whose real-time budget binds us."""
    for line in content(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            for mount in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"):
                if Path(mount).is_dir():
                    return Path(mount + path)
    return None


def rt_groups() -> Finding:
    """Does our cgroup have a budget of real-time?"""
    group = _cpu_cgroup()
    budget = content(group / "cpu.rt_runtime_us") if group else ""
    if not budget:
        return fine("RT groups", "no budget applies to this cgroup")
    if budget != "0":
        return fine("RT groups", f"{budget} µs in {group}")
    return Finding(
        "RT groups",
        Level.BLOCKED,
        f"0 µs in {group}",
        "a kernel with RT group scheduling refuses real-time classes in a cgroup without a budget",
        "echo $$ > /sys/fs/cgroup/cpu/cgroup.procs",
    )


def fair_server() -> Finding:
    """Does the kernel lend the functions' CPUs to starved ordinary tasks?"""
    try:
        servers = sorted(_FAIR_SERVER.glob("cpu[0-9]*/runtime"))
        runtimes = {int(path.read_text()) for path in servers}
    except (OSError, ValueError):
        runtimes = set()
    visible = _FAIR_SERVER.is_dir()
    release = tuple(int(part) for part in os.uname().release.split(".")[:2] if part.isdigit())
    if runtimes == {0} or release < (6, 12):
        return fine("fair server", "off" if runtimes else f"Linux {os.uname().release} has none")
    found = (
        f"up to {max(runtimes) / 1e6:g} ms a period"
        if runtimes
        else "there since Linux 6.12; this kernel does not let us see it"
    )
    return Finding(
        "fair server",
        Level.NOTE,
        found,
        "it lends starved ordinary tasks time of a CPU, by default 50 ms a second, even with RT "
        "throttling off; unisd turns it off on the functions' CPUs while a chain runs, if it can",
        f"echo 0 | tee {_FAIR_SERVER}/cpu*/runtime"
        if visible
        else "mount -t debugfs none /sys/kernel/debug",
    )


def run_group() -> Finding:
    """Can all processes of a run be ended at once?"""
    place = cgroup.mount()
    name = cgroup.leaf_name("doctor")
    if place is not None and name is not None and os.access((place / name).parent, os.W_OK):
        return fine("cgroup", f"runs get a cgroup of their own below {(place / name).parent}")
    return Finding(
        "cgroup",
        Level.NOTE,
        "no cgroup v2 that we may write",
        "processes of a run are found by their environment instead, which a process can change",
        "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified",
    )
