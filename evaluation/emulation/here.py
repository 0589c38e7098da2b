"""The emulated server of this machine: its tree, and the counters of the cache model."""

from dataclasses import replace
from pathlib import Path

from evaluation.caches import geometry
from evaluation.caches.geometry import LINE, CacheError, CacheLevel
from evaluation.caches.model import IO_WAYS
from evaluation.emulation import counters as model
from evaluation.emulation.machine import GroupCounters, like
from evaluation.emulation.tree import EmulatedTree, emulates
from unis.agent.watch import RunWatch, Watch
from unis.cli.agent_command import Site
from unis.cli.terminal import say
from unis.isolate.hardware import IoWays, detect, io_ways
from unis.isolate.info import read_info
from unis.runtime.directory import base_directory


def folder() -> Path:
    """The folder of the emulated tree."""
    return base_directory() / "resctrl"


def emulated(counters: GroupCounters | None = None) -> tuple[EmulatedTree, IoWays]:
    """The tree, and the ways that DMA fills. A new tree has this machine's caches."""
    machine = None if emulates(folder()) else like(detect().caches)
    tree = EmulatedTree(folder(), machine, counters=counters)
    return tree, io_ways(read_info(tree), {}, "")


def site(*, counting: bool) -> Site:
    """An emulated server for an agent. `counting`: with counters of the cache model."""
    tree, io = emulated()
    counters = modelled_counters(tree, io) if counting else None
    if counters is None:
        return Site(tree, io)
    tree, io = emulated(counters)

    def watch(runs: RunWatch) -> Watch:
        return model.ModelledWatch(runs, counters)

    return Site(tree, io, watch, counters.close, modelled=True)


def modelled_counters(tree: EmulatedTree, io: IoWays) -> model.ModelledCounters | None:
    """The counters of the cache model; None, after a message, if the caches are unknown."""
    info = read_info(tree)
    level = next(iter(info.of_level("L3")), None)
    way_bytes = next(iter(level.way_bytes.values()), 0) if level else 0
    try:
        if not (level and way_bytes and info.monitoring):
            raise CacheError(f"{tree.label} reports no size of a way, or has no counters")
        caches = replace(geometry.read_caches(), llc=CacheLevel(way_bytes // LINE, level.ways))
    except CacheError as error:
        say(f"occupancy, memory bandwidth and misses are not known: {error}")
        return None
    say("occupancy, memory bandwidth and misses are modelled (docs/cache-model.md)")
    # If the ways of DMA are unknown, packets use IO_WAYS: a device or the engine's core wrote them.
    cache = model.ModelledCache(caches, io.most or IO_WAYS, tree.machine.domain_of)
    return model.ModelledCounters(cache, model.record_member, say)
