"""Advice on a chain, from what was measured of it. Nothing here reads the machine.

A gain in throughput is what would pass at most by what packets were measured to cost, by what
passed. What would pass at most: on each CPU of functions, a second by the sum of their costs and
of the switches of a turn, by the packets of a turn; and no more than the platform's busiest CPU
carries. A gain in latency is the latency by what would be left of it without the part that goes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from unis import links
from unis.advice.change import value_at
from unis.chain.defaults import AUTO_QUOTA
from unis.chain.model import ChainFile
from unis.links.kind import LinkPlan
from unis.measure.primitives import Primitives
from unis.parts.accounting import BLOCKED, QUEUEING, RUN_DELAY
from unis.parts.advised import Advice, ChainUse, Change, FunctionUse
from unis.parts.result import ChainParts
from unis.plan.model import Plan

LEAST_GAIN = 1.05
_KERNEL_POLICIES = ("other", "batch", "idle", "rr", "fifo")
_BATCH = 32  # frames a burst, and of DPDK's functions
_SLOTS = 4096  # as long as `ring: auto` makes rings under hand-over at most
_TOUCHED = 0.05  # packets that links drop for each that is delivered: fewer are no reason
_LEAST_NS = 1e-3  # of a packet
_FRAME = 60  # bytes, of the calibrated calls


@dataclass(frozen=True)
class Situation:
    """A chain, what was measured of it, and what is known of the machine."""

    file: ChainFile
    plan: Plan
    parts: ChainParts
    use: ChainUse
    primitives: Primitives | None  # None: the machine was not calibrated
    free: frozenset[int] = frozenset()  # CPUs that nobody has
    # Costs of the functions that were measured here before, ns, by driver and then by function; and
    # what the machine lacks for a driver.
    costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    lacking: Mapping[str, str] = field(default_factory=dict)

    @property
    def handed_over(self) -> bool:
        """Whether its functions hand the CPU over."""
        return (self.use.policy, self.use.controller) == ("unis", "handover")

    @property
    def path(self) -> list[str]:
        """Its functions, in order."""
        return [each.name for each in self.use.functions]

    @property
    def cost_ns(self) -> dict[str, float]:
        """Of a packet, by function, without switches of the kernel; empty if one is not known."""
        found = {each.name: self._cost_ns(each) for each in self.use.functions}
        return found if all(found.values()) else {}

    def _cost_ns(self, function: FunctionUse) -> float:
        if function.cost_by == "engine":
            return function.cost_ns
        return max(function.cost_ns / 10, function.cost_ns - function.switches * self.a_wake_up_ns)

    @property
    def a_wake_up_ns(self) -> float:
        """And the switch after it; 0: it is not calibrated, and then left in."""
        switch = self.calibrated("switch", "other", by="yield", between="processes")
        wake = self.calibrated("wake_up", "other", **{"from": "same CPU"})
        return 0 if switch is None or wake is None else switch + wake

    @property
    def cpus(self) -> dict[str, int]:
        """Of the functions."""
        return {each.name: each.cpu for each in self.use.functions}

    @property
    def turn(self) -> float:
        """Packets of a turn, where functions hand the CPU over."""
        return self.turn_of(min(map(_room, self.plan.links), default=1), self.plan.scheduler.quota)

    def turn_of(self, room: int, quota: int | str) -> float:
        """The same with other links and quota."""
        most = AUTO_QUOTA if quota == "auto" else int(quota)
        return max(1.0, min(most, self.plan.gamma.value * room))

    def calibrated(self, *names: str, **labels: int | str) -> float | None:
        """The median of a primitive, ns, by its group and name; None: it is not known."""
        group, name = names
        row = self.primitives and self.primitives.find(group, name, **labels)  # type: ignore[arg-type]
        return row.ns.median_ns if row and row.ns else None

    @property
    def handover_ns(self) -> float:
        """0: it is not calibrated, and then left out."""
        return self.calibrated("switch", "fifo", by="yield", between="processes") or 0.0

    def most_kpps(
        self,
        costs: Mapping[str, float],
        cpus: Mapping[str, int],
        a_switch: float,
        turn: float,
    ) -> float:
        """What would pass: `a_switch` ns for each function of a CPU, once in `turn` packets."""
        by_cpu: defaultdict[int, list[float]] = defaultdict(list)
        for name, cpu in cpus.items():
            by_cpu[cpu].append(costs[name])
        longest = [
            sum(each) + (len(each) * a_switch / turn if len(each) > 1 else 0)
            for each in by_cpu.values()
        ]
        return 1e6 / max([*longest, self.use.engine_ns, _LEAST_NS])

    def share(self, part: str) -> float:
        """Of the latency at the load of the profile."""
        return (
            self.parts.part_ns(part) / self.parts.median_latency_ns
            if self.parts.median_latency_ns
            else 0
        )

    def without(self, share: float) -> float:
        """Times the latency, if this share of it went."""
        return 1 / (1 - min(max(share, 0.0), 0.99))

    def measured(self, part: str) -> str:
        """As advice rests on it."""
        providers = {
            str(each.parts[part].provider) for each in self.parts.places if part in each.parts
        }
        return (
            f"{part}: {self.parts.part_ns(part) / 1e3:,.1f} of "
            f"{self.parts.median_latency_ns / 1e3:,.1f} µs "
            f"at {self.parts.load_kpps:,.1f} kpps ({', '.join(sorted(providers)) or 'nobody'})"
        )

    @property
    def passes(self) -> str:
        """Likewise."""
        return f"{self.use.delivered_kpps:,.1f} kpps pass at overload (engine)"

    @property
    def costs_told(self) -> str:
        """Likewise."""
        told = ", ".join(f"{name} {ns:,.0f}" for name, ns in self.cost_ns.items())
        by_kernel = any(each.cost_by == "kernel" for each in self.use.functions)
        kernel = f"kernel: CPU time by packets, less {self.a_wake_up_ns:,.0f} ns a switch"
        return f"ns a packet: {told} ({kernel if by_kernel else 'engine, while they ran'})"


# Advice, or what was considered and why it is none.
_Found = Iterator[Advice | str]


def advise(situation: Situation) -> tuple[list[Advice], list[str]]:
    """Advice that gains 5 % or more, the most first; and what else was considered, and why it is
    not advised.
    """
    advice: list[Advice] = []
    considered: list[str] = []
    for rule in _RULES:
        for found in rule(situation):
            if isinstance(found, str):
                considered.append(found)
            elif not (change := _missing(situation, found.change)):
                considered.append(f"{found.what} That is set already.")
            elif found.expected_gain < LEAST_GAIN:
                considered.append(f"{found.what} Gains {found.expected_gain - 1:.0%} at most.")
            elif found.kind == "latency" and not situation.parts.is_explained:
                considered.append(f"{found.what} Not known: the parts do not explain the latency.")
            else:
                advice.append(found.model_copy(update={"change": change}))
    return sorted(advice, key=lambda each: -each.expected_gain), considered


def _missing(situation: Situation, change: Change) -> Change:
    """Of a change what is not so yet."""
    data = situation.file.model_dump(mode="json", by_alias=True)
    return {path: value for path, value in change.items() if value_at(data, path) != value}


# ------------------------------------------------------------------ scheduler


def _scheduler(now: Situation) -> _Found:
    what = "Let the functions hand the CPU over (scheduler policy unis)."
    if now.handed_over:
        yield f"{what} They do."
        return
    if not now.cost_ns:
        yield f"{what} What a packet costs is not known: state `cost_ns`, or use `unis estimate`."
        return
    most = now.most_kpps(now.cost_ns, now.cpus, now.handover_ns, now.turn)
    change: Change = {"scheduler.policy": "unis", "scheduler.controller": "handover"}
    change |= {f"links.{at}.wait": False for at, link in enumerate(now.file.links) if link.wait}
    facts = [now.passes, now.costs_told, now.measured(RUN_DELAY)]
    if all(function.cost_by == "engine" for function in now.use.functions):
        facts.insert(2, _use_of_cpu(now))
    if now.handover_ns:
        facts.append(
            f"a hand-over takes {now.handover_ns:,.0f} ns, once in {now.turn:,.0f} packets "
            "(unis calibrate: yield, fifo)"
        )
    gain = most / max(now.use.delivered_kpps, 1e-9)
    latency = now.without(now.share(RUN_DELAY))
    by_throughput = gain >= LEAST_GAIN or latency < LEAST_GAIN
    yield Advice(
        what=what, change=change, expected_gain=gain if by_throughput else latency,
        kind="throughput" if by_throughput else "latency", rests_on=facts,
    )  # fmt: skip


def _use_of_cpu(now: Situation) -> str:
    """Where the time of the CPU with the most functions goes."""
    cpus = [each.cpu for each in now.use.functions]
    cpu = max(cpus, key=cpus.count)
    there = [each for each in now.use.functions if each.cpu == cpu]
    busy, spinning = sum(each.busy for each in there), sum(each.spinning for each in there)
    useful = now.use.delivered_kpps * sum(each.cost_ns for each in there) / 1e6
    wasted = max(0.0, busy - useful)
    return (
        f"CPU {cpu} at overload: {min(useful, busy):.0%} at packets that arrive, {wasted:.0%} at "
        f"packets that are dropped later, {spinning:.0%} at polls that find nothing and at "
        "switches (kernel and engine)"
    )


def _blocking(now: Situation) -> _Found:
    """A woken function finds one packet, in the worst case: so each packet costs each function a
    wake-up and a switch.
    """
    what = "If the kernel shall schedule: let functions wait in their receive call."
    if now.use.policy not in _KERNEL_POLICIES:
        return
    if any(link.wait for link in now.file.links):
        yield f"{what} They do."
        return
    if not now.file.links or any(link.driver != "mmsg" for link in now.file.links):
        yield f"{what} Only those with `driver: mmsg` can."
        return
    if not now.a_wake_up_ns or not now.cost_ns:
        yield f"{what} What it gains is not known: costs or `unis calibrate` are missing."
        return
    most = now.most_kpps(now.cost_ns, now.cpus, now.a_wake_up_ns, 1)
    yield Advice(
        what=what,
        change={f"links.{at}.wait": True for at in range(len(now.file.links))},
        expected_gain=most / max(now.use.delivered_kpps, 1e-9),
        kind="throughput",
        rests_on=[
            now.passes,
            now.costs_told,
            f"a wake-up takes {now.a_wake_up_ns:,.0f} ns with its switch, here for each packet "
            "(unis calibrate)",
        ],
    )


def _order(now: Situation) -> _Found:
    """Each function that runs out of its turn has packets wait for a round more."""
    what = "Keep the functions in the order of the chain (keep_order)."
    there = [*now.cpus.values()]
    count = max(map(there.count, there), default=0)
    if not now.handed_over or count < 3 or now.use.out_of_order is None:
        return
    rounds = 1 + now.use.out_of_order * (count - 1)
    moved = now.share(RUN_DELAY) + now.share(QUEUEING)
    yield Advice(
        what=what,
        change={"scheduler.keep_order": True},
        expected_gain=now.without(moved * (1 - 1 / rounds)),
        kind="latency",
        rests_on=[
            f"{now.use.out_of_order:.0%} of hand-overs left the order (engine)",
            now.measured(RUN_DELAY),
            now.measured(QUEUEING),
        ],
    )


def _delay(now: Situation) -> _Found:
    what = "Do not let functions sleep between packets (max_delay_us: 0). It costs CPU time."
    if not now.handed_over or not now.file.max_delay_us:
        return
    blocked = now.share(BLOCKED)
    others = [QUEUEING, RUN_DELAY]
    goals = [chain.slo.p95_ns for chain in now.file.chains.values() if chain.slo]
    if blocked < max(now.share(part) for part in others):
        yield f"{what} `blocked` is not the largest part of the latency."
    elif not goals:
        yield (
            f"{what} {blocked:.0%} of the latency is `blocked`; the file states no goal for it "
            "(slo: p95_latency)."
        )
    elif now.use.p95_us is None or now.use.p95_us * 1000 <= min(goals):
        yield f"{what} The goal is kept."
    else:
        yield Advice(
            what=what,
            change={"scheduler.max_delay_us": 0},
            expected_gain=now.without(blocked),
            kind="latency",
            rests_on=[
                now.measured(BLOCKED),
                f"p95 is {now.use.p95_us:,.0f} µs, the goal {min(goals) / 1e3:,.0f} µs (engine)",
            ],
        )


# ------------------------------------------------------------------ links


def _queues(now: Situation) -> _Found:
    """Under hand-over a longer turn has fewer switches. Where the kernel schedules functions that
    poll, what fits into a queue is what passes in a round of time slices.
    """
    what = f"Give links {_SLOTS} slots."
    if not now.cost_ns:
        return
    room = min(map(_room, now.plan.links), default=_SLOTS)
    change = _longer(now)
    longer = min((_room_with(change, link, now) for link in now.plan.links), default=_SLOTS)
    if now.handed_over:
        turn = now.turn_of(longer, "auto")
        if now.plan.scheduler.quota != "auto":
            change["scheduler.quota"] = "auto"
        if not change:
            yield f"{what} None of them is shorter that could be longer."
            return
        before, after = (
            now.most_kpps(now.cost_ns, now.cpus, now.handover_ns, each) for each in (now.turn, turn)
        )
        yield Advice(
            what=what if len(change) > ("scheduler.quota" in change) else "Let turns be longer.",
            change=change,
            expected_gain=after / before,
            kind="throughput",
            rests_on=[
                now.costs_told,
                f"a hand-over takes {now.handover_ns:,.0f} ns (unis calibrate: yield, fifo); a "
                f"turn has {now.turn:,.0f} packets (plan)",
            ],
        )
    elif now.use.policy in _KERNEL_POLICIES and now.use.lost_on_links > _TOUCHED:
        if longer <= room:
            yield f"{what} The links that are full cannot be longer with their driver."
            return
        # The kernel's switches take no less than a hand-over.
        switch = now.calibrated("switch", "other", by="yield", between="processes") or 0.0
        most = now.most_kpps(now.cost_ns, now.cpus, max(switch, now.handover_ns), now.turn)
        gain = min(longer / room, most / max(now.use.delivered_kpps, 1e-9))
        yield Advice(
            what=f"{what} Packets then wait longer.",
            change=change,
            expected_gain=gain,
            kind="throughput",
            rests_on=[
                now.passes,
                f"links drop {now.use.lost_on_links:,.1f} packets for each that arrives (engine "
                "and kernel)",
                f"the shortest has room for {room} (plan)",
            ],
        )


def _longer(now: Situation) -> Change:
    """The links that can be longer, with more slots."""
    change: Change = {}
    for at, link in enumerate(now.file.links):
        kind = links.KINDS[link.kind]
        slots = link.slots or kind.default_slots
        long = min(_SLOTS, kind.most_slots)
        if link.kind != "xdp" and link.driver != "mmsg" and slots and slots < long:
            change[f"links.{at}.slots"] = long
    for name, chain in now.file.chains.items():
        if isinstance(chain.ring, int) and chain.ring < _SLOTS:
            change[f"chains.{name}.ring"] = _SLOTS
    return change


def _room(link: LinkPlan) -> int:
    return links.KINDS[link.kind].waiting_room(link)


def _room_with(change: Change, link: LinkPlan, now: Situation) -> int:
    """The same with more slots; of a link that the change does not name as it is."""
    kind = links.KINDS[link.kind]
    chain, *ends = link.edge
    named = any(
        [each.origin, each.to] == ends and f"links.{at}.slots" in change
        for at, each in enumerate(now.file.links)
    )
    if named or (kind.default_slots is None and f"chains.{chain}.ring" in change):
        return max(_room(link), min(_SLOTS, kind.most_slots))
    return _room(link)


def _driver(now: Situation) -> _Found:
    """By costs that were measured here before, with either driver."""
    have = {link.driver or "af_packet" for link in now.file.links if link.kind == "veth"}
    if len(have) != 1 or any(link.kind != "veth" for link in now.file.links):
        return
    (mine,) = have
    named = any("net_" in word for each in now.file.functions.values() for word in each.args)
    for driver in ("mmsg", "af_packet", "af_xdp"):
        what = f"Let functions receive and send by {driver}."
        if driver == mine:
            continue
        if named:
            yield f"{what} Arguments of a function name the ports of its driver."
        elif now.lacking.get(driver):
            yield f"{what} {now.lacking[driver]}."
        elif not (mine in now.costs and driver in now.costs):
            yield f"{what} What packets cost with it was not measured here (`unis estimate`)."
        else:
            old, new = (
                now.most_kpps(now.costs[each], now.cpus, now.handover_ns, now.turn)
                for each in (mine, driver)
            )
            yield Advice(
                what=what,
                change=driver_change(now.file, driver),
                expected_gain=new / old,
                kind="throughput",
                rests_on=[_costs_of(now, mine), _costs_of(now, driver)],
            )


def driver_change(file: ChainFile, driver: str) -> Change:
    """All links of kind veth with another driver."""
    change: Change = {}
    for at, _ in enumerate(file.links):
        at_link: Change = {"kind": "xdp" if driver == "af_xdp" else "veth"}
        at_link["driver"] = None if driver == "af_xdp" else driver
        if driver != "mmsg":
            at_link |= {"batch": None, "calls": None, "wait": False}
        if driver == "af_xdp":
            at_link["slots"] = None
        change |= {f"links.{at}.{key}": value for key, value in at_link.items()}
    return change


def _costs_of(now: Situation, driver: str) -> str:
    told = ", ".join(f"{name} {ns:,.0f}" for name, ns in now.costs[driver].items())
    return f"ns a packet by {driver}: {told} (unis estimate, or an earlier run)"


def _batch(now: Situation) -> _Found:
    what = f"Move up to {_BATCH} frames by a system call."
    mmsg = {at: link for at, link in enumerate(now.file.links) if link.driver == "mmsg"}
    small = {
        at: 0 if link.calls == "single" else link.batch or _BATCH
        for at, link in mmsg.items()
        if link.calls == "single" or (link.batch or _BATCH) < _BATCH
    }
    if not mmsg:
        return
    if not small:
        yield f"{what} They do."
        return
    costs = now.cost_ns
    saved: defaultdict[str, float] = defaultdict(float)
    for at, batch in small.items():
        for name, call in ((mmsg[at].to, "recv"), (mmsg[at].origin, "send")):
            one, other = _call(now, call, batch), _call(now, call, _BATCH)
            if one is None or other is None or not costs:
                yield f"{what} What it gains is not known: costs or `unis calibrate` are missing."
                return
            if name in costs:
                saved[name] += one - other
    faster = {name: max(ns / 10, ns - saved[name]) for name, ns in costs.items()}
    old, new = (
        now.most_kpps(each, now.cpus, now.handover_ns, now.turn) for each in (costs, faster)
    )
    change: Change = {
        f"links.{at}.batch": _BATCH for at in small if (mmsg[at].batch or _BATCH) < _BATCH
    }
    change |= {f"links.{at}.calls": "vector" for at, batch in small.items() if not batch}
    told = ", ".join(
        f"{call} {_call(now, call, batch):,.0f} → {_call(now, call, _BATCH):,.0f}"
        for batch in sorted({*small.values()})
        for call in ("recv", "send")
    )
    yield Advice(
        what=what, change=change, expected_gain=new / old, kind="throughput",
        rests_on=[now.costs_told, f"ns a frame by batch: {told} (unis calibrate)"],
    )  # fmt: skip


def _call(now: Situation, name: str, batch: int) -> float | None:
    """ns a frame; batch 0: a call for each. Of a batch that is not calibrated the next smaller."""
    if not batch:
        return now.calibrated("packet", name, frame_bytes=_FRAME)
    for size in sorted({1, 2, 4, 8, 16, 32, 64, 128, 256, batch}, reverse=True):
        labels = {"frame_bytes": _FRAME, "batch": size}
        found = now.calibrated("packet", f"{name}mmsg", **labels) if size <= batch else None
        if found is not None:
            return found
    return None


# ------------------------------------------------------------------ CPUs


def _cpus(now: Situation) -> _Found:
    """The functions at one end of the busiest CPU's part of the chain, on another CPU."""
    what = "Spread the functions over more CPUs."
    if not now.cost_ns:
        return
    old = now.most_kpps(now.cost_ns, now.cpus, now.handover_ns, now.turn)
    loads: defaultdict[int, float] = defaultdict(float)
    for name, ns in now.cost_ns.items():
        loads[now.cpus[name]] += ns
    busiest = max(loads, key=lambda cpu: loads[cpu])
    there = [name for name in now.path if now.cpus[name] == busiest]
    targets = sorted({*now.free, *loads} - {busiest})
    if not now.free:
        yield f"{what} No CPU is free."
    best: tuple[float, list[str], int] | None = None
    for target in targets:
        for at in range(1, len(there)):
            for moved in (there[:at], there[at:]):
                cpus = now.cpus | dict.fromkeys(moved, target)
                most = now.most_kpps(now.cost_ns, cpus, now.handover_ns, now.turn)
                if best is None or most > best[0]:
                    best = most, moved, target
    if best is None:
        return
    most, moved, target = best
    yield Advice(
        what=f"Move {', '.join(moved)} to CPU {target}.",
        change={f"functions.{name}.cpu": target for name in moved},
        expected_gain=most / max(old, now.use.delivered_kpps),
        kind="throughput",
        rests_on=[
            now.costs_told,
            f"source and sink take {now.use.engine_ns:,.0f} ns a packet (engine)",
            now.passes,
        ],
    )


_RULES: tuple[Callable[[Situation], _Found], ...] = (
    _scheduler, _blocking, _order, _delay, _queues, _driver, _batch, _cpus,
)  # fmt: skip
