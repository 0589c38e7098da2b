"""`unis agent`: keeps what a cluster's book promises on this server."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.cluster_files import BookOption, FileArgument, book_of, short
from unis.cli.terminal import err, errors_told, fail, out, say, writable
from unis.errors import EXIT_FAILED

if TYPE_CHECKING:
    from unis.agent.agent import Agent, Event, Status
    from unis.agent.duties import Duties
    from unis.agent.modelled import ModelledCounters
    from unis.isolate.info import CacheInfo
    from unis.isolate.io_ways import IoWays
    from unis.isolate.tree import Tree

_STYLES = {"broken": "yellow", "more-instances": "yellow", "failed": "red", "kept": "green"}


def agent(
    cluster: FileArgument,
    server: Annotated[
        str, typer.Argument(metavar="SERVER", help="This one, as xeon:0: its kind and number.")
    ],
    book: BookOption = None,
    interval: Annotated[float, typer.Option(min=0.05, max=3600, help="Seconds between looks.")] = 1,
    looks: Annotated[
        int | None, typer.Option(min=1, help="End after so many; else at Ctrl-C.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Append what happens to this file, a JSON object a line.")
    ] = None,
    emulated: Annotated[
        bool, typer.Option("--emulated", help="On the emulated resctrl, which no hardware obeys.")
    ] = False,
    release: Annotated[
        bool, typer.Option("--release", help="Take the agent's classes away, and end.")
    ] = False,
) -> None:
    """Keep what is promised on this server: classes of the cache, and a watch over the latency.

    Reads from CLUSTER's book (`unis admit`) what is promised here, again whenever that changes. A
    reserved promise has a class of service with its ways; those on demand share the ways that are
    leased for them, and where one of their latencies is broken they are divided max-min fairly
    (ResQ, section 5.3.1). What cannot be kept is told, and that another instance is needed, which
    `unis cluster reconcile` gives. A promise RUN.CHAIN is that chain of a run on this machine.

    Classes stay when the agent ends or is killed; the next takes them over. --release takes them
    away. Needs root, and a CPU with cache allocation whose resctrl is mounted (`unis doctor`), or
    --emulated: then everything but the cache is real; what functions have in it, miss and move to
    memory is modelled.

    Example: unis agent examples/slo/cluster.yaml xeon:0
    """
    from unis.agent.agent import Agent
    from unis.agent.modelled import ModelledWatch
    from unis.agent.notes import NotesFile
    from unis.agent.watch import RunWatch, Watch
    from unis.cli.trees import tree_of_this_machine
    from unis.isolate.info import read_info
    from unis.runtime.directory import agent_folder
    from unis.runtime.errors import InterruptedRunError
    from unis.runtime.interrupts import interrupts
    from unis.runtime.lock import locked

    kind, number = _server(server)
    with errors_told():
        duties = _Duties(cluster, book, kind, number)
        if report:
            writable(report).touch()
        tree, io = tree_of_this_machine(emulated=emulated)
        folder = agent_folder(emulated=emulated)
        with locked(folder, os.O_RDONLY, seconds=0), interrupts() as switch:
            notes = NotesFile(folder)
            if (before := notes.read().server) not in ("", server):
                raise fail(
                    f"this machine is {before} to the agent that set its classes: end that with "
                    f"`unis agent {cluster} {before} --release`", EXIT_FAILED,
                )  # fmt: skip
            teller = _Teller(server, report)
            runs = RunWatch()
            watch: Watch = runs
            counters = None if release else _counters(tree, io)
            if counters:
                tree, io = tree_of_this_machine(emulated=True, counters=counters)
                watch = ModelledWatch(runs, counters)
            of = Agent(tree, watch, notes, io, teller, server=server)
            if release:
                _release(of, tree)
                return
            say(f"{tree.label}: no hardware obeys it" if tree.emulated else tree.label)
            say(f"{io.told}; {server} has {len(duties.now().p95_us)} promises")
            _see_that_it_is_this_server(read_info(tree), io, duties)
            status = None
            count = 0
            try:
                while count != looks:
                    if count:
                        time.sleep(interval)
                    with switch.deferred():  # what is begun is done
                        status = of.tick(duties.now())
                    count += 1
            except InterruptedRunError:
                pass  # classes stay
            finally:
                switch.hold()  # what it has come to is told
                runs.close()
                if counters:
                    counters.close()
    if status:
        _print(status, modelled=counters is not None)
    if status and status.problem:
        raise typer.Exit(EXIT_FAILED)


def _counters(tree: Tree, io: IoWays) -> ModelledCounters | None:
    """Of the cache model, for a tree that no hardware counts for; None for another, and where it
    knows no caches.
    """
    from unis.agent.modelled import Cache, ModelledCounters, record_member
    from unis.isolate.emulated import EmulatedTree
    from unis.isolate.info import read_info
    from unis.profile.cache_model import IO_WAYS
    from unis.profile.machine_caches import LINE, CacheError, Level, read_caches

    if not isinstance(tree, EmulatedTree):
        return None
    info = read_info(tree)
    level = next(iter(info.of_level("L3")), None)
    way_bytes = next(iter(level.way_bytes.values()), 0) if level else 0
    try:
        if not (level and way_bytes and info.monitoring):
            raise CacheError(f"{tree.label} tells no size of a way, or counts nothing")
        caches = replace(read_caches(), llc=Level(way_bytes // LINE, level.ways))
    except CacheError as error:
        say(f"occupancy, memory bandwidth and misses are not known: {error}")
        return None
    say("occupancy, memory bandwidth and misses are modelled (docs/cache-model.md)")
    # Where DMA's are not known, packets come to as many: a device wrote them, or the engine's core.
    cache = Cache(caches, io.most or IO_WAYS, tree.machine.domain_of)
    return ModelledCounters(cache, record_member, say)


def _release(of: Agent, tree: Tree) -> None:
    released = of.release()
    for sentence in released.problems:
        err.print(sentence, markup=False, style="red")
    if released.problems:
        raise typer.Exit(EXIT_FAILED)
    but = ", but for this:" if released.remarks else ""
    out.print(f"released: {tree.label} is as it was before{but}", markup=False)
    for sentence in released.remarks:
        err.print(sentence, markup=False, style="dim")


def _server(text: str) -> tuple[str, int]:
    kind, colon, number = text.rpartition(":")
    if not colon or not (number.isascii() and number.isdecimal()):
        raise typer.BadParameter("is a kind and a number, as xeon:0", param_hint="SERVER")
    return kind, int(number)


def _see_that_it_is_this_server(info: CacheInfo, io: IoWays, duties: _Duties) -> None:
    """A word where the file says more ways than there are."""
    for cache in info.of_level("L3")[:1]:
        if duties.ways > cache.ways - io.most:
            err.print(
                f"the file says {duties.ways} ways for functions, and this machine has "
                f"{cache.ways - io.most}: promises beyond those cannot be kept",
                markup=False, style="yellow", soft_wrap=True,
            )  # fmt: skip


class _Duties:
    """Read again when the book has changed; the last ones where it cannot be read."""

    def __init__(self, file: Path, book: Path | None, kind: str, number: int) -> None:
        from unis.slo.model import load_cluster

        cluster = load_cluster(file)
        servers = {server.name: server for server in cluster.workload.servers}
        if kind not in servers or number >= servers[kind].count:
            known = ", ".join(f"{of.name}:0 to {of.count - 1}" for of in servers.values())
            raise fail(f"{file} has no server {kind}:{number}; there are {known}")
        self._path = book_of(file, book)
        self._at = kind, number
        self._leased = cluster.leases.get(kind, (0, 0))[1]
        self.ways = servers[kind].ways
        if not self._path.exists():
            raise fail(f"there is no {self._path}: nothing is promised yet (`unis admit`)")
        self._text: str | None = None
        self._now: Duties | None = None

    def now(self) -> Duties:
        """UnisError where the book could never be read."""
        from unis.agent.duties import duties
        from unis.slo.book import Book

        try:
            text = self._path.read_text()
            if self._now is None or text != self._text:
                self._now = duties(Book.model_validate_json(text), *self._at, self._leased)
                self._text = text
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else short(error)
            told = f"{self._path} cannot be read: {why}"
            if self._now is None:
                raise fail(told, EXIT_FAILED) from None
            if self._text != told:
                err.print(f"{told}; what was promised before holds", markup=False, style="red")
                self._text = told
        return self._now


class _Teller:
    """To the terminal, and to the report."""

    def __init__(self, server: str, report: Path | None) -> None:
        self._server = server
        self._report = report

    def __call__(self, event: Event) -> None:
        style = _STYLES.get(event.kind, "")
        out.print(f"{event.kind}: {event.sentence}", markup=False, style=style, soft_wrap=True)
        if self._report:
            line = {"time": round(time.time(), 3), "server": self._server, **asdict(event)}
            try:
                with self._report.open("a") as stream:
                    stream.write(json.dumps(line) + "\n")
            except OSError as error:
                err.print(f"cannot write {self._report}: {error.strerror}", markup=False)


def _print(status: Status, *, modelled: bool) -> None:
    from unis.cli.bench_parts import table_of

    if status.plan is None:
        return
    source = " (modelled)" if modelled else ""
    columns = ["threads", "p95, µs", "Mpps", f"ways used{source}"]
    if status.traffic:
        columns.append(f"MB/s{source}")
    table = table_of("", "promise", columns)
    table.add_column("class")
    for name, place in status.plan.places.items():
        look = status.looks.get(name)
        used, traffic = status.occupied.get(name), status.traffic.get(name)
        last = [place]
        if status.traffic:
            last.insert(0, f"{traffic / 1e6:.3g}" if traffic is not None else "–")
        table.add_row(
            name, str(len(look.threads)) if look else "not running",
            f"{look.p95_us:.0f}" if look and look.p95_us is not None else "–",
            f"{look.mpps:.3g}" if look and look.mpps is not None else "–",
            f"{used:.1f}" if used is not None else "–", *last,
        )  # fmt: skip
    out.print(table)
