"""`unis agent`: keeps what a cluster's book promises on this server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.cache_command import EmulatedOption
from unis.cli.cluster_files import BookOption, FileArgument, book_of, short
from unis.cli.terminal import fail, moved, out, print_line, say, table_of, warn, writable
from unis.errors import EXIT_FAILED

if TYPE_CHECKING:
    from unis.agent.agent import Agent, AgentEvent, Status
    from unis.agent.duties import Duties
    from unis.agent.watch import RunWatch, Watch
    from unis.isolate.hardware import IoWays
    from unis.isolate.info import CacheInfo
    from unis.isolate.tree import Tree

_STYLES = {"broken": "yellow", "more-instances": "yellow", "failed": "red", "kept": "green"}


ServerArgument = Annotated[
    str, typer.Argument(metavar="SERVER", help="This server: its kind and number, as in `xeon:0`.")
]
IntervalOption = Annotated[
    float, typer.Option(min=0.05, max=3600, help="Seconds between two checks.")
]
LooksOption = Annotated[
    int | None, typer.Option(min=1, help="Number of checks. Default: check until Ctrl-C.")
]
ReportOption = Annotated[
    Path | None, typer.Option(help="Append events to this file, one JSON object per line.")
]
ReleaseOption = Annotated[
    bool, typer.Option("--release", help="Remove the agent's resctrl groups, then exit.")
]


@dataclass(frozen=True)
class Site:
    """The caches that an agent divides, and who counts what functions have in them."""

    tree: Tree
    io: IoWays
    watch: Callable[[RunWatch], Watch] = lambda runs: runs
    close: Callable[[], None] = lambda: None
    modelled: bool = False  # no hardware counts


def agent(
    cluster: FileArgument,
    server: ServerArgument,
    book: BookOption = None,
    interval: IntervalOption = 1,
    looks: LooksOption = None,
    report: ReportOption = None,
    emulated: EmulatedOption = False,
    release: ReleaseOption = False,
) -> None:
    """Keep the promises of this server: divide the last-level cache, and watch the latency.

    Reads the promises of SERVER from CLUSTER's book (`unis admit`), again whenever the book
    changes. A reserved promise gets a resctrl group with its ways. Promises on demand share the
    ways that are leased for them; if one of them misses its latency, the agent divides these ways
    max-min fairly (ResQ, section 5.3.1). It reports what cannot be kept and needs another
    instance, which `unis cluster reconcile` places. The promise RUN.CHAIN is about that chain of a
    run on this machine.

    Groups stay when the agent ends or is killed, and the next agent takes them over. --release
    removes them. Needs root, and a CPU with cache allocation whose resctrl is mounted (see `unis
    doctor`).

    Example: unis agent examples/slo/cluster.yaml xeon:0
    """
    if emulated:
        raise moved("unis agent --emulated", "agent")
    keep(cluster, server, book, interval, looks, report, _this_machine, "agent", release=release)


def _this_machine(*, counting: bool) -> Site:  # noqa: ARG001
    """Its caches, whose hardware counts in any case."""
    from unis.isolate.hardware import detect
    from unis.isolate.tree import kernel_tree

    return Site(kernel_tree(), detect().io)


def keep(
    cluster: Path,
    server: str,
    book: Path | None,
    interval: float,
    looks: int | None,
    report: Path | None,
    site_of: Callable[..., Site],
    folder: str,
    *,
    release: bool,
) -> None:
    """What the agent does. `site_of` (`counting`: whether counters are needed) says on what; the
    agent's notes are in the `folder` of that name.
    """
    from unis.agent.agent import Agent
    from unis.agent.notes import NotesFile
    from unis.agent.watch import RunWatch
    from unis.isolate.info import read_info
    from unis.runtime.directory import agent_folder
    from unis.runtime.errors import InterruptedRunError
    from unis.runtime.files import locked
    from unis.runtime.interrupts import interrupts

    kind, number = _server(server)
    duties = _DutiesReader(cluster, book, kind, number)
    if report:
        writable(report).touch()
    place = agent_folder(folder)
    with locked(place, os.O_RDONLY, seconds=0), interrupts() as switch:
        notes = NotesFile(place)
        if (before := notes.read().server) not in ("", server):
            raise fail(
                f"classes of {before} are still set on this machine; remove them with the same "
                f"command for {before} and --release", EXIT_FAILED,
            )  # fmt: skip
        teller = _Teller(server, report)
        runs = RunWatch()
        site = site_of(counting=not release)
        tree, io = site.tree, site.io
        keeper = Agent(tree, site.watch(runs), notes, io, teller, server=server)
        if release:
            _release(keeper, tree)
            return
        say(f"{tree.label}: no effect on hardware" if tree.emulated else tree.label)
        say(f"{io.told}; {server} has {len(duties.now().p95_us)} promises")
        _see_that_it_is_this_server(read_info(tree), io, duties)
        status = None
        count = 0
        try:
            while count != looks:
                if count:
                    time.sleep(interval)
                with switch.deferred():  # what is begun is done
                    status = keeper.tick(duties.now())
                count += 1
        except InterruptedRunError:
            pass  # classes stay
        finally:
            switch.armed = False  # what it has come to is told
            runs.close()
            site.close()
    if status:
        _print(status, modelled=site.modelled)
    if status and status.problem:
        raise typer.Exit(EXIT_FAILED)


def _release(agent: Agent, tree: Tree) -> None:
    released = agent.release()
    for sentence in released.problems:
        warn(sentence)
    if released.problems:
        raise typer.Exit(EXIT_FAILED)
    but = ", but for this:" if released.remarks else ""
    print_line(f"released: {tree.label} is as it was before{but}")
    for sentence in released.remarks:
        warn(sentence, "dim")


def _server(text: str) -> tuple[str, int]:
    kind, colon, number = text.rpartition(":")
    if not colon or not (number.isascii() and number.isdecimal()):
        raise typer.BadParameter("is a kind and a number, as xeon:0", param_hint="SERVER")
    return kind, int(number)


def _see_that_it_is_this_server(info: CacheInfo, io: IoWays, duties: _DutiesReader) -> None:
    """A word where the file says more ways than there are."""
    for cache in info.of_level("L3")[:1]:
        if duties.ways > cache.ways - io.most:
            warn(
                f"the file says {duties.ways} ways for functions, and this machine has "
                f"{cache.ways - io.most}: promises beyond those cannot be kept",
                "yellow",
            )


class _DutiesReader:
    """Read again when the book has changed; the last ones where it cannot be read."""

    def __init__(self, file: Path, book: Path | None, kind: str, number: int) -> None:
        from unis.slo.model import load_cluster

        cluster = load_cluster(file)
        servers = {server.name: server for server in cluster.workload.servers}
        if kind not in servers or number >= servers[kind].count:
            known = ", ".join(f"{kind.name}:0 to {kind.count - 1}" for kind in servers.values())
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
                warn(f"{told}; what was promised before holds")
                self._text = told
        return self._now


class _Teller:
    """To the terminal, and to the report."""

    def __init__(self, server: str, report: Path | None) -> None:
        self._server = server
        self._report = report

    def __call__(self, event: AgentEvent) -> None:
        style = _STYLES.get(event.kind, "")
        print_line(f"{event.kind}: {event.sentence}", style)
        if self._report:
            line = {"time": round(time.time(), 3), "server": self._server, **asdict(event)}
            try:
                with self._report.open("a") as stream:
                    stream.write(json.dumps(line) + "\n")
            except OSError as error:
                warn(f"cannot write {self._report}: {error.strerror}", "")


def _print(status: Status, *, modelled: bool) -> None:

    if status.plan is None:
        return
    source = " (modelled)" if modelled else ""
    columns = ["threads", "p95, µs", "Mpps", f"ways used{source}"]
    if status.traffic:
        columns.append(f"MB/s{source}")
    table = table_of("", "promise", columns, ("class",))
    for name, place in status.plan.places.items():
        sample = status.samples.get(name)
        used, traffic = status.occupied.get(name), status.traffic.get(name)
        last = [place]
        if status.traffic:
            last.insert(0, f"{traffic / 1e6:.3g}" if traffic is not None else "–")
        table.add_row(
            name, str(len(sample.threads)) if sample else "not running",
            f"{sample.p95_us:.0f}" if sample and sample.p95_us is not None else "–",
            f"{sample.mpps:.3g}" if sample and sample.mpps is not None else "–",
            f"{used:.1f}" if used is not None else "–", *last,
        )  # fmt: skip
    out.print(table)
