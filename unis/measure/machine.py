"""Where something was measured."""

import platform

from unis.measure.summary import MachineSummary
from unis.runtime.costs import cpu_model
from unis.runtime.doctor.software import dpdk_version


def this_machine(cpus: int) -> MachineSummary:
    """The machine that we run on."""
    return MachineSummary(
        cpu_model=cpu_model(),
        cpus=cpus,
        kernel=platform.release(),
        dpdk=dpdk_version() or "unknown",
    )
