"""`unis doctor`: is this machine fit for UNiS, and if not, what mends it?"""

from collections.abc import Callable

from unis.runtime.doctor import kernel, machine, runs, software
from unis.runtime.doctor.finding import Finding

_CHECKS: tuple[Callable[[], Finding], ...] = (
    kernel.permission, machine.cpus, kernel.hugepage_memory, kernel.rt_throttling,
    kernel.rt_groups, kernel.fair_server, kernel.run_group, machine.isolated_cores, machine.tsc,
    machine.transparent_hugepages, machine.governor, machine.smt, software.dpdk,
    software.mempool_handler, software.build, runs.lcore_clashes,
)  # fmt: skip


def examine() -> list[Finding]:
    """Every finding, in the order in which they matter."""
    return [*(check() for check in _CHECKS), *runs.runs()]
