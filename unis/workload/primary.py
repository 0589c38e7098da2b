"""A DPDK program as the primary process of its own group, on memif."""

from unis.workload.kind import GroupName, Start, engine_prefix


class Primary:
    """A program that knows nothing of the engine, not even its memory."""

    group: GroupName = "own"
    hugepages_mb = 64

    def file_prefix(self, run: str, function: str) -> str:
        """Its own, so that two groups never meet: no name of a run or function has a dot."""
        return f"{engine_prefix(run)}.{function}"

    def eal(self, start: Start) -> list[str]:
        """Hugepages without a file: nothing is left behind, however it ends."""
        return [
            *start.load_plugin(),
            *("--lcores", start.lcores),
            "--proc-type=primary",
            f"--file-prefix={start.file_prefix}",
            "--in-memory",
            "--no-pci",
            "--iova-mode=va",
            "--no-telemetry",
            *(f"--vdev={device}" for device in start.devices),
        ]
