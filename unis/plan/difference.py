"""What must be done so that a run becomes what another plan says. Pure: nothing is done here."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from unis.chain.model import HostInterface, PortSink, PortSource, WireSink
from unis.links.kind import LinkPlan
from unis.plan.cpus import format_cpu_list
from unis.plan.model import ChainPlan, EnginePlan, FunctionPlan, Plan, PortPlan, SwitchPlan

PlanPart = Literal["chain", "function", "scheduler", "traffic", "platform"]
What = Literal["added", "removed", "changed", "started anew", "moved"]

# Of a function's process: what it is started with, and how that is called.
_STARTED_WITH = {
    "program": "its program",
    "words": "its arguments",
    "stdin": "its standard input",
    "terminal": "its terminal",
    "env": "its environment",
    "user": "its user",
    "container": "its container",
    "capabilities": "its capabilities",
    "cwd": "the folder of the chain file",
    "namespace": "its network namespace",
    "yield_every": "yield_every",
    "plugin": "plugin",
    "telemetry": "telemetry",
    "group": "the kind of its links",
}


@dataclass(frozen=True)
class Change:
    """One thing that becomes another."""

    part: PlanPart
    name: str
    what: What
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """From one plan of a run to another."""

    changes: tuple[Change, ...] = ()
    refused: tuple[str, ...] = ()  # sentences on what cannot be changed while it runs
    removed_chains: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()  # functions whose processes end, in this order
    started: tuple[str, ...] = ()  # functions that get a new process, in this order
    down: tuple[str, ...] = ()  # chains that stay, and drop what comes meanwhile
    policy: bool = False  # or the controller

    def __bool__(self) -> bool:
        return bool(self.changes or self.refused)

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def difference(old: Plan, new: Plan, missing: Collection[str] = ()) -> Difference:
    """From `old`, which runs, to `new`; `missing` functions of it are dead."""
    before = {function.name: function for function in old.functions}
    after = {function.name: function for function in new.functions}
    anew = _started_anew(old, new, missing)
    started = tuple(name for name in after if name in anew or name not in before)
    chains = {chain.name for chain in new.chains}
    return Difference(
        changes=(*_chains(old, new), *_functions(before, after, anew), *_settings(old, new)),
        refused=tuple(_refused(old, new)) or tuple(_lacking(old, new)),
        removed_chains=tuple(chain.name for chain in old.chains if chain.name not in chains),
        # Clients end first: they were started after their servers.
        ended=tuple(name for name in reversed(before) if name in anew or name not in after),
        started=started,
        down=tuple(
            chain.name
            for chain in new.chains
            if chain.name in {was.name for was in old.chains} and chain.is_down_without(started)
        ),
        policy=(old.policy, old.controller) != (new.policy, new.controller),
    )


def without(plan: Plan, chains: Collection[str]) -> Plan:
    """The same functions and links, with fewer chains."""
    return replace(plan, chains=tuple(chain for chain in plan.chains if chain.name not in chains))


# ------------------------------------------------------------------ functions


def _started_anew(old: Plan, new: Plan, missing: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Functions of both plans that need another process, and why."""
    after = {function.name: function for function in new.functions}
    found: dict[str, tuple[str, ...]] = {}
    gone = {function.name for function in old.functions if function.name not in after}
    for function in old.functions:
        if function.name in after:
            why = tuple(_another_process(function, after[function.name], old, new))
            if function.name in missing:
                why = ("it ended", *why)
            if why:
                found[function.name] = why
    for name in old.with_clients({*found, *gone}) - {*found, *gone}:
        found[name] = ("it connects to a function that goes, or is started anew",)
    return found


def _another_process(was: FunctionPlan, now: FunctionPlan, old: Plan, new: Plan) -> Iterator[str]:
    for key, called in _STARTED_WITH.items():
        before, after = getattr(was, key), getattr(now, key)
        if before != after and key in ("program", "user", "namespace", "yield_every"):
            yield f"{called}: {before or 'none'} → {after or 'none'}"
        elif before != after:
            yield called
    if was.lcore_count != now.lcore_count:
        yield f"lcores: {was.lcore_count} → {now.lcore_count}"
    if len(was.ports) != len(now.ports):
        yield f"ports: {len(was.ports)} → {len(now.ports)}"
    elif was.group == now.group and was.ports != now.ports:
        yield from dict.fromkeys(
            why
            for before, after in zip(was.ports, now.ports, strict=True)
            for why in _another_port(before, after, old, new)
        )


def _another_port(was: PortPlan, now: PortPlan, old: Plan, new: Plan) -> Iterator[str]:
    before = {link.name: link for link in old.links}
    after = {link.name: link for link in new.links}
    for name, other in ((was.rx, now.rx), (was.tx, now.tx)):
        if name != other:
            yield _another_link(before.get(name), after.get(other))
    if (was.rx, was.tx) == (now.rx, now.tx) and was != now:
        yield "its end of a link"


def _another_link(was: LinkPlan | None, now: LinkPlan | None) -> str:
    if was is None or now is None or (was.edge, was.part) != (now.edge, now.part):
        return "the links of its ports"
    where = f"{_where(now)} of {now.edge[0]}"
    if was.kind != now.kind:
        return f"{where}: {was.kind} → {now.kind}"
    if was.slots != now.slots:
        return f"{where}: {was.slots} → {now.slots} slots"
    return f"{where}: its queues, or which functions are at its ends"


def _where(link: LinkPlan) -> str:
    """One that edges share has a name at one end, and the number of the port."""
    _, origin, to = link.edge
    if not to:
        return f"what leaves port {link.part} of {origin}"
    if not origin:
        return f"what comes to port {link.part} of {to}"
    return f"the link from {origin} to {to}"


def _functions(
    before: Mapping[str, FunctionPlan],
    after: Mapping[str, FunctionPlan],
    anew: Mapping[str, tuple[str, ...]],
) -> Iterator[Change]:
    for name in before:
        if name not in after:
            yield Change("function", name, "removed")
    for name, now in after.items():
        was = before.get(name)
        if was is None:
            yield Change("function", name, "added")
            continue
        if name in anew:
            yield Change("function", name, "started anew", anew[name])
        if was.cpu != now.cpu:
            yield Change("function", name, "moved", (f"CPU {was.cpu} → {now.cpu}",))
        why = []
        if was.cost_ns != now.cost_ns:
            why.append(f"cost: {_cost(was)} → {_cost(now)}")
        if was.restart != now.restart:
            why.append(f"restart: {was.restart} → {now.restart}")
        if was.may_sleep != now.may_sleep:
            why.append(f"may_sleep: {_shown(was.may_sleep)} → {_shown(now.may_sleep)}")
        if was.kernel != now.kernel:
            why.append(f"kernel: {_kernel(was)} → {_kernel(now)}")
        if why:
            yield Change("function", name, "changed", tuple(why))


def _kernel(function: FunctionPlan) -> str:
    stated = function.kernel.model_dump(exclude_none=True)
    return ", ".join(f"{key} {value}" for key, value in stated.items()) or "by default"


def _switch(switch: SwitchPlan) -> str:
    stated = switch.kernel.model_dump(exclude_none=True)
    return ", ".join(
        [f"CPU {format_cpu_list(switch.cpus)}", *(f"{k} {v}" for k, v in stated.items())]
    )


def _cost(function: FunctionPlan) -> str:
    return "as measured" if function.cost_ns is None else f"{function.cost_ns:g} ns"


# ------------------------------------------------------------------ chains


def _chains(old: Plan, new: Plan) -> Iterator[Change]:
    before = {chain.name: chain for chain in old.chains}
    after = {chain.name: chain for chain in new.chains}
    for name in before:
        if name not in after:
            yield Change("chain", name, "removed")
    for name, now in after.items():
        if name not in before:
            yield Change("chain", name, "added")
        elif why := tuple(_another_chain(before[name], now)):
            yield Change("chain", name, "changed", why)
    order = [name for name in after if name in before]
    if order != [name for name in before if name in after]:
        yield Change("chain", ", ".join(order), "changed", ("the order in which they match",))


def _another_chain(was: ChainPlan, now: ChainPlan) -> Iterator[str]:
    if was.match != now.match:
        yield "match"
    if was.goal_ns != now.goal_ns:
        yield f"slo: p95 latency {_goal(was)} → {_goal(now)}"
    path, wanted = ([hop.function for hop in chain.hops] for chain in (was, now))
    ends, wanted_ends = ([(edge.origin, edge.to) for edge in chain.edges] for chain in (was, now))
    ports, wanted_ports = (
        [(edge.out_port, edge.in_port) for edge in chain.edges] for chain in (was, now)
    )
    if ends != wanted_ends:
        yield "graph"
    elif path != wanted:
        yield f"path: {' → '.join(path)} becomes {' → '.join(wanted)}"
    elif was.hops != now.hops or ports != wanted_ports:
        yield "the ports that it goes through"
    elif (was.splits, was.drains) != (now.splits, now.drains):
        yield "how its graph splits packets"
    elif (was.ingress, was.edges, was.egress) != (now.ingress, now.edges, now.egress):
        yield "its links"
    elif was.ring and now.ring and was.ring.slots != now.ring.slots:  # and none is of this length
        yield f"ring: {was.ring.slots} → {now.ring.slots} slots"


def _goal(chain: ChainPlan) -> str:
    return "none" if chain.goal_ns is None else f"{chain.goal_ns / 1000:g} µs"


# ------------------------------------------------------------------ the rest


def _settings(old: Plan, new: Plan) -> Iterator[Change]:
    if why := tuple(_fields(old.scheduler.model_dump(), new.scheduler.model_dump())):
        yield Change("scheduler", "", "changed", why)
    if why := tuple(_fields(old.traffic.model_dump(), new.traffic.model_dump())):
        yield Change("traffic", "", "changed", why)
    platforms = [{"restart": plan.restart, "share": plan.share} for plan in (old, new)]
    switches = [{"ovs": plan.switch and _switch(plan.switch)} for plan in (old, new)]
    if why := (*_fields(*platforms), *_fields(*switches)):
        yield Change("platform", "", "changed", why)


def _fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for key in before:
        if before[key] != after[key]:
            yield f"{key}: {_shown(before[key])} → {_shown(after[key])}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {part}" for key, part in value.items() if part is not None)
    return (
        str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)
    )


def _refused(old: Plan, new: Plan) -> Iterator[str]:
    again = f"; `unis down {old.name}` and `unis up` bring it up so"
    if old.platform_cpus != new.platform_cpus:
        cpus = [", ".join(map(str, plan.platform_cpus)) for plan in (old, new)]
        yield (
            f"traffic and scheduler stay on CPU {cpus[0]} while the chains run, and the file wants "
            f"CPU {cpus[1]}{again}"
        )
    for end, was, now in (
        ("source", old.traffic.source, new.traffic.source),
        ("sink", old.traffic.sink, new.traffic.sink),
    ):
        ports = isinstance(was, PortSource | PortSink | HostInterface | WireSink) and was != now
        if was.kind != now.kind or ports:
            yield (
                f"traffic.{end} stays {_shown(was.model_dump())} while the chains run, and the "
                f"file wants {_shown(now.model_dump())}{again}"
            )


def _lacking(old: Plan, new: Plan) -> Iterator[str]:
    """What no key of the file tells better."""
    missing = {*_lasting(new.engine)} - {*_lasting(old.engine)}
    if missing:
        yield (
            f"unisd was not started with {', '.join(sorted(missing))}, as the file wants; "
            f"`unis down {old.name}` and `unis up` bring it up so"
        )
    if kept := {*old.engine.pci} - {*new.engine.pci}:
        yield (
            f"unisd keeps NIC {', '.join(sorted(kept))} open till it ends, and the file has no use "
            f"for it; `unis down {old.name}` and `unis up` bring it up so"
        )


def _lasting(engine: EnginePlan) -> Iterator[str]:
    """What the engine's process has from its start on; of memory it takes more when it needs it."""
    yield f"DPDK group {engine.joins or engine.file_prefix}"
    yield from (f"NIC {address}" for address in engine.pci)
    yield from (word for word in engine.argv if word.startswith("--"))
