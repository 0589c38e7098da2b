"""A DPDK program as a secondary process of the engine's group, on rings."""

from unis.links.kind import LinkKind
from unis.workload.kind import GroupName, Start, engine_prefix


class Secondary:
    """Any program that uses the ports it finds; packets stay where they are."""

    group: GroupName = "engine"
    link = "ring"
    hugepages_mb = 0
    needs_neighbours = False

    def opens(self, kind: LinkKind) -> bool:
        """What is in the memory of its group; a secondary process makes no devices of its own."""
        return kind.of_group

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
            *start.bus(),
            # The default pool is not preemptible: real-time functions would wait for ever.
            "--mbuf-pool-ops-name=lf_stack",
            "--iova-mode=va",  # as unisd: packets never leave for a device of the function's
            "--no-telemetry",
            *start.ports(),
        ]

    def leaves(self, file_prefix: str) -> tuple[()]:  # noqa: ARG002
        """None: the group lives on with the engine."""
        return ()
