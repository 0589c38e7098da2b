"""What must hold before anything is started, each with the sentence that says what to do."""

import os
from collections.abc import Callable
from pathlib import Path

from unis.chain.load import LoadedChain
from unis.chain.machine import format_cpu_list
from unis.launch.clean_up import clean_up
from unis.launch.errors import LaunchError
from unis.launch.state import Phase, RunDirectory, all_runs

# Packets and rings of a chain; the packet memory is the same for any chain.
HUGEPAGE_MB = 256
RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
RR_TIMESLICE = Path("/proc/sys/kernel/sched_rr_timeslice_ms")


def hugepage_directory() -> Path | None:
    """Where hugepages are mounted; None if they are not."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "hugetlbfs":
            return Path(place)
    return None


def free_hugepages_mb() -> int:
    """Megabytes of free hugepages of the default size."""
    values = dict(
        line.replace(":", "").split()[:2]
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("Huge")
    )
    free = int(values.get("HugePages_Free", 0)) - int(values.get("HugePages_Rsvd", 0))
    return free * int(values.get("Hugepagesize", 0)) // 1024


def require_permission() -> None:
    """Raises LaunchError unless we may do what `unis up` does."""
    if os.geteuid() != 0:
        raise LaunchError(
            "UNiS needs root, for hugepages and real-time scheduling: run it with sudo"
        )


def require_hugepages() -> Path:
    """The directory of hugepages; LaunchError if there are too few."""
    directory = hugepage_directory()
    if directory is None:
        raise LaunchError(
            "no hugepages are mounted: run `mkdir -p /dev/hugepages && "
            "mount -t hugetlbfs none /dev/hugepages`"
        )
    if (free := free_hugepages_mb()) < HUGEPAGE_MB:
        raise LaunchError(
            f"{free} MB of hugepages are free and {HUGEPAGE_MB} MB are needed: "
            "run `sysctl -w vm.nr_hugepages=512`, or end the programs that hold them"
        )
    return directory


def clear_stale_runs(report: Callable[[str], None]) -> None:
    """Undoes what killed runs have left, and says so."""
    for directory, state in all_runs():
        if state.phase != Phase.FAILED and not state.live():
            report(f"cleaning up after run `{state.name}`, whose launcher was killed")
            for problem in clean_up(directory, state.run_id):
                report(problem)


def require_no_clash(chain: LoadedChain, directory: RunDirectory) -> None:
    """Raises LaunchError if the name or a CPU is taken by a running chain."""
    for other, state in all_runs():
        if not state.live():
            continue
        if other.path == directory.path:
            raise LaunchError(
                f"`{state.name}` is already running: run `unis down {state.name}` first, or give "
                "this one another --name"
            )
        if shared := chain.file.cpus & {*state.cpus, *state.platform_cpus}:
            raise LaunchError(
                f"CPU {format_cpu_list(shared)} is in use by run `{state.name}`: run "
                f"`unis down {state.name}` first, or choose other CPUs"
            )


def original_sysctls() -> dict[Path, str]:
    """The kernel settings that a run changes, as they were before any run."""
    for _, state in all_runs():
        if state.live():
            return dict(state.sysctls)
    return {path: path.read_text().strip() for path in (RT_RUNTIME, RR_TIMESLICE) if path.exists()}
