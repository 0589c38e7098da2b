"""`unis agent` and `unis cache show` on an emulated resctrl: a demonstration without hardware."""

from __future__ import annotations

from unis.cli.agent_command import (
    IntervalOption,
    LooksOption,
    ReleaseOption,
    ReportOption,
    ServerArgument,
    keep,
)
from unis.cli.cache_command import print_usage
from unis.cli.cluster_files import BookOption, FileArgument
from unis.cli.options import JsonOption


def agent(
    cluster: FileArgument,
    server: ServerArgument,
    book: BookOption = None,
    interval: IntervalOption = 1,
    looks: LooksOption = None,
    report: ReportOption = None,
    release: ReleaseOption = False,
) -> None:
    """Run `unis agent` on an emulated resctrl. No hardware obeys it.

    Keeps promises as `unis agent` does, for the runs of this machine, on an emulated tree in
    /run/unis/resctrl. Everything but the cache is real. The cache model gives occupancy, misses
    and memory bandwidth of the functions (docs/cache-model.md).

    Example: uv run python -m evaluation agent examples/slo/cluster.yaml xeon:0
    """
    from evaluation.emulation.here import site

    keep(cluster, server, book, interval, looks, report, site, "agent-emulated", release=release)


def cache(as_json: JsonOption = False) -> None:
    """Show which threads have which ways of the emulated cache. No hardware obeys it.

    Reads the tree that `python -m evaluation agent` changes. Without a tree, shows the initial
    state of one on this machine.

    Example: uv run python -m evaluation cache
    """
    from evaluation.emulation.here import emulated
    from unis.isolate.state import read_usage

    usage = read_usage(*emulated())
    print_usage(usage, as_json=as_json)
