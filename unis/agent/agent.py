"""The agent of one server (ResQ, section 5.3.1): applies classes, watches, divides, tells.

Each `tick` brings the tree to what is wanted, whatever happened to it, so a write that was refused,
a group that vanished, or an agent that was killed is mended by the next. What must survive is
written before it is acted on. Classes stay when the agent ends; `release` takes them away.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from unis.agent.duties import Duties
from unis.agent.fair import Observation, WayShares, divided, undivided
from unis.agent.notes import Notes, NotesFile, OnDemandState, Standing
from unis.agent.watch import ChainSample, Watch
from unis.errors import UnisError
from unis.isolate.apply import apply, undo, vanished
from unis.isolate.hardware import IoWays
from unis.isolate.info import CacheInfo, read_info
from unis.isolate.masks import mask_of
from unis.isolate.plan import CachePlan, other_classes, plan
from unis.isolate.request import GROUP_PREFIX, CacheRequest
from unis.isolate.schemata import Schemata
from unis.isolate.state import (
    OCCUPANCY,
    TRAFFIC,
    Counts,
    Record,
    foreign_groups,
    read_counts,
    read_group,
)
from unis.isolate.tree import Tree, TreeError, control_groups

ON_DEMAND = "on-demand"  # the class of those who share


@dataclass(frozen=True)
class AgentSettings:
    """How patient it is."""

    settle: int = 3  # looks after a division before it is judged
    wait: int = 60  # looks for what is not known yet; then it goes by what is
    patience: int = 3  # looks in a row with which a promise is broken, or kept again
    lost: float = 0.02  # of the packets that came, from which on less than promised is too little
    much: float = 0.5  # misses of the last-level cache by packet from which on more cache may help


@dataclass(frozen=True)
class AgentEvent:
    """Something to be told."""

    kind: str  # broken, kept, more-instances, failed, mended, divided, note
    promise: str  # empty: the server's
    sentence: str


@dataclass(frozen=True)
class Status:
    """After a tick."""

    plan: CachePlan | None  # that holds now; None: it could not be brought about
    samples: Mapping[str, ChainSample]
    occupied: Mapping[str, float]  # ways, of those whose occupancy is counted
    problem: str = ""
    traffic: Mapping[str, float] = field(default_factory=dict)  # with memory, bytes/s; likewise


@dataclass(frozen=True)
class Released:
    """How classes were taken away, in sentences."""

    problems: list[str]  # what could not be
    remarks: list[str]  # what was otherwise before the agent, and somebody else has changed


class Agent:
    """Of one server."""

    def __init__(
        self,
        tree: Tree,
        watch: Watch,
        notes: NotesFile,
        io: IoWays,
        tell: Callable[[AgentEvent], None],
        settings: AgentSettings | None = None,
        server: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tree = tree
        self._watch = watch
        self._file = notes
        self._notes = replace(notes.read(), server=server)
        self._io = io
        self._tell = tell
        self._settings = settings or AgentSettings()
        self._problem = ""
        self._plan: CachePlan | None = None
        self._waited = 0  # looks
        self._clock = clock
        self._moved: tuple[float, dict[tuple[str, str], int]] = clock(), {}  # seconds, bytes

    def tick(self, duties: Duties) -> Status:
        """Looks, divides, applies. What the tree refuses is told, and tried again by the next."""
        samples = self._watch.sample(duties.chains)
        occupied: dict[str, float] = {}
        traffic: dict[str, float] = {}
        plan_now: CachePlan | None = None
        problem = ""
        try:
            info = read_info(self._tree)
            if self._plan:
                occupied = self._occupied(info, self._plan)
                traffic = self._traffic(info, self._plan)
            self._check_promises(duties, samples)
            self._divide(duties, samples, occupied, self._classes_left(info, duties))
            plan_now = self._apply(duties, info, samples)
            for note in plan_now.notes:
                if self._plan is None or note not in self._plan.notes:
                    self._tell(AgentEvent("note", "", note))
        except UnisError as error:
            problem = str(error)
        if problem != self._problem:
            mended = AgentEvent("mended", "", "classes are as they should be again")
            self._tell(AgentEvent("failed", "", problem) if problem else mended)
        self._problem = problem
        self._plan = plan_now or self._plan
        return Status(plan_now, samples, occupied, problem, traffic)

    def release(self) -> Released:
        """Takes all classes away, as if it had never been."""
        record = self._notes.record
        problems = undo(self._tree, record) if record else []
        remarks = [
            f"the group {name} was there before the agent, and somebody has removed it since"
            for name in (vanished(self._tree, record) if record and not problems else [])
        ]
        if not problems:
            self._keep(Notes())
        return Released(problems, remarks)

    # ------------------------------------------------------------------ watching

    def _check_promises(self, duties: Duties, samples: Mapping[str, ChainSample]) -> None:
        """Which promises are broken, and for how many looks in a row."""
        standings = dict(self._notes.standing)
        for name, p95_us in duties.p95_us.items():
            sample = samples.get(name)
            if sample is None or (sample.p95_us is None and sample.lost <= self._settings.lost):
                continue  # no packet came: nothing is broken, nor mended
            reserved = duties.reserved.get(name)
            short = bool(
                reserved
                and reserved.mpps
                and sample.lost > self._settings.lost
                and (sample.mpps or 0.0) < reserved.mpps
            )
            bad = short or sample.p95_us is None or sample.p95_us > p95_us
            was = standings.get(name, Standing())
            now = was.after(bad=bad, patience=self._settings.patience)
            standings[name] = now
            if now.broken and not was.broken:
                self._tell(AgentEvent("broken", name, _broken(name, sample, p95_us, short=short)))
            elif was.broken and not now.broken:
                self._tell(AgentEvent("kept", name, f"{name} is kept again"))
        left = {
            name: standing
            for name, standing in standings.items()
            if name in duties.p95_us and standing.matters
        }
        self._keep(replace(self._notes, standing=left))

    def _is_broken(self, name: str) -> bool:
        return self._notes.standing.get(name, Standing()).broken

    def _occupied(self, info: CacheInfo, plan: CachePlan) -> dict[str, float]:
        """Ways of the last-level cache, by function; none where it is not counted."""
        caches = info.of_level("L3")
        way_bytes = caches[0].way_bytes if caches else {}
        found: dict[str, float] = {}
        for name, sizes in self._counted(info, plan, OCCUPANCY).items():
            known = [
                (size, way_bytes[domain]) for domain, size in sizes.items() if way_bytes.get(domain)
            ]
            held = [size / way for size, way in known if size is not None]
            if held and len(held) == len(known):
                found[name] = max(held)
        return found

    def _traffic(self, info: CacheInfo, plan: CachePlan) -> dict[str, float]:
        """Bytes a second to and from memory since the last sample, by function, where counted."""
        moved = {
            (name, plan.places[name]): sum(size or 0 for size in sizes.values())
            for name, sizes in self._counted(info, plan, TRAFFIC).items()
            if sizes and None not in sizes.values()
        }
        (then, before), self._moved = self._moved, (self._clock(), moved)
        seconds = self._moved[0] - then
        return {
            key[0]: (count - before[key]) / seconds
            for key, count in moved.items()
            if seconds > 0 and count >= before.get(key, math.inf)  # else it counts anew
        }

    def _counted(self, info: CacheInfo, plan: CachePlan, event: str) -> dict[str, Counts]:
        found: dict[str, Counts] = {}
        for name, place in plan.places.items():
            if place:
                with contextlib.suppress(TreeError):  # gone
                    found[name] = read_counts(self._tree, info, place, event)
        return found

    # ------------------------------------------------------------------ dividing

    def _divide(
        self,
        duties: Duties,
        samples: Mapping[str, ChainSample],
        occupied: Mapping[str, float],
        classes: int,
    ) -> None:
        state = self._notes.on_demand
        told = tuple(name for name in state.told if self._is_broken(name))
        state = replace(state, looks=state.looks + 1, told=told)
        broken = [name for name in sorted(duties.on_demand) if self._is_broken(name)]
        fresh = [name for name in broken if name not in told]
        pending = any(samples[name].pending for name in _deciding(state, fresh) if name in samples)
        self._waited = self._waited + 1 if pending else 0
        pending = pending and self._waited <= self._settings.wait
        settled = state.looks >= self._settings.settle and not pending
        ways = duties.leased_ways if duties.on_demand else 0
        before = state.shares
        if (
            before.members != frozenset(duties.on_demand)
            or before.ways != ways
            or len(before.classes) > classes  # others have come to need some
            or (settled and state.done and fresh)
        ):
            state = OnDemandState(undivided([*duties.on_demand], ways), told=told)
        elif settled and broken and not state.done:
            observed = {
                name: Observation(
                    # Whose occupancy nobody counts is not known to need less.
                    occupied.get(name, math.inf),
                    name in broken,
                    _misses_much(samples.get(name), self._settings.much),
                )
                for name in duties.on_demand
            }
            further = divided(before, observed, classes)
            if further is not None:
                state = OnDemandState(further, told=told)
                self._tell(AgentEvent("divided", "", f"on demand: {_classes_told(further)}"))
            else:
                for name in fresh:
                    sentence = f"{name} needs another instance: no more can be had for it here"
                    self._tell(AgentEvent("more-instances", name, sentence))
                state = replace(state, done=True, told=(*told, *fresh))
        if state.shares != before:  # of other classes more has to be known
            self._waited = 0
        self._keep(replace(self._notes, on_demand=state))

    def _classes_left(self, info: CacheInfo, duties: Duties) -> int:
        """For functions on demand, besides everybody's, I/O's, those reserved, and others'."""
        others = other_classes(info, foreign_groups(self._tree, self._ours()))
        return max(1, info.num_closids - len(others) - len(duties.reserved))

    def _ours(self) -> set[str]:
        return {*self._notes.record.made} if self._notes.record else set()

    # ------------------------------------------------------------------ applying

    def _apply(
        self, duties: Duties, info: CacheInfo, samples: Mapping[str, ChainSample]
    ) -> CachePlan:
        requests = _requests(duties, self._notes.on_demand)
        ours = {*self._ours(), *(GROUP_PREFIX + name for name in requests)}
        made = plan(
            requests, info, self._io,
            foreign=foreign_groups(self._tree, ours), previous=self._preferred(duties, info),
        )  # fmt: skip
        threads = {name: sample.threads for name, sample in samples.items() if name in made.places}
        record = apply(made, self._tree, self._keep_record, self._notes.record, threads)
        self._keep_record(record)
        return made

    def _preferred(self, duties: Duties, info: CacheInfo) -> dict[str, Schemata]:
        """The ways that the book tells; those on demand stay where they are."""
        existing = {*control_groups(self._tree)} & self._ours()
        preferred = {name: read_group(self._tree, name).schemata for name in existing}
        for name, duty in duties.reserved.items():
            if duty.first is not None:
                mask = mask_of(duty.first, duty.ways)
                preferred[GROUP_PREFIX + name] = {
                    cache.name: dict.fromkeys(cache.domains, mask) for cache in info.of_level("L3")
                }
        return preferred

    def _keep_record(self, record: Record) -> None:
        self._keep(replace(self._notes, record=record))

    def _keep(self, notes: Notes) -> None:
        if notes != self._notes:
            self._file.write(notes)
            self._notes = notes


def _deciding(state: OnDemandState, fresh: Iterable[str]) -> Iterable[str]:
    """The functions whose cache decides about the next step: others are not waited for."""
    if not state.done:
        return state.shares.rest.members if state.shares.rest else ()
    return [
        name for clos in state.shares.classes if {*clos.members} & {*fresh} for name in clos.members
    ]


def _requests(duties: Duties, state: OnDemandState) -> dict[str, CacheRequest]:
    requests = {name: CacheRequest(duty.ways) for name, duty in duties.reserved.items()}
    for number, clos in enumerate(state.shares.classes):
        shared = f"{ON_DEMAND}-{number}" if len(clos.members) > 1 else None
        for at, name in enumerate(clos.members):
            requests[name] = CacheRequest(0 if at else clos.ways, shared)
    return requests


def _misses_much(sample: ChainSample | None, much: float) -> bool:
    """Whose misses nobody counts may."""
    return sample is None or sample.misses_per_packet is None or sample.misses_per_packet >= much


def _broken(name: str, sample: ChainSample, p95_us: float, *, short: bool) -> str:
    if sample.p95_us is None or short:
        return (
            f"{name} is broken: it passes {sample.mpps or 0:.3g} Mpps, and {sample.lost:.1%} of "
            "what comes is lost before it"
        )
    late = f"95 % of its packets take {sample.p95_us:.0f} µs of {p95_us:g} µs promised"
    return f"{name} is broken: {late}"


def _classes_told(shares: WayShares) -> str:
    return "; ".join(f"{', '.join(clos.members)}: {clos.ways} ways" for clos in shares.classes)
