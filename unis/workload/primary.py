"""A DPDK program as the primary process of its own group."""

from unis.links.kind import LinkKind
from unis.workload.kind import GroupName, Start, engine_prefix


class Primary:
    """A program that knows nothing of the engine, not even its memory."""

    group: GroupName = "own"
    link = "memif"
    hugepages_mb = 64
    needs_neighbours = True

    def opens(self, kind: LinkKind) -> bool:
        """All that does not need the engine's memory."""
        return not kind.of_group

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
            *start.bus(),
            "--iova-mode=va",
            "--no-telemetry",
            *start.ports(),
        ]

    def leaves(self, file_prefix: str) -> tuple[str]:
        """The group's, for nobody else is in it."""
        return (file_prefix,)
