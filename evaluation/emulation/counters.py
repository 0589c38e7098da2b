"""What functions do to the cache of an emulated machine: of the cache model, all of it MODELLED.

Each function's references are recorded once, in a run of its own under Valgrind, and those of a
class are played side by side in the ways of its mask, at the rates last seen
(docs/cache-model.md). Both take seconds, and a worker does them, at idle priority: what is known
is answered meanwhile.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from evaluation.emulation.machine import Question
from evaluation.emulation.worker import IdleWorker
from unis.agent.watch import ChainLook, Member, Watch
from unis.chain.load import load
from unis.errors import UnisError
from unis.isolate.state import OCCUPANCY
from unis.isolate.tree import class_of
from unis.profile.cache_model import Beside, Neighbour, beside
from unis.profile.machine_caches import Caches
from unis.profile.modelled import record_function
from unis.profile.references import Recorded, RecordingError
from unis.runtime.directory import run_directory
from unis.runtime.planning import plan_anywhere

_PACKETS = 50_000  # counted of each, behind those that fill caches and tables
_SLOWEST = 1 / 8  # of the fastest of a class: who is slower is played so, for else it takes long
_CHANGED = 0.2  # of a rate beside the fastest, from which on it is played again
_RATES_AGAIN = 10  # looks between two plays of a class for nothing but its rates
_AGAIN = 60  # looks after which what has failed is tried again, where that may help
_TO_BE_ASKED = 2  # looks before one can tell that nobody asks about a function's group

_T = TypeVar("_T")
_Name = tuple[str, str]  # run and function
_Class = tuple[str, int]  # control group and cache ID


@dataclass(frozen=True)
class ModelledCache:
    """Of the emulated machine."""

    caches: Caches
    io_ways: int  # the highest
    domain_of: Callable[[int], int | None]  # of a CPU, the ID of its last-level cache


@dataclass
class _Seen:
    """A function that runs, and its recording."""

    member: Member
    mpps: float | None  # of all chains through it; None: looked at for the first time
    recorded: Future[Recorded]
    again: Future[Recorded] | None = None  # after that failed
    looks: int = 0
    failed: int = 0  # looks since it did


@dataclass
class _Played:
    """A class: what was played last, or is being played, and what came of the one before."""

    neighbours: Mapping[_Name, Neighbour] = field(default_factory=dict)
    running: Future[tuple[Beside, ...]] | None = None
    stale: bool = False  # meanwhile: what is known is not of the same functions in the same ways
    known: Mapping[_Name, Beside] = field(default_factory=dict)
    looks: int = 0  # since it was last begun
    failed: bool = False


class ModelledCounters:
    """Counters of an emulated tree. `record` and the model run on `worker`, by default a process
    of its own. `record` is given a member, and as `report` whom to tell what it does.
    """

    def __init__(
        self,
        cache: ModelledCache,
        record: Callable[..., Recorded],
        tell: Callable[[str], None],
        worker: Executor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._record = record
        self._tell = tell
        self._worker = worker or IdleWorker()
        self._clock = clock
        self._told: set[str] = set()
        self._seen: dict[_Name, _Seen] = {}
        self._asked: dict[tuple[str, int], Question] = {}  # since the last look, by group
        self._groups: dict[tuple[str, int], Question] = {}  # before it
        self._played: dict[_Class, _Played] = {}
        self._beside: dict[_Name, Beside] = {}
        self._pending: set[_Name] = set()
        self._moved: dict[tuple[str, int], float] = {}  # bytes, by group since asked
        self._moved_at = clock()

    def read(self, question: Question) -> int | None:
        """Bytes; None: a thread of the group is of no function that is seen, or not known yet."""
        group = question.group, question.domain
        self._asked[group] = question
        self._move()
        names = self._names(question)
        threads = {tid for name in names for tid in self._seen[name].member.threads}
        if not question.tasks <= threads or not all(map(self._is_known, names)):
            return None
        if question.event == OCCUPANCY:
            there = [name for name in names if self._is_in(name, question.domain)]
            return sum(self._beside[name].occupancy() for name in there if name in self._beside)
        return int(self._moved.get(group, 0.0))

    def seen(self, looks: Iterable[ChainLook]) -> None:
        """What runs now and how fast; what has changed by it is recorded and played.

        Groups are those that were asked about since the last time.
        """
        self._move()
        self._see(looks)
        if self._asked:
            self._groups, self._asked = self._asked, {}
        self._play()

    def misses_per_packet(self, members: Sequence[Member]) -> float | None:
        """Of the functions of a chain together, and of their ports; None: not of all known."""
        found = [self._beside.get(_name(of)) for of in members]
        known = [of for of in found if of is not None]
        whole = known and len(known) == len(found)
        return sum(of.misses + of.port_misses for of in known) if whole else None

    def pending(self, members: Iterable[Member]) -> bool:
        """Whether more will be known of them soon."""
        return any(_name(of) in self._pending for of in members)

    def close(self) -> None:
        """What is being recorded or played is ended."""
        self._worker.shutdown(cancel_futures=True)

    # ------------------------------------------------------------------ functions

    def _see(self, looks: Iterable[ChainLook]) -> None:
        members: dict[_Name, Member] = {}
        rates: dict[_Name, float | None] = {}
        for look in looks:
            for member in look.members:
                if not member.threads:  # it has ended
                    continue
                name = _name(member)
                known = rates.get(name, 0.0)
                members[name] = member
                rates[name] = None if known is None or look.mpps is None else known + look.mpps
        before, self._seen = self._seen, {}
        for name, member in members.items():
            there = before.get(name)
            if there and there.member.threads & member.threads:
                self._seen[name] = replace(
                    there, member=member, mpps=rates[name], looks=there.looks + 1
                )
                self._try_again(self._seen[name])
            else:  # another process may be of another program
                recorded = self._submit(member)
                self._seen[name] = _Seen(member, rates[name], recorded)
        for name, of in before.items():
            if name not in self._seen or self._seen[name].looks == 0:  # gone, or another process
                for future in (of.recorded, of.again):
                    _cancel(future)

    def _submit(self, member: Member) -> Future[Recorded]:
        return self._worker.submit(self._record, member, report=self._tell)

    def _try_again(self, of: _Seen) -> None:
        if of.again and of.again.done():
            of.recorded, of.again, of.failed = of.again, None, 0
        if of.again is None and _may_yet(of.recorded):
            of.failed += 1
            if of.failed >= _AGAIN:
                of.again = self._submit(of.member)

    def _names(self, question: Question) -> list[_Name]:
        return [name for name, of in self._seen.items() if of.member.threads & question.tasks]

    def _is_in(self, name: _Name, domain: int) -> bool:
        return self._cache.domain_of(self._seen[name].member.cpu) == domain

    def _is_known(self, name: _Name) -> bool:
        return name in self._beside or self._seen[name].mpps == 0

    def _recorded(self, name: _Name) -> Recorded | None:
        """None: not yet. RecordingError: it cannot be."""
        recorded = self._seen[name].recorded
        try:
            return _result(recorded) if recorded.done() else None
        except UnisError as error:
            raise RecordingError(
                f"{'.'.join(name)} cannot be modelled, nor what shares ways with it: {error}"
            ) from None

    # ------------------------------------------------------------------ classes

    def _play(self) -> None:
        """Takes what has ended, and begins what is needed."""
        masks: dict[_Class, int] = {}
        names: dict[_Class, set[_Name]] = {}
        for (group, domain), question in self._groups.items():
            of_class = class_of(group), domain
            masks[of_class] = question.mask
            here = {name for name in self._names(question) if self._is_in(name, domain)}
            names.setdefault(of_class, set()).update(here)
        for of_class in {*self._played} - {*masks}:
            _cancel(self._played.pop(of_class).running)
        self._played = {of_class: self._played.get(of_class, _Played()) for of_class in masks}
        asked = {name for there in names.values() for name in there}
        self._pending = {
            name for name, of in self._seen.items()
            if name not in asked and of.looks < _TO_BE_ASKED
        }  # fmt: skip
        self._beside = {name: of for name, of in self._beside.items() if name in self._seen}
        for of_class, played in self._played.items():
            there = names[of_class]
            try:
                pending = self._is_pending(played, there, masks[of_class])
            except UnisError as error:
                self._say(str(error))
                played.known, pending = {}, False
            for name in there:
                if name in played.known:
                    self._beside[name] = played.known[name]
                elif not pending:
                    self._beside.pop(name, None)
            self._pending |= there if pending else set()

    def _is_pending(self, played: _Played, names: set[_Name], mask: int) -> bool:
        """Whether what is known is of other functions or ways. UnisError: it will not be known."""
        wanted = self._neighbours(names, mask)
        if wanted is None:
            return True
        played.looks += 1
        alike = _alike(wanted, played.neighbours)
        if not alike and _cancel(played.running):
            played.running, played.neighbours = None, {}
            alike = not wanted
        if played.running and not played.running.done():
            return played.stale or not alike
        if played.running:
            running, played.running, played.failed = played.running, None, True
            found = _result(running)
            played.known = dict(zip(played.neighbours, found, strict=True))
            played.failed = False
        if not wanted or (alike and not self._is_due(played, wanted)):
            return False
        of = self._cache
        played.neighbours, played.stale, played.looks = wanted, not alike, 0
        played.running = self._worker.submit(
            beside, [*wanted.values()], of.caches, io_ways=of.io_ways, packets=_PACKETS
        )
        return played.stale

    def _is_due(self, played: _Played, wanted: Mapping[_Name, Neighbour]) -> bool:
        """Whether the same functions in the same ways are played again."""
        if played.failed:
            return played.looks >= _AGAIN
        return played.looks >= _RATES_AGAIN and not _as_fast(wanted, played.neighbours)

    def _neighbours(self, names: set[_Name], mask: int) -> dict[_Name, Neighbour] | None:
        """Those of a class that pass packets, at rates beside that of the fastest.

        None: not known yet. RecordingError: one cannot be recorded.
        """
        found: dict[_Name, tuple[Recorded, float]] = {}
        waits = False
        for name in sorted(names):
            recorded, mpps = self._recorded(name), self._seen[name].mpps
            if recorded is None or mpps is None:
                waits = True
            elif mpps > 0:
                found[name] = recorded, mpps
        fastest = max((mpps for _, mpps in found.values()), default=1.0)
        neighbours = {
            name: Neighbour(recorded, max(_SLOWEST, mpps / fastest), mask)
            for name, (recorded, mpps) in found.items()
        }
        return None if waits else neighbours

    def _move(self) -> None:
        """Counts what went to and from memory since the last time, at the rates seen then."""
        now = self._clock()
        microseconds, self._moved_at = (now - self._moved_at) * 1e6, now
        for group, question in self._groups.items():
            for name in self._names(question):
                of = self._beside.get(name)
                if of and self._is_in(name, question.domain):
                    packets = microseconds * (self._seen[name].mpps or 0.0)
                    moved = self._moved.get(group, 0.0)
                    self._moved[group] = moved + packets * of.memory_bytes_per_packet()

    def _say(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._tell(sentence)


class ModelledWatch:
    """A watch whose looks have the model's misses where hardware counts none."""

    def __init__(self, watch: Watch, counters: ModelledCounters) -> None:
        self._watch = watch
        self._counters = counters

    def look(self, chains: Mapping[str, str]) -> Mapping[str, ChainLook]:
        """As the watch beneath, and what the model knows by now."""
        looks = self._watch.look(chains)
        self._counters.seen(looks.values())
        return {name: self._with_misses(look) for name, look in looks.items()}

    def _with_misses(self, look: ChainLook) -> ChainLook:
        misses = look.misses_per_packet
        if misses is None:
            misses = self._counters.misses_per_packet(look.members)
        pending = self._counters.pending(look.members)
        return replace(look, misses_per_packet=misses, pending=pending)


def record_member(member: Member, report: Callable[[str], None] = lambda _: None) -> Recorded:
    """As its run's chain file has it; that it has to be is reported. UnisError where it cannot."""
    state = run_directory(member.run).read()
    if state is None:
        raise RecordingError(f"run `{member.run}` has ended")
    if state.attached:
        raise RecordingError("the model records functions that UNiS starts, not those attached to")
    plan = plan_anywhere(load(Path(state.chain_file), state.name))
    function = next((of for of in plan.functions if of.name == member.function), None)
    if function is None:
        raise RecordingError(f"{state.chain_file} has no function {member.function} any more")
    return record_function(plan, function, report)


def _name(member: Member) -> _Name:
    return member.run, member.function


def _result(future: Future[_T]) -> _T:
    """UnisError whatever went wrong."""
    try:
        return future.result()
    except UnisError:
        raise
    except Exception as error:
        raise RecordingError(f"{type(error).__name__}: {error}", bad_input=False) from error


def _may_yet(future: Future[Recorded]) -> bool:
    """Whether it failed of what may be otherwise next time."""
    error = future.exception() if future.done() else None
    return error is not None and not (isinstance(error, UnisError) and error.bad_input)


def _cancel(future: Future[Any] | None) -> bool:
    """Whether it will never be begun."""
    return future is not None and future.cancel()


def _alike(wanted: Mapping[_Name, Neighbour], played: Mapping[_Name, Neighbour]) -> bool:
    return wanted.keys() == played.keys() and all(
        (of.recorded, of.mask) == (played[name].recorded, played[name].mask)
        for name, of in wanted.items()
    )


def _as_fast(wanted: Mapping[_Name, Neighbour], played: Mapping[_Name, Neighbour]) -> bool:
    return all(abs(of.mpps / played[name].mpps - 1) <= _CHANGED for name, of in wanted.items())
