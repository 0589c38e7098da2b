"""A DPDK program as a secondary process of the engine's group, on rings."""

from unis.workload.kind import GroupName, Start, engine_prefix


class Secondary:
    """Any program that uses the ports it finds; packets stay where they are."""

    group: GroupName = "engine"
    hugepages_mb = 0

    def file_prefix(self, run: str, function: str) -> str:  # noqa: ARG002
        """The engine's."""
        return engine_prefix(run)

    def eal(self, start: Start) -> list[str]:
        """Memory and packets are the engine's; the ports are net_unis."""
        return [
            *("-d", str(start.port_driver)),
            *start.load_plugin(),
            *("--lcores", start.lcores),
            "--proc-type=secondary",
            f"--file-prefix={start.file_prefix}",
            "--no-pci",
            # The default pool is not preemptible: real-time functions would wait for ever.
            "--mbuf-pool-ops-name=lf_stack",
            "--iova-mode=va",  # as unisd: packets never leave for a device of the function's
            "--no-telemetry",
            *(f"--vdev={device}" for device in start.devices),
        ]
