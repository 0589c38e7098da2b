"""A DPDK program as the primary process of its own group, on memif."""

from unis.workload.kind import GroupName, Start, lcores


class Primary:
    """A program that knows nothing of the engine, not even its memory."""

    group: GroupName = "own"
    hugepages_mb = 64

    def file_prefix(self, start: Start) -> str:
        """Its own, so that two groups never meet: no name of a run or function has a dot."""
        return f"unis-{start.run}.{start.function}"

    def eal(self, start: Start) -> list[str]:
        """Hugepages without a file: nothing is left behind, however it ends."""
        return [
            *lcores(start),
            "--proc-type=primary",
            f"--file-prefix={self.file_prefix(start)}",
            "--in-memory",
            "--no-pci",
            "--iova-mode=va",
            "--no-telemetry",
            *(f"--vdev={device}" for device in start.devices),
        ]
