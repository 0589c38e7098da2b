"""What an ended run has left on the machine."""

from pathlib import Path

from unis.runtime import cgroup, hugepages, kernel_settings
from unis.runtime.directory import DPDK_RUNTIME, run_directory
from unis.runtime.process import marked
from unis.runtime.state import RUN_MARK, RunState


def leaks(state: RunState, rt_runtime_before: str) -> list[str]:
    """Processes, files and settings that an ended run left; empty: the machine is as before.

    `rt_runtime_before`: `rt_runtime_us()` before the run.
    """
    processes = [*marked(RUN_MARK, state.run_id), state.launcher, state.guard, state.unisd]
    left = [f"process {process.pid}" for process in processes if process and process.alive()]
    for group in state.groups:
        files = [file for mount in hugepages.mounts() for file in mount.glob(f"{group}map_*")]
        left += [str(file) for file in [*files, *DPDK_RUNTIME.glob(group)]]
    folder = run_directory(state.name).path
    left += [str(file) for file in folder.glob("*.sock")]
    root = cgroup.mount()
    if root and state.leaf and (root / state.leaf).exists():
        left.append(str(root / state.leaf))
    left += [str(file) for file in kernel_settings.ledger().glob("*")]
    if rt_runtime_us() != rt_runtime_before:
        left.append(f"real-time throttle {rt_runtime_us()}, not {rt_runtime_before}")
    return left


def rt_runtime_us() -> str:
    """The kernel's limit on real-time tasks, which every run changes: µs per second."""
    return Path("/proc/sys/kernel/sched_rt_runtime_us").read_text().strip()
