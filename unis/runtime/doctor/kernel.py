"""Does the kernel let us and functions have what they need: rights, CPUs, memory?"""

import contextlib
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from unis import built
from unis.links import namespaces
from unis.runtime import cgroup, hugepages, interfaces, sockets
from unis.runtime.doctor.finding import Finding, blocked, content, fine, note
from unis.runtime.errors import as_root

_KERNEL = Path("/proc/sys/kernel")
_UNISD_SECONDS = 10.0  # to tell what it keeps
_CHAIN_MB = 256  # what a chain with default rings needs
_NAMED = 6  # interfaces
_FAIR_SERVER = Path("/sys/kernel/debug/sched/fair_server")


def permission() -> Finding:
    """May we use real-time classes and hugepages?"""
    if os.geteuid() == 0:
        return fine("permission", "root")
    return blocked(
        "permission",
        f"user {os.geteuid()}",
        "hugepages and real-time scheduling of other processes need root",
        as_root("up", "FILE"),
    )


@dataclass(frozen=True)
class Needed:
    """A capability that unisd keeps."""

    name: str
    number: int
    why: str
    ports: bool  # only where packets come from or go to a DPDK port


def needed() -> list[Needed]:
    """As unisd itself says. NotBuiltError, OSError or SubprocessError if it cannot be asked."""
    said = subprocess.run(
        [str(built.unisd()), "--capabilities"],
        capture_output=True,
        text=True,
        check=True,
        timeout=_UNISD_SECONDS,
    )
    rows = [line.split("\t") for line in said.stdout.splitlines()]
    return [Needed(name, int(number), why, bool(ports)) for name, number, why, ports in rows]


def capabilities() -> Finding:
    """Has whoever starts unisd the capabilities that it keeps?"""
    try:
        wanted = needed()
    except (built.NotBuiltError, OSError, subprocess.SubprocessError, ValueError):
        return note(
            "capabilities",
            "unisd does not run here",
            "whether this process has the capabilities that unisd keeps is unknown",
            "make build",
        )
    ours = _effective()
    lacking = [capability for capability in wanted if not ours >> capability.number & 1]
    if not lacking:
        always = (capability.name for capability in wanted if not capability.ports)
        return fine("capabilities", ", ".join(always))
    ports_only = all(capability.ports for capability in lacking)
    return (note if ports_only else blocked)(
        "capabilities",
        f"without {', '.join(capability.name for capability in lacking)}",
        "; ".join(f"{capability.name}: {capability.why}" for capability in lacking)
        + (" (of a port as source or sink only)" if ports_only else "")
        + ("; the container must grant them" if os.geteuid() == 0 else ""),
        " ".join(f"--cap-add={capability.name.upper()}" for capability in lacking)
        if os.geteuid() == 0
        else as_root("up", "FILE"),
    )


def _effective() -> int:
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", content(Path("/proc/self/status")), re.MULTILINE)
    return int(match[1], 16) if match else 0


def hugepage_memory() -> Finding:
    """Is there packet memory?"""
    place = hugepages.directory()
    if place is None:
        return blocked(
            "hugepages",
            f"none of {hugepages.default_page_kb()} kB, this kernel's default, are mounted",
            "packets and rings live in hugepages, which all processes of a chain share",
            hugepages.MOUNT,
        )
    free = hugepages.free_mb()
    if free >= _CHAIN_MB:
        return fine("hugepages", f"{free} MB free in {place}")
    return blocked(
        "hugepages",
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
    if _may_be_real_time():
        return fine("RT groups", f"0 µs in {group}, but this kernel grants real-time classes")
    return blocked(
        "RT groups",
        f"0 µs in {group}",
        "a kernel with RT group scheduling refuses real-time classes in a cgroup without a budget",
        "echo $$ > /sys/fs/cgroup/cpu/cgroup.procs",
    )


def _may_be_real_time() -> bool:
    """Whether the kernel grants this thread a real-time class, which is tried for a moment. In a
    container the path that we see may not be that of the cgroup which limits us.
    """
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):  # it was not changed
            os.sched_setscheduler(0, policy, parameter)
    return True


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
    return note(
        "fair server",
        found,
        "it lends starved ordinary tasks time of a CPU, by default 50 ms a second, even with RT "
        "throttling off; unisd turns it off on the functions' CPUs while a chain runs, if it can",
        f"echo 0 | tee {_FAIR_SERVER}/cpu*/runtime"
        if visible
        else "mount -t debugfs none /sys/kernel/debug",
    )


def network_namespaces() -> Finding:
    """Can functions have network namespaces of their own?"""
    if not (lacking := namespaces.lacks()):
        return fine("namespaces", "functions can have network namespaces of their own")
    mend = as_root() if os.geteuid() else ""
    return note("namespaces", lacking, "functions with `namespace: own` do not start", mend)


def packet_sockets() -> Finding:
    """Does the kernel tell of other programs' packet sockets?"""
    if not (lacking := sockets.lacks()):
        return fine("packet sockets", "the kernel tells whose they are")
    found, _, mend = lacking.partition("; ")
    meaning = "`unis attach` does not find the interfaces of a program; memifs and rings it does"
    return note("packet sockets", found, meaning, mend.strip("`"))


def host_interfaces() -> Finding:
    """Which interfaces of this host can be source or sink of a chain?"""
    try:
        found = interfaces.usable()
    except OSError as error:
        found, why = [], os.strerror(error.errno or 0)
    else:
        why = "no Ethernet interface is up and free"
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        return fine("interfaces", f"ready: {', '.join(found[:_NAMED])}{more}")
    meaning = "chains with a source or sink of `kind: interface` do not start"
    return note("interfaces", why, meaning, "ip link set NAME up")


def run_group() -> Finding:
    """Can all processes of a run be ended at once?"""
    place, name = cgroup.mount(), cgroup.leaf_name("doctor")
    if place and name and os.access(ours := (place / name).parent, os.W_OK):
        return fine("cgroup", f"runs get a cgroup of their own below {ours}")
    meaning = (
        "processes of a run are found by their environment instead, which a process can change"
    )
    if place and name and os.geteuid():
        return note("cgroup", "this user may not write cgroup v2", meaning, as_root())
    return note(
        "cgroup",
        "no cgroup v2 that we may write",
        meaning,
        "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified",
    )
