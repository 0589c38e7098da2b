"""Counters of an emulated machine from the cache model: all values are MODELLED.

The references of each function are recorded once, in a run under Valgrind. The functions of a class
are then simulated together in the ways of its mask, at the rates last seen (docs/cache-model.md).
Both take seconds, so a worker does them at idle priority; meanwhile reads return known values.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from evaluation.caches.functions import record_function
from evaluation.caches.geometry import Caches
from evaluation.caches.model import ContendedCosts, Neighbour, beside
from evaluation.caches.references import Recorded, RecordingError
from evaluation.emulation.machine import Question
from evaluation.emulation.worker import IdleWorker
from unis.agent.watch import ChainSample, Member, Watch
from unis.chain.load import load
from unis.errors import UnisError
from unis.isolate.state import OCCUPANCY
from unis.isolate.tree import class_of
from unis.runtime.directory import run_directory
from unis.runtime.planning import plan_anywhere

_PACKETS = 50_000  # counted per function, after the warm-up of caches and tables
_SLOWEST = 1 / 8  # lower limit of a rate ÷ the fastest of the class, to limit the time
_CHANGED = 0.2  # relative change of such a rate that starts a new simulation
_RATES_AGAIN = 10  # minimum looks between two simulations of a class for new rates only
_AGAIN = 60  # looks until a failed recording or simulation is tried again
_TO_BE_ASKED = 2  # looks until a group that nobody reads counts as not asked for

_T = TypeVar("_T")
_Name = tuple[str, str]  # run and function
_Class = tuple[str, int]  # control group and cache ID


@dataclass(frozen=True)
class ModelledCache:
    """The caches of the emulated machine."""

    caches: Caches
    io_ways: int  # the highest
    domain_of: Callable[[int], int | None]  # of a CPU, the ID of its last-level cache


@dataclass
class _Seen:
    """A running function, and its recording."""

    member: Member
    mpps: float | None  # of all chains through it; None: not known yet
    recorded: Future[Recorded]
    again: Future[Recorded] | None = None  # the retry of a failed recording
    looks: int = 0
    failed: int = 0  # looks since the failure


@dataclass
class _Simulation:
    """A class: its latest simulation, finished or running, and the known results."""

    neighbours: Mapping[_Name, Neighbour] = field(default_factory=dict)
    running: Future[tuple[ContendedCosts, ...]] | None = None
    stale: bool = False  # the known results are of other functions or ways
    known: Mapping[_Name, ContendedCosts] = field(default_factory=dict)
    looks: int = 0  # since the simulation was started
    failed: bool = False


class ModelledCounters:
    """Counters of an emulated tree.

    `record` records a member, and gets `tell` as its `report`. It and the model run on `worker`,
    by default an IdleWorker.
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
        self._simulations: dict[_Class, _Simulation] = {}
        self._beside: dict[_Name, ContendedCosts] = {}
        self._pending: set[_Name] = set()
        self._moved: dict[tuple[str, int], float] = {}  # bytes, by group since asked
        self._moved_at = clock()

    def read(self, question: Question) -> int | None:
        """Bytes; None: not known yet, or a thread of the group belongs to no known function."""
        group = question.group, question.domain
        self._asked[group] = question
        self._move()
        names = self._names(question)
        threads = {tid for name in names for tid in self._seen[name].member.threads}
        if not question.tasks <= threads or not all(map(self._is_known, names)):
            return None
        if question.event == OCCUPANCY:
            here = [name for name in names if self._runs_in(name, question.domain)]
            return sum(self._beside[name].occupancy() for name in here if name in self._beside)
        return int(self._moved.get(group, 0.0))

    def seen(self, looks: Iterable[ChainSample]) -> None:
        """Takes what runs now and how fast; starts the recordings and simulations that this needs.

        Groups are those that were read since the last call.
        """
        self._move()
        self._see(looks)
        if self._asked:
            self._groups, self._asked = self._asked, {}
        self._simulate()

    def misses_per_packet(self, members: Sequence[Member]) -> float | None:
        """Of all functions of a chain and their ports; None: not known of all functions."""
        found = [self._beside.get(_name(member)) for member in members]
        known = [result for result in found if result is not None]
        complete = known and len(known) == len(found)
        return sum(result.misses + result.port_misses for result in known) if complete else None

    def pending(self, members: Iterable[Member]) -> bool:
        """Whether more will be known of these functions soon."""
        return any(_name(member) in self._pending for member in members)

    def close(self) -> None:
        """Ends the running recording or simulation."""
        self._worker.shutdown(cancel_futures=True)

    # ------------------------------------------------------------------ functions

    def _see(self, looks: Iterable[ChainSample]) -> None:
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
            earlier = before.get(name)
            if earlier and earlier.member.threads & member.threads:
                self._seen[name] = replace(
                    earlier, member=member, mpps=rates[name], looks=earlier.looks + 1
                )
                self._try_again(self._seen[name])
            else:  # another process may run another program
                recorded = self._submit(member)
                self._seen[name] = _Seen(member, rates[name], recorded)
        for name, gone in before.items():
            if name not in self._seen or self._seen[name].looks == 0:  # ended or replaced
                for future in (gone.recorded, gone.again):
                    _cancel(future)

    def _submit(self, member: Member) -> Future[Recorded]:
        return self._worker.submit(self._record, member, report=self._tell)

    def _try_again(self, function: _Seen) -> None:
        if function.again and function.again.done():
            function.recorded, function.again, function.failed = function.again, None, 0
        if function.again is None and _worth_retry(function.recorded):
            function.failed += 1
            if function.failed >= _AGAIN:
                function.again = self._submit(function.member)

    def _names(self, question: Question) -> list[_Name]:
        return [
            name
            for name, function in self._seen.items()
            if function.member.threads & question.tasks
        ]

    def _runs_in(self, name: _Name, domain: int) -> bool:
        return self._cache.domain_of(self._seen[name].member.cpu) == domain

    def _is_known(self, name: _Name) -> bool:
        return name in self._beside or self._seen[name].mpps == 0

    def _recorded(self, name: _Name) -> Recorded | None:
        """The recording; None: not ready. RecordingError: impossible."""
        recorded = self._seen[name].recorded
        try:
            return _result(recorded) if recorded.done() else None
        except UnisError as error:
            raise RecordingError(
                f"{'.'.join(name)} and the functions that share its ways cannot be modelled: "
                f"{error}"
            ) from None

    # ------------------------------------------------------------------ classes

    def _simulate(self) -> None:
        """Takes finished simulations, and starts the needed ones."""
        masks: dict[_Class, int] = {}
        names: dict[_Class, set[_Name]] = {}
        for (group, domain), question in self._groups.items():
            class_id = class_of(group), domain
            masks[class_id] = question.mask
            here = {name for name in self._names(question) if self._runs_in(name, domain)}
            names.setdefault(class_id, set()).update(here)
        for class_id in {*self._simulations} - {*masks}:
            _cancel(self._simulations.pop(class_id).running)
        self._simulations = {
            class_id: self._simulations.get(class_id, _Simulation()) for class_id in masks
        }
        asked = {name for members in names.values() for name in members}
        self._pending = {
            name for name, function in self._seen.items()
            if name not in asked and function.looks < _TO_BE_ASKED
        }  # fmt: skip
        self._beside = {name: result for name, result in self._beside.items() if name in self._seen}
        for class_id, simulation in self._simulations.items():
            members = names[class_id]
            try:
                pending = self._is_pending(simulation, members, masks[class_id])
            except UnisError as error:
                self._tell_once(str(error))
                simulation.known, pending = {}, False
            for name in members:
                if name in simulation.known:
                    self._beside[name] = simulation.known[name]
                elif not pending:
                    self._beside.pop(name, None)
            self._pending |= members if pending else set()

    def _is_pending(self, simulation: _Simulation, names: set[_Name], mask: int) -> bool:
        """Whether the known results are of other functions or ways. UnisError: none will come."""
        wanted = self._neighbours(names, mask)
        if wanted is None:
            return True
        simulation.looks += 1
        alike = _alike(wanted, simulation.neighbours)
        if not alike and _cancel(simulation.running):
            simulation.running, simulation.neighbours = None, {}
            alike = not wanted
        if simulation.running and not simulation.running.done():
            return simulation.stale or not alike
        if simulation.running:
            running, simulation.running, simulation.failed = simulation.running, None, True
            found = _result(running)
            simulation.known = dict(zip(simulation.neighbours, found, strict=True))
            simulation.failed = False
        if not wanted or (alike and not self._is_due(simulation, wanted)):
            return False
        cache = self._cache
        simulation.neighbours, simulation.stale, simulation.looks = wanted, not alike, 0
        simulation.running = self._worker.submit(
            beside, [*wanted.values()], cache.caches, io_ways=cache.io_ways, packets=_PACKETS
        )
        return simulation.stale

    def _is_due(self, simulation: _Simulation, wanted: Mapping[_Name, Neighbour]) -> bool:
        """Whether the same functions in the same ways are simulated again."""
        if simulation.failed:
            return simulation.looks >= _AGAIN
        return simulation.looks >= _RATES_AGAIN and not _as_fast(wanted, simulation.neighbours)

    def _neighbours(self, names: set[_Name], mask: int) -> dict[_Name, Neighbour] | None:
        """The functions of a class that pass packets, at rates ÷ that of the fastest.

        None: not known yet. RecordingError: a function cannot be recorded.
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
        """Adds the memory traffic since the last call, at the rates of that time."""
        now = self._clock()
        microseconds, self._moved_at = (now - self._moved_at) * 1e6, now
        for group, question in self._groups.items():
            for name in self._names(question):
                result = self._beside.get(name)
                if result and self._runs_in(name, question.domain):
                    packets = microseconds * (self._seen[name].mpps or 0.0)
                    moved = self._moved.get(group, 0.0)
                    self._moved[group] = moved + packets * result.memory_bytes_per_packet()

    def _tell_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._tell(sentence)


class ModelledWatch:
    """A watch that adds the model's misses if the hardware counts none."""

    def __init__(self, watch: Watch, counters: ModelledCounters) -> None:
        self._watch = watch
        self._counters = counters

    def sample(self, chains: Mapping[str, str]) -> Mapping[str, ChainSample]:
        """The samples of the inner watch, with the results of the model."""
        samples = self._watch.sample(chains)
        self._counters.seen(samples.values())
        return {name: self._with_misses(sample) for name, sample in samples.items()}

    def _with_misses(self, sample: ChainSample) -> ChainSample:
        misses = sample.misses_per_packet
        if misses is None:
            misses = self._counters.misses_per_packet(sample.members)
        pending = self._counters.pending(sample.members)
        return replace(sample, misses_per_packet=misses, pending=pending)


def record_member(member: Member, report: Callable[[str], None] = lambda _: None) -> Recorded:
    """Records a function as its run's chain file has it. UnisError if that is impossible."""
    state = run_directory(member.run).read()
    if state is None:
        raise RecordingError(f"run `{member.run}` has ended")
    if state.attached:
        raise RecordingError(
            "the model records only functions that UNiS started, not attached ones"
        )
    plan = plan_anywhere(load(Path(state.chain_file), state.name))
    function = next(
        (planned for planned in plan.functions if planned.name == member.function), None
    )
    if function is None:
        raise RecordingError(f"{state.chain_file} no longer has function {member.function}")
    return record_function(plan, function, report)


def _name(member: Member) -> _Name:
    return member.run, member.function


def _result(future: Future[_T]) -> _T:
    """The result; any error is a UnisError."""
    try:
        return future.result()
    except UnisError:
        raise
    except Exception as error:
        raise RecordingError(f"{type(error).__name__}: {error}", bad_input=False) from error


def _worth_retry(future: Future[Recorded]) -> bool:
    """Whether it failed for a reason that a retry may not meet."""
    error = future.exception() if future.done() else None
    return error is not None and not (isinstance(error, UnisError) and error.bad_input)


def _cancel(future: Future[Any] | None) -> bool:
    """Cancels; returns whether it will never run."""
    return future is not None and future.cancel()


def _alike(wanted: Mapping[_Name, Neighbour], earlier: Mapping[_Name, Neighbour]) -> bool:
    return wanted.keys() == earlier.keys() and all(
        (neighbour.recorded, neighbour.mask) == (earlier[name].recorded, earlier[name].mask)
        for name, neighbour in wanted.items()
    )


def _as_fast(wanted: Mapping[_Name, Neighbour], earlier: Mapping[_Name, Neighbour]) -> bool:
    return all(
        abs(neighbour.mpps / earlier[name].mpps - 1) <= _CHANGED
        for name, neighbour in wanted.items()
    )
