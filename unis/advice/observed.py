"""What the counters of a run say of its chain at overload."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from types import MappingProxyType

from unis.engine import names
from unis.engine.client import EngineClient
from unis.engine.histogram import Latency
from unis.measure.windows import Arm, Offered, Span, measure, overload, rr_slice, span_of_cycles
from unis.parts.advised import BY_KERNEL, LINK_FULL, ChainUse, FunctionUse
from unis.plan.model import Plan
from unis.plan.wiring import POLLING_POLICIES
from unis.v1 import engine_pb2 as pb

_SETTLE = 0.15  # seconds
_TICK_S = 0.004  # what threads that spin have of the fair class at 250 Hz


def observed(
    plan: Plan, client: EngineClient, path: list[str], window: float, half_pps: float
) -> ChainUse:
    """Of a chain that is up: a window (seconds) at overload, and one at the load of its profile.

    EngineError.
    """
    span = span_of_plan(plan, window)
    now = client.stats()
    policy = names.policy_name(now.policy)
    controller = names.controller_name(now.controller) if now.controller else plan.controller
    waits = frozenset(function.name for function in plan.functions if function.waits)
    costs = {} if waits or policy in POLLING_POLICIES else _costs(client, plan, window)
    arm = Arm(policy, controller, offered=overload(plan))
    measure(client, arm, Span(0.01, 0.05), controller)  # until it is in force
    before = client.stats()
    reply = measure(client, arm, span, controller)
    after = client.stats()
    client.settle()
    half = Arm(policy, controller, offered=Offered(half_pps, "constant"))
    latency = Latency([measure(client, half, span, controller).latency])
    use = of_stats(before, after, path, controller, waits, costs)
    return use.model_copy(
        update={
            "delivered_kpps": reply.delivered / reply.window_ns * 1e6,
            "engine_ns": min(use.engine_ns, engine_ns(after, client.stats())),
            "p95_us": latency.percentile_us(95),
        }
    )


def span_of_plan(plan: Plan, window: float) -> Span:
    """Long enough that functions that poll under the kernel have each had several time slices."""
    sharing = max(Counter(function.cpu for function in plan.functions).values())
    waits = any(function.waits for function in plan.functions)
    if plan.policy in POLLING_POLICIES or waits or sharing == 1:
        return Span(_SETTLE, window)
    fair = max(_TICK_S, (plan.scheduler.fair_slice_ms or 0) / 1000)
    cycle = sharing * (rr_slice(plan) if plan.policy == "rr" else fair)
    return Span(max(_SETTLE, 2 * cycle), span_of_cycles(cycle, window).window)


def _costs(client: EngineClient, plan: Plan, window: float) -> dict[str, float]:
    """Of a packet in functions that poll, ns: the engine follows them where turns are whole, so the
    functions hand over for a window.
    """
    arm = Arm("unis", "handover", offered=overload(plan))
    now = client.stats()
    try:
        measure(client, arm, Span(_SETTLE, window), "handover")
        return {each.name: each.cost_ns for each in client.stats().functions if _is_known(each)}
    finally:  # also after Ctrl-C: a run that was up before goes on as it was
        client.set_policy(now.policy, now.controller or None)


def _is_known(function: pb.FunctionStats) -> bool:
    return function.cost_source != pb.COST_SOURCE_ASSUMED


def of_stats(
    before: pb.Stats,
    after: pb.Stats,
    path: list[str],
    controller: str,
    waits: Collection[str] = (),
    costs: Mapping[str, float] = MappingProxyType({}),
) -> ChainUse:
    """Of the time between two snapshots. What one of them lacks counts as none.

    `waits`: functions that do so in their receive call. `costs`: better known ones, ns.
    """
    delivered = max(1, after.account.delivered - before.account.delivered)
    was = {each.name: each for each in before.functions}
    now = {each.name: each for each in after.functions}
    lost = {
        "first ring full": after.account.dropped_ingress_full - before.account.dropped_ingress_full,
        BY_KERNEL: after.account.dropped_on_links - before.account.dropped_on_links,
        LINK_FULL: after.account.dropped_egress_full - before.account.dropped_egress_full,
    }
    return ChainUse(
        policy=names.policy_name(after.policy),
        controller=controller,
        delivered_kpps=0,
        engine_ns=engine_ns(before, after),
        functions=[
            _use(was[name], now[name], delivered, waits, costs.get(name))
            for name in path
            if name in was and name in now
        ],
        lost={place: max(0, count) / delivered for place, count in lost.items()},
        out_of_order=_out_of_order(before, after),
        switch_ns=max((core.switch_ns for core in after.cores), default=0),
        p95_us=None,
    )


def _use(
    before: pb.FunctionStats,
    after: pb.FunctionStats,
    delivered: int,
    waits: Collection[str],
    cost_ns: float | None,
) -> FunctionUse:
    one, other = before.time, after.time
    elapsed = max(1, other.elapsed_ns - one.elapsed_ns)

    def share(*keys: str) -> float:
        passed = [int(getattr(other, key)) - int(getattr(one, key)) for key in keys]
        return sum(max(0, each) for each in passed) / elapsed

    def packets(stats: pb.FunctionStats) -> int:
        return sum(path.rx_packets for path in stats.paths)

    def switches(stats: pb.FunctionStats) -> int:
        return stats.voluntary_switches + stats.involuntary_switches

    received = max(0, packets(after) - packets(before))
    if cost_ns is None:
        cost_ns = after.cost_ns if _is_known(after) else 0
    by_kernel = not cost_ns and after.name in waits and received > 0
    if by_kernel:
        cost_ns = max(0, after.cpu_time_ns - before.cpu_time_ns) / received
    return FunctionUse(
        name=after.name,
        cpu=after.cpu,
        cost_ns=cost_ns,
        cost_by="kernel" if by_kernel else "engine",
        switches=max(0, switches(after) - switches(before)) / max(1, received),
        packets=received / delivered,
        busy=share("busy_ns"),
        spinning=share("spinning_ns"),
        waiting=share("run_delay_ns", "backpressured_ns"),
        sleeping=share("blocked_ns"),
    )


def engine_ns(before: pb.Stats, after: pb.Stats) -> float:
    """Of a packet that passes, on the busiest CPU of the platform. At overload it is too much: what
    the source does with packets for which the first link has no room is in it.
    """
    was = {(each.name, each.cpu): each for each in before.components}
    one, other = before.account, after.account
    sent = other.offered - one.offered - (other.dropped_ingress_full - one.dropped_ingress_full)
    passed = {"source": sent, "sink": other.delivered - one.delivered, "bridges": sent}
    by_cpu: defaultdict[int, float] = defaultdict(float)
    for part in after.components:
        old = was.get((part.name, part.cpu), pb.ComponentStats())
        if packets := passed.get(part.name, 0):
            by_cpu[part.cpu] += max(0, part.busy_ns - old.busy_ns) / max(1, packets)
    return max(by_cpu.values(), default=0.0)


def _out_of_order(before: pb.Stats, after: pb.Stats) -> float | None:
    def total(stats: pb.Stats, key: str) -> int:
        return sum(int(getattr(core, key)) for core in stats.cores)

    seen = total(after, "order_seen") - total(before, "order_seen")
    if seen <= 0:
        return None
    return max(0, total(after, "out_of_order") - total(before, "out_of_order")) / seen
