"""`unis doctor`: is this machine fit for UNiS, and if not, what mends it?"""

from unis.isolate.hardware import detect
from unis.plan.machine import Machine
from unis.runtime.directory import keep_off_functions
from unis.runtime.doctor import caches, kernel, machine, nics, runs, software
from unis.runtime.doctor.finding import Finding


def examine() -> list[Finding]:
    """Every finding, in the order in which they matter."""
    ours = Machine.this().cpus  # before we keep off some
    keep_off_functions()
    found = detect()
    return [
        kernel.permission(), kernel.capabilities(), machine.cpus(ours), machine.distance(ours),
        kernel.hugepage_memory(), kernel.rt_throttling(), kernel.rt_groups(), kernel.fair_server(),
        kernel.run_group(), kernel.network_namespaces(), kernel.packet_sockets(),
        kernel.host_interfaces(), *nics.nics(), machine.isolated_cores(ours),
        machine.tsc(), machine.transparent_hugepages(), machine.governor(), machine.smt(),
        machine.timers(),
        caches.isolation(found), caches.dma(found),
        software.dpdk(), software.mempool_handler(), *software.link_kinds(), software.containers(),
        software.build(),
        runs.lcore_clashes(),
        *runs.runs(),
    ]  # fmt: skip
