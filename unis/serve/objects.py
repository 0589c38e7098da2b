"""What is on this machine, as objects in the shape of Kubernetes: metadata, spec, status.

Counters are those of `/metrics`: the same declarations, names and units.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from unis.counters.metric import MetricKind
from unis.counters.samples import samples
from unis.engine import names
from unis.engine.histogram import Latency
from unis.serve.problems import API_VERSION

if TYPE_CHECKING:
    from unis.runtime.asked import AskedRun
    from unis.runtime.state import FunctionProcess, RunState
    from unis.v1 import engine_pb2 as pb

_PERCENTILES = (50, 95, 99)
_PROMISED_PERCENTILE = 95  # of goals in a chain file


class RestPart(BaseModel):
    """A part of an object; keys are in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Condition(RestPart):
    """A statement on an object that holds, or does not."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str = Field(pattern="^[A-Z][A-Za-z]*$")
    message: str = ""
    last_transition_time: str = ""
    """When the server saw `status` change; its first look where it never did."""


class ObjectMeta(RestPart):
    """Which object it is."""

    name: str
    run: str | None = None
    """The run that it belongs to."""
    uid: str = ""
    """Of the run; each start of a run has another."""
    generation: int | None = None
    """How many texts of its chain file this run has had, with the one in the file now."""
    resource_version: str | None = None
    """For `If-Match`: changes with the spec."""


class CounterValue(RestPart):
    """A value of a metric; `labels` tell it from others of the same metric and object."""

    labels: dict[str, str] = {}
    value: float


Counters = dict[str, list[CounterValue]]


class RestObject(RestPart):
    """What all objects have."""

    api_version: Literal["unis/v1"] = API_VERSION
    kind: str
    metadata: ObjectMeta


class RunObjectStatus(RestPart):
    """How a run is."""

    phase: str
    """starting, running, stopping, failed, stale (its launcher was killed)."""
    reason: str = ""
    problems: list[str] = []
    """What could not be undone."""
    observed_generation: int
    chain_file: str = ""
    policy: str | None = None
    cpus: list[int] = []
    """Of functions."""
    platform_cpus: list[int] = []
    counters: Counters = {}
    conditions: list[Condition] = []


class RunObject(RestObject):
    """A run: `spec` is its chain file, as plain data; null where that cannot be read."""

    kind: Literal["Run"] = "Run"
    spec: dict[str, Any] | None = None
    status: RunObjectStatus


class ChainLatency(RestPart):
    """Of the packets since the engine started, seconds."""

    packets: int
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class ChainObjectSpec(RestPart):
    """Which functions a chain passes, and what is promised."""

    functions: list[str] = []
    edges: list[dict[str, str]] = []
    """Of a chain with branches: from, to, port."""
    p95_seconds: float | None = None


class CountedStatus(RestPart):
    """What is counted of an object."""

    counters: Counters = {}
    conditions: list[Condition] = []


class ChainObjectStatus(CountedStatus):
    """How a chain is."""

    latency: ChainLatency | None = None


class ChainObject(RestObject):
    """A chain of a run."""

    kind: Literal["Chain"] = "Chain"
    spec: ChainObjectSpec
    status: ChainObjectStatus


class FunctionObjectSpec(RestPart):
    """Where a function runs."""

    cpu: int | None = None


class FunctionObjectStatus(CountedStatus):
    """How a function is."""

    pid: int | None = None
    restarts: int = 0
    ended: str = ""
    """How its process ended, if it did."""
    links: list[dict[str, str]] = []
    """By chain: the link that it receives from, and the one that it sends to."""


class FunctionObject(RestObject):
    """A network function of a run."""

    kind: Literal["Function"] = "Function"
    spec: FunctionObjectSpec
    status: FunctionObjectStatus


class LinkObject(RestObject):
    """A link between two functions, or between a function and the engine."""

    kind: Literal["Link"] = "Link"
    status: CountedStatus


class CoreObjectStatus(CountedStatus):
    """How a CPU of functions is."""

    functions: list[str] = []


class CoreObject(RestObject):
    """A CPU on which functions of a run take turns."""

    kind: Literal["Core"] = "Core"
    status: CoreObjectStatus


class PromiseObjectSpec(RestPart):
    """What is promised."""

    chain: str
    percentile: float
    seconds: float


class PromiseObjectStatus(RestPart):
    """Whether it is kept."""

    seconds: float | None = None
    """The latency at that percentile since the engine started; null: no packet yet."""
    conditions: list[Condition] = []


class PromiseObject(RestObject):
    """A latency that a chain file promises for a chain."""

    kind: Literal["Promise"] = "Promise"
    spec: PromiseObjectSpec
    status: PromiseObjectStatus


class ObjectList(RestPart):
    """Objects of one kind, of all runs."""

    api_version: Literal["unis/v1"] = API_VERSION
    kind: str


class RunList(ObjectList):
    """Runs."""

    items: list[RunObject]


class ChainList(ObjectList):
    """Chains."""

    items: list[ChainObject]


class FunctionList(ObjectList):
    """Functions."""

    items: list[FunctionObject]


class LinkList(ObjectList):
    """Links."""

    items: list[LinkObject]


class CoreList(ObjectList):
    """Cores."""

    items: list[CoreObject]


class PromiseList(ObjectList):
    """Promises."""

    items: list[PromiseObject]


# ------------------------------------------------------------------ made from what was asked

_OWNERS = ("function", "link", "chain", "cpu")  # the first of a sample's labels owns it
_RUN = ("run", "")


def counters(stats: pb.Stats) -> dict[tuple[str, str], Counters]:
    """What is counted of each object, by its kind (as its label) and name; ("run", "") the run's.

    Histograms are told as percentiles instead.
    """
    found: dict[tuple[str, str], Counters] = {}
    for metric, all_samples in samples(stats):
        if metric.kind is MetricKind.HISTOGRAM:
            continue
        for sample in all_samples:
            labels = dict(sample.labels)
            labels.pop("run")
            owner = next(((kind, labels.pop(kind)) for kind in _OWNERS if kind in labels), _RUN)
            values = found.setdefault(owner, {}).setdefault(sample.name, [])
            values.append(CounterValue(labels=labels, value=sample.value))
    return found


@dataclass(frozen=True)
class CountedRun:
    """A run as it was asked at one time. Several lists show its counters; they are read once."""

    asked: AskedRun

    @cached_property
    def counted(self) -> dict[tuple[str, str], Counters]:
        """As `counters` has it; of a run whose engine did not answer nothing."""
        return counters(self.asked.stats) if self.asked.stats else {}


def _condition(type_: str, holds: bool | None, reason: str, message: str = "") -> Condition:
    status: Literal["True", "False", "Unknown"] = "Unknown"
    if holds is not None:
        status = "True" if holds else "False"
    return Condition(type=type_, status=status, reason=reason, message=message)


def run_object(
    run: CountedRun, spec: dict[str, Any] | None, digest: str, failure: str
) -> RunObject:
    """`spec`, `digest`: of the chain file as it is now; `failure`: why it could not be applied."""
    asked = run.asked
    state = asked.state
    pending = bool(failure) or (bool(digest and state.digest) and digest != state.digest)
    generation = state.generation + pending
    stats = asked.stats
    return RunObject(
        metadata=ObjectMeta(
            name=state.name,
            uid=state.run_id,
            generation=generation,
            resource_version=resource_version(state, digest),
        ),
        spec=spec,
        status=RunObjectStatus(
            phase=asked.phase(),
            reason=state.reason,
            problems=state.problems,
            observed_generation=state.generation,
            chain_file=state.chain_file,
            policy=names.policy_name(stats.policy) if stats else None,
            cpus=state.cpus,
            platform_cpus=state.platform_cpus,
            counters=run.counted.get(_RUN, {}),
            conditions=[_ready(asked), _applied(state, spec, failure, pending=pending)],
        ),
    )


def resource_version(state: RunState, digest: str) -> str:
    """Another one for another spec, and for another start of the run."""
    return f"{state.run_id[:12]}-{(digest or state.digest)[:12]}"


def _ready(asked: AskedRun) -> Condition:
    state, phase = asked.state, asked.phase()
    if phase != "running":
        return _condition("Ready", holds=False, reason=phase.capitalize(), message=state.reason)
    if asked.stats is None:
        return _condition("Ready", holds=False, reason="EngineSilent", message=asked.silence)
    down = [chain.name for chain in asked.stats.chains if chain.down]
    if down:
        message = f"functions of {', '.join(down)} are missing"
        return _condition("Ready", holds=False, reason="ChainDown", message=message)
    return _condition("Ready", holds=True, reason="Running")


def _applied(
    state: RunState, spec: dict[str, Any] | None, failure: str, *, pending: bool
) -> Condition:
    if state.attached:
        return _condition("Applied", holds=True, reason="Attached")
    if spec is None:
        message = f"{state.chain_file} cannot be read"
        return _condition("Applied", holds=None, reason="NoChainFile", message=message)
    if pending:
        why = failure or f"{state.chain_file} has changed since: `unis apply` it"
        reason = "ApplyFailed" if failure else "FileChanged"
        return _condition("Applied", holds=False, reason=reason, message=why)
    return _condition("Applied", holds=True, reason="SpecApplied")


def _meta(asked: AskedRun, name: str) -> ObjectMeta:
    return ObjectMeta(name=name, run=asked.state.name, uid=asked.state.run_id)


def chain_objects(run: CountedRun) -> Iterator[ChainObject]:
    """The chains of a run whose engine answered."""
    asked = run.asked
    if not (stats := asked.stats):
        return
    for chain in stats.chains:
        goal = asked.state.goals_ns.get(chain.name)
        up = _condition(
            "Up",
            holds=not chain.down,
            reason="FunctionMissing" if chain.down else "Complete",
            message=f"{chain.down} is missing" if chain.down else "",
        )
        yield ChainObject(
            metadata=_meta(asked, chain.name),
            spec=ChainObjectSpec(
                functions=list(chain.functions),
                edges=[
                    {"from": getattr(edge, "from"), "to": edge.to, "port": str(edge.port)}
                    for edge in chain.edges
                ],
                p95_seconds=goal / 1e9 if goal else None,
            ),
            status=ChainObjectStatus(
                counters=run.counted.get(("chain", chain.name), {}),
                conditions=[up],
                latency=_latency(chain) if chain.HasField("latency") else None,
            ),
        )


def _latency(chain: pb.ChainStats) -> ChainLatency:
    latency = Latency([chain.latency])
    seconds = {
        key: None if us is None else us / 1e6
        for key, us in latency.percentiles_us(_PERCENTILES).items()
    }
    return ChainLatency(packets=latency.count, **seconds)


def function_objects(run: CountedRun) -> Iterator[FunctionObject]:
    """The functions of a run, as its notes and its engine tell them."""
    asked = run.asked
    state, stats = asked.state, asked.stats
    told = {function.name: function for function in stats.functions} if stats else {}
    noted = {function.name: function for function in state.functions}
    for name in dict.fromkeys([*told, *noted]):
        process, seen = noted.get(name), told.get(name)
        gone = bool(process and process.ended) or phase_ended(asked)
        yield FunctionObject(
            metadata=_meta(asked, name),
            spec=FunctionObjectSpec(cpu=process.cpu if process else seen.cpu if seen else None),
            status=FunctionObjectStatus(
                pid=None if gone else _pid(process, seen),
                restarts=process.restarts if process else 0,
                ended=process.ended if process else "",
                counters=run.counted.get(("function", name), {}),
                conditions=[
                    _condition(
                        "Running", holds=not gone, reason="Ended" if gone else "ProcessRuns",
                        message=process.ended if process else "",
                    )
                ],
                links=[
                    {"chain": path.chain, "receives": path.ingress.name, "sends": path.egress.name}
                    for path in (seen.paths if seen else ())
                ],
            ),
        )  # fmt: skip


def _pid(process: FunctionProcess | None, seen: pb.FunctionStats | None) -> int | None:
    if process:
        return process.process.pid
    return seen.pid if seen else None


def phase_ended(asked: AskedRun) -> bool:
    """Whether nothing of the run can be up."""
    return asked.phase() in ("failed", "stale")


def link_objects(run: CountedRun) -> Iterator[LinkObject]:
    """The links of a run whose engine answered."""
    for (kind, name), values in run.counted.items():
        if kind == "link":
            yield LinkObject(metadata=_meta(run.asked, name), status=CountedStatus(counters=values))


def core_objects(run: CountedRun) -> Iterator[CoreObject]:
    """The CPUs of functions of a run whose engine answered."""
    asked = run.asked
    if not (stats := asked.stats):
        return
    for core in stats.cores:
        cpu = str(core.cpu)
        on = [function.name for function in stats.functions if function.cpu == core.cpu]
        yield CoreObject(
            metadata=_meta(asked, cpu),
            status=CoreObjectStatus(functions=on, counters=run.counted.get(("cpu", cpu), {})),
        )


def promise_objects(run: CountedRun) -> Iterator[PromiseObject]:
    """The goals of a run's chains."""
    asked = run.asked
    chains = {chain.name: chain for chain in asked.stats.chains} if asked.stats else {}
    for name, goal in asked.state.goals_ns.items():
        chain = chains.get(name)
        us = Latency([chain.latency]).percentile_us(_PROMISED_PERCENTILE) if chain else None
        kept = None if us is None else us * 1000 <= goal
        reason = {None: "NoPackets", True: "WithinGoal", False: "AboveGoal"}[kept]
        yield PromiseObject(
            metadata=_meta(asked, name),
            spec=PromiseObjectSpec(chain=name, percentile=_PROMISED_PERCENTILE, seconds=goal / 1e9),
            status=PromiseObjectStatus(
                seconds=None if us is None else us / 1e6,
                conditions=[_condition("Kept", kept, reason)],
            ),
        )


# ------------------------------------------------------------------ since when


class Transitions:
    """When conditions changed, as far as the server has seen it."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str, str, str], tuple[str, str]] = {}

    def stamp(self, objects: Iterable[RestObject], now: str) -> None:
        """Fills in `last_transition_time`; `now` as RFC 3339 has it."""
        for one in objects:
            meta = one.metadata
            for condition in _conditions(one):
                key = (meta.uid, one.kind, meta.name, condition.type)
                status, since = self._since.get(key, ("", now))
                if status != condition.status:
                    since = now
                self._since[key] = condition.status, since
                condition.last_transition_time = since

    def forget(self, uids: Iterable[str]) -> None:
        """Keeps what is known of these runs, and nothing else."""
        kept = {*uids}
        self._since = {key: value for key, value in self._since.items() if key[0] in kept}


def _conditions(one: RestObject) -> list[Condition]:
    found: list[Condition] = getattr(getattr(one, "status", None), "conditions", [])
    return found


MAKERS: Mapping[str, Any] = {
    "chains": (ChainList, chain_objects),
    "functions": (FunctionList, function_objects),
    "links": (LinkList, link_objects),
    "cores": (CoreList, core_objects),
    "promises": (PromiseList, promise_objects),
}
"""Lists of the parts of runs, by their paths below /v1."""
