"""Fig. 4 and Table 4: one router in four contexts of I/O."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluation.caches.functions import record_function
from evaluation.caches.geometry import read_caches
from evaluation.caches.model import CacheProfile, cache_profile
from evaluation.scc import paper
from evaluation.scc.arms import DEFAULT
from evaluation.scc.chains import ROUTER, ChainSpec
from evaluation.scc.profiler.found import ContextRow, References
from evaluation.scc.windows import Bench
from unis.errors import UnisError
from unis.measure.paired import interval
from unis.plan.machine import Machine
from unis.runtime.planning import plan_chain

_PROBES = 3  # windows that say what passes at most, beside those of the rounds
_KERNEL = "evaluation.scc.profiler.kernel_router"
_PROVIDER = "modelled: references of the program under Valgrind, caches simulated"
_USER_ONLY = "of the program alone: what the kernel touches for it is not modelled"


@dataclass(frozen=True)
class Context:
    """One of the paper's, and what stands for it here."""

    name: str  # for people
    key: str  # in paper.toml
    how: str
    spec: ChainSpec | None  # None: Linux itself
    has_parts: bool = True  # of Open vSwitch nobody tells when it has a packet


CONTEXTS = (
    Context(
        "user + Open vSwitch", "user_ovs", "our router, over Open vSwitch's userspace datapath",
        ChainSpec(1, "ovs", program=ROUTER), has_parts=False,
    ),
    Context(
        "user", "user", "our router, packet sockets on veth, 32 frames a call",
        ChainSpec(1, program=ROUTER),
    ),
    Context("kernel", "kernel", "Linux routes between two pairs of veth", None, False),
    Context(
        "DPDK", "dpdk", "our router, rings of shared memory",
        ChainSpec(1, "ring", "", None, program=ROUTER),
    ),
)  # fmt: skip


def paper_references(key: str) -> References:
    """As Table 4 has them."""
    l1, l2, l3, dram = paper.context(key)[1]
    return References(provider="hardware counters (Table 4)", l1=l1, l2=l2, l3=l3, dram=dram)


@dataclass(frozen=True)
class UserSeen:
    """A chain of one router, at its two loads."""

    latencies_us: Sequence[float]
    ns_per_packet: Sequence[float]
    parts_us: float | None


def look_at_user(
    bench: Bench, rounds: int, window: float, parts: Callable[[Bench], float | None]
) -> UserSeen:
    """A router that polls, under the default of the kernel, as in the paper. `parts`: the sum of a
    profile, if there is one.
    """
    most = bench.most_kpps(DEFAULT, window, _PROBES)
    full = [bench.window(DEFAULT, window, None) for _ in range(rounds)]
    bench.window(DEFAULT, window, 500 * most)  # what is in the queues comes out
    half = [bench.window(DEFAULT, window, 500 * most) for _ in range(rounds)]
    latencies = [each.percentile_us(50) for each in half]
    return UserSeen(
        [us for us in latencies if us is not None],
        [1e6 / each.kpps for each in full if each.kpps],
        parts(bench),
    )


def user_row(context: Context, seen: UserSeen, references: References | None) -> ContextRow:
    """Of a router of ours. UnisError: nothing came through."""
    if not seen.latencies_us or not seen.ns_per_packet:
        raise UnisError("no packet comes through the router", bad_input=False)
    return ContextRow(
        context=context.name,
        how=context.how,
        latency_us=statistics.median(seen.latencies_us),
        parts_us=seen.parts_us,
        ns_per_packet=statistics.median(seen.ns_per_packet),
        interval=interval(seen.ns_per_packet),
        references=references,
        no_references=_USER_ONLY if references else "the program could not be recorded",
        paper=paper.context(context.key)[0],
        paper_references=paper_references(context.key),
    )


def references_of(machine: Machine, report: Callable[[str], None]) -> References:
    """Of the router, whatever its links. UnisError: Valgrind or the caches' sizes are missing."""
    chain = ChainSpec(1, "ring", "", None, program=ROUTER).loaded(max(machine.cpus))
    plan = plan_chain(chain, machine)
    recorded = record_function(plan, plan.functions[0], report)
    return modelled(cache_profile(recorded, read_caches()))


def modelled(profile: CacheProfile) -> References:
    """What each level is asked for."""
    return References(
        provider=_PROVIDER,
        l1=profile.references,
        l2=profile.l2_hits + profile.llc_references,
        l3=profile.llc_references,
        dram=profile.misses[-1],
    )


# ------------------------------------------------------------------ Linux


def kernel_told(cpu: int, rounds: int, window: float) -> list[dict[str, float]]:
    """What `kernel_router` prints. UnisError: it cannot."""
    seconds = 20 + 3 * rounds * window
    command = [
        "unshare", "--net", sys.executable, "-m", _KERNEL, str(cpu), str(rounds), str(window),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnisError(f"Linux as a router: {error}", bad_input=False) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise UnisError(f"Linux as a router: {last}", bad_input=False)
    found: list[dict[str, float]] = json.loads(done.stdout)
    return found


def kernel_row(context: Context, told: Sequence[dict[str, float]]) -> ContextRow:
    """UnisError: it did not route them all."""
    lost = sum(1 for each in told if each["came"] < each["sent"])
    if lost:
        raise UnisError(f"Linux as a router lost frames in {lost} of {len(told)} windows")
    values = [each["routed_ns"] - each["ended_ns"] for each in told]
    ns = statistics.median(values)
    return ContextRow(
        context=context.name,
        how=f"{context.how}; within the send call: less what a frame takes that ends before it",
        latency_us=ns / 1000,  # nobody else runs in between
        parts_us=None,
        ns_per_packet=ns,
        interval=interval(values),
        references=None,
        no_references="the kernel's need hardware counters",
        paper=paper.context(context.key)[0],
        paper_references=paper_references(context.key),
    )
