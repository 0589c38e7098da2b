"""`python -m evaluation scc`: what is measured, in which steps, and how long it takes.

A step brings up one chain, or several in turn, and gives rows. Arms alternate in windows of one
bring-up. Chains that differ in what a program is started with, as in `batch`, alternate in
bring-ups, in one order and then in the other.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from evaluation.paper.progress import Progress
from evaluation.scc import paper
from evaluation.scc.arms import (
    BATCH_420,
    BATCH_800,
    BLOCKING,
    DEFAULT,
    HAND_OVER,
    LIGHT,
    ORDERS,
    SLEEPING,
    SccArm,
    policy_arms,
)
from evaluation.scc.chains import TESTPMD_DRIVERS, ChainSpec, batch_title, chain_of_testpmd
from evaluation.scc.claims import NOT_YET, Kept, step_name
from evaluation.scc.profiler.found import ProfilerFound
from evaluation.scc.profiler.steps import ProfilerStep, ProfilerSteps
from evaluation.scc.rows import (
    MIN_ROUNDS,
    Load,
    SccRow,
    arm_of,
    joined,
    paper_name,
    row_of,
    spec_of,
)
from evaluation.scc.windows import Bench, SccRounds, bench_of
from unis import links
from unis.errors import UnisError
from unis.plan.machine import Machine, rr_timeslice_ms
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up
from unis.v1 import engine_pb2 as pb

EXPERIMENTS = (
    "policy", "frames", "order", "batch", "queue", "testpmd", "ovs", "contention", "profiler",
)  # fmt: skip
_MEASURED_WITH = {"contention": "policy"}  # by the windows of another
_BRING_UP = 4.0  # seconds, with its end
_T = TypeVar("_T")
_HALF = 0.5
_CLAIMED_SIZE = 64  # bytes, of `batch`
_SATURATES = 1.05  # times what passes: at that alone queues are full in some blocks only
_OTHER_BLOCKS = 3  # bring-ups where nothing is claimed
_LEAST_PPS = 100.0
_PROBES = 3  # windows that say what passes at most


@dataclass(frozen=True)
class SccSettings:
    """What the command line says."""

    quick: bool
    only: tuple[str, ...] = EXPERIMENTS
    rounds: int = MIN_ROUNDS
    blocks: int = 5  # bring-ups of each chain of `batch` of which something is claimed
    window: float = 0.25  # seconds
    lengths: tuple[int, ...] = ()  # of `policy` and `ovs`; empty: by `quick`

    @property
    def chain_lengths(self) -> tuple[int, ...]:
        """Of `policy`."""
        return self.lengths or ((1, 2, 4, 8) if self.quick else tuple(range(1, 9)))


@dataclass(frozen=True)
class SccStep:
    """What is measured without a pause."""

    experiment: str
    title: str
    seconds: float  # expected
    run: Callable[[], list[SccRow]]

    @property
    def name(self) -> str:
        """Of this step alone."""
        return step_name(self.experiment, self.title)


@dataclass
class Measurements:
    """What there is so far."""

    rows: list[SccRow] = field(default_factory=list)
    accounts: list[Kept] = field(default_factory=list)
    # By the name of a step: why it has no rows, and why its rows do not show what they are to.
    left_out: dict[str, str] = field(default_factory=dict)
    doubted: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)  # steps that ended with an error
    profiler: ProfilerFound = field(default_factory=ProfilerFound)


class SccBench:
    """Measures step by step."""

    def __init__(
        self, settings: SccSettings, machine: Machine, report: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._machine = machine
        self._cpu = max(machine.cpus)
        self._report = report
        self._rr_s = rr_timeslice_ms() / 1000
        self.found = Measurements()
        wanted = {_MEASURED_WITH.get(name, name) for name in settings.only}
        makers = {
            "policy": self._policy,
            "frames": self._frames,
            "order": self._order,
            "batch": self._batch,
            "queue": self._queue,
            "testpmd": self._testpmd,
            "ovs": self._ovs,
            "profiler": self._profiler,
        }
        self.steps = [step for name, make in makers.items() if name in wanted for step in make()]

    @property
    def seconds(self) -> float:
        """How long all steps take, as expected."""
        return sum(step.seconds for step in self.steps)

    def measure(self) -> Iterator[Measurements]:
        """After each step what there is. One that fails is left out and told, and so are those that
        are still to come, as the command may be ended before.
        """
        self.found.left_out |= {step.name: NOT_YET for step in self.steps}
        progress = Progress(self._report, [step.seconds for step in self.steps], [])
        for step in self.steps:
            progress.measuring(f"{step.experiment}: {step.title}", step.seconds)
            try:
                rows = step.run()
            except UnisError as error:
                self.found.left_out[step.name] = str(error)
                self.found.failed.append(f"{step.name}: {error}")
                self._report(self.found.failed[-1])
                continue
            if self.found.left_out.get(step.name) == NOT_YET:
                del self.found.left_out[step.name]
            self.found.rows += rows
            yield self.found
        yield self.found

    # ------------------------------------------------------------------ one bring-up

    def _on(self, spec: ChainSpec, look: Callable[[Bench], _T]) -> _T:
        def seen(run: Run) -> _T:
            with bench_of(run) as bench:
                found = look(bench)
                # Whatever was measured last, all packets come out of the chain now.
                bench.window(HAND_OVER, self._settings.window, None)
                self.found.accounts.append(_kept(spec.name, run.client.settle()))
                return found

        return brought_up(
            lambda: spec.loaded(self._cpu), self._machine, Options(), self._report, seen
        )

    def _loads(
        self, spec: ChainSpec, arms: Sequence[SccArm], of: SccArm, light: Sequence[SccArm]
    ) -> dict[Load, SccRounds]:
        """At half of what passes under `of`, and at all that the source can send. Arms of `light`
        are measured at half of what polling passes as well.
        """
        rounds, window = self._settings.rounds, self._settings.window

        def look(bench: Bench) -> dict[Load, SccRounds]:
            def half_of(arm: SccArm) -> float:
                return max(_LEAST_PPS, _HALF * bench.most_kpps(arm, window, _PROBES) * 1000)

            found: dict[Load, SccRounds] = {}
            if light:
                pps = half_of(DEFAULT)
                bench.window(HAND_OVER, window, pps)  # what is in the queues comes out
                found["light"] = bench.rounds(light, rounds, window, pps)
            half = half_of(of)
            return found | {
                "half": bench.rounds(arms, rounds, window, half),
                "overload": bench.rounds(arms, rounds, window, None),
            }

        return self._on(spec, look)

    def _windows_seconds(self, spec: ChainSpec, arms: Sequence[SccArm], windows: int) -> float:
        spans = [arm.span(spec.length, self._settings.window, self._rr_s) for arm in arms]
        return windows * sum(span.settle + span.window + 0.03 for span in spans)

    def _chain_step(
        self,
        experiment: str,
        spec: ChainSpec,
        arms: Sequence[SccArm],
        of: SccArm,
        light: Sequence[SccArm] = (),
    ) -> SccStep:
        """One chain at all its loads."""
        rounds = self._settings.rounds

        def run() -> list[SccRow]:
            measured = self._loads(spec, arms, of, light)
            return [
                row_of(experiment, spec, arm, load, found, paper=paper_of(spec, arm, load))
                for load, found in measured.items()
                for arm in arms
                if arm.name in found[0]
            ]

        seconds = _BRING_UP + self._windows_seconds(spec, arms, 2 * rounds)
        seconds += self._windows_seconds(spec, light, rounds)
        probed = [of, DEFAULT, HAND_OVER] if light else [of]
        seconds += self._windows_seconds(spec, probed, _PROBES)
        return SccStep(experiment, spec.name, seconds, run)

    # ------------------------------------------------------------------ the experiments

    def _policy(self) -> Iterator[SccStep]:
        """Figs. 9 and 10, Table 6; Table 8 by the same windows."""
        quick = self._settings.quick
        arms = policy_arms(quick=quick, may_wait=True)
        for length in self._settings.chain_lengths:
            yield self._with_contention("policy", ChainSpec(length), arms)
        if not quick:
            few = (DEFAULT, BLOCKING, HAND_OVER, BATCH_800)
            for batch in (1, 2, 16):
                for length in (2, 4, 8):
                    spec = ChainSpec(length, batch=batch)
                    yield self._with_contention("policy", spec, few)

    def _with_contention(self, experiment: str, spec: ChainSpec, arms: Sequence[SccArm]) -> SccStep:
        of = BLOCKING if spec.may_wait else HAND_OVER
        # One function waits for no other.
        light = [arm for arm in arms if arm in LIGHT and spec.length > 1]
        step = self._chain_step(experiment, spec, arms, of, light if experiment == "policy" else ())

        def run() -> list[SccRow]:
            rows = step.run()
            return rows + [_contention_row(row) for row in rows]

        return SccStep(step.experiment, step.title, step.seconds, run)

    def _frames(self) -> Iterator[SccStep]:
        """What is left where the kernel's IP layer has nothing to do with the frames."""
        arms = (DEFAULT, BLOCKING, HAND_OVER)
        rounds, window = self._settings.rounds, self._settings.window

        def look(bench: Bench) -> SccRounds:
            return bench.rounds(arms, rounds, window, None)

        for length in (4, 8):
            spec = ChainSpec(length, frames="local")

            def run(spec: ChainSpec = spec) -> list[SccRow]:
                found = self._on(spec, look)
                return [row_of("frames", spec, arm, "overload", found) for arm in arms]

            seconds = _BRING_UP + self._windows_seconds(spec, arms, rounds)
            yield SccStep("frames", spec.name, seconds, run)

    def _order(self) -> Iterator[SccStep]:
        """The run queue in the order of the chain, and the other way round."""
        spec = ChainSpec(8)
        rounds = 2 * self._settings.rounds
        _, reverse = ORDERS

        def look(bench: Bench) -> SccRounds:
            window = self._settings.window
            half = _HALF * bench.most_kpps(BLOCKING, window, _PROBES) * 1000
            return bench.rounds(ORDERS, rounds, window, half)

        def run() -> list[SccRow]:
            found = self._on(spec, look)
            rows = [
                row_of("order", spec, arm, "half", found, default=reverse.name) for arm in ORDERS
            ]
            if trouble := order_trouble(rows[0], rows[1]):
                self.found.doubted[step_name("order", spec.name)] = trouble
                self._report(f"order: {trouble}")
            return rows

        seconds = _BRING_UP + self._windows_seconds(spec, ORDERS, rounds)
        seconds += self._windows_seconds(spec, [BLOCKING], _PROBES)
        yield SccStep("order", spec.name, seconds, run)

    def _batch(self) -> Iterator[SccStep]:
        """Fig. 8 and Table 7: one function."""
        batches = (2, 8, 32, 128, 256)
        sizes: dict[int, Sequence[int]] = {64: batches, 1500: (32,)}
        if not self._settings.quick:
            sizes = dict.fromkeys((64, 128, 256, 1500), batches)
        for size, of_size in sizes.items():
            base = ChainSpec(1, batch=1, size=size)
            single = ChainSpec(1, batch=1, size=size, calls="single")
            specs = [base, single, *(ChainSpec(1, batch=each, size=size) for each in of_size)]
            blocks = self._settings.blocks if size == _CLAIMED_SIZE else _OTHER_BLOCKS
            yield self._batch_step(batch_title(size, max(of_size)), specs, blocks)

    def _batch_step(self, title: str, specs: Sequence[ChainSpec], blocks: int) -> SccStep:
        arms = (BLOCKING, DEFAULT, HAND_OVER)
        window = self._settings.window
        rounds = max(2, -(-self._settings.rounds // blocks))
        base = specs[0]

        def look_at(block: int) -> dict[str, SccRounds]:
            # The rate is this block's own: machines drift in the minutes between them.
            most = self._on(base, lambda bench: bench.most_kpps(BLOCKING, window, _PROBES))
            found = {}
            for spec in specs[:: -1 if block % 2 else 1]:
                measured = self._on(
                    spec,
                    lambda bench: bench.rounds(arms, rounds, window, 1000 * _SATURATES * most),
                )
                found[spec.name] = [
                    {arm: replace(one, block=block) for arm, one in windows.items()}
                    for windows in measured
                ]
            return found

        def run() -> list[SccRow]:
            measured = [look_at(block) for block in range(blocks)]
            together = {
                arm: [windows for found in measured for windows in joined([*found.items()], arm)]
                for arm in arms
            }
            return [
                row_of(
                    "batch", spec, arm, "saturates batch 1", together[arm], key=spec.name,
                    default=base.name, paper=paper_of_batch(spec, arm),
                )
                for spec in specs
                for arm in arms
            ]  # fmt: skip

        each = _BRING_UP + self._windows_seconds(base, arms, rounds)
        probe = _BRING_UP + self._windows_seconds(base, [BLOCKING], _PROBES)
        return SccStep("batch", title, blocks * (probe + len(specs) * each), run)

    def _queue(self) -> Iterator[SccStep]:
        """How long the queues are: what looks like scheduling, and is not."""
        arms = (DEFAULT, HAND_OVER)
        for slots in (256, 4096) if self._settings.quick else (256, 1024, 4096):
            spec = ChainSpec(4, driver="af_packet", batch=None, slots=slots)
            yield self._chain_step("queue", spec, arms, DEFAULT)

    def _testpmd(self) -> Iterator[SccStep]:
        """A program of others, unmodified."""
        arms = (DEFAULT, HAND_OVER, SLEEPING)
        for link in TESTPMD_DRIVERS:
            spec = chain_of_testpmd(link)
            if link not in links.KINDS:
                name = step_name("testpmd", spec.name)
                self.found.left_out[name] = f"this UNiS has no links of kind {link}"
                continue
            yield self._chain_step("testpmd", spec, arms, DEFAULT)

    def _ovs(self) -> Iterator[SccStep]:
        """Fig. 9: over Open vSwitch."""
        if "ovs" not in links.KINDS:
            self.found.left_out["ovs"] = "this UNiS has no links of kind ovs"
            return
        quick = self._settings.quick
        arms = [
            DEFAULT,
            BLOCKING,
            HAND_OVER,
            SLEEPING,
            BATCH_800,
            SccArm("rr", "polling", 1),
            *([] if quick else [BATCH_420]),
        ]
        lengths = self._settings.lengths or ((2, 4) if quick else range(1, 9))
        for length in lengths:
            # Without multiplexing, as in the paper.
            specs = [ChainSpec(length, "ovs", batch=1, calls="single")]
            specs += [] if quick else [ChainSpec(length, "ovs")]
            for spec in specs:
                yield self._with_contention("ovs", spec, arms)

    def _profiler(self) -> Iterator[SccStep]:
        """Tables 2 to 5 and 8, Figs. 3 to 5, and whether parts are true: no rows of its own."""
        settings = self._settings
        steps = ProfilerSteps(
            self.found.profiler, self._on, self._machine, settings.rounds, self._report,
            quick=settings.quick, lengths=settings.lengths,
        )  # fmt: skip

        def without_rows(step: ProfilerStep) -> list[SccRow]:
            step.run()
            return []

        for step in steps.steps():
            run = functools.partial(without_rows, step)
            yield SccStep("profiler", step.title, step.seconds, run)


# ------------------------------------------------------------------ rows


def order_trouble(chain: SccRow, reverse: SccRow) -> str | None:
    """Why the order of the run queue was not what is compared; None: it was, or nobody counts."""
    if chain.out_of_order is None or reverse.out_of_order is None:
        return None
    if chain.out_of_order > 0.2:
        return f"{chain.out_of_order:.0%} of the switches left the order of the chain"
    if reverse.out_of_order < 0.6:
        return f"only {reverse.out_of_order:.0%} of the switches were reverse"
    return None


def _contention_row(row: SccRow) -> SccRow:
    value = None
    if row.load == "overload":
        value = paper.contention(row.link, paper_name(spec_of(row), arm_of(row)), row.length)
    return row.model_copy(update={"experiment": "contention", "paper": value})


def paper_of(spec: ChainSpec, arm: SccArm, load: Load) -> paper.PaperValue | None:
    """What Fig. 10 has of it. The paper offers many times what its chains pass."""
    if load != "overload" or spec.driver != "mmsg":
        return None
    return paper.latency_of_chain(spec.link, paper_name(spec, arm), spec.length)


def paper_of_batch(spec: ChainSpec, arm: SccArm) -> paper.PaperValue | None:
    """What Fig. 8 or Table 7 has of it: functions that poll, scheduled as by default."""
    if arm != DEFAULT or spec.calls != "vector":
        return None
    return paper.latency_of_batch(spec.batch or 0, spec.size)


def _kept(chain: str, account: pb.Account) -> Kept:
    on_links, in_flight = account.dropped_on_links, account.in_flight
    lost = account.offered - account.delivered - on_links - in_flight
    return Kept(
        chain=chain,
        offered=account.offered,
        delivered=account.delivered,
        dropped_on_links=on_links,
        dropped=lost - account.unaccounted,
        by_functions=account.dropped_by_function,
        in_flight=in_flight,
        unaccounted=account.unaccounted,
        exact=account.exact,
        doubt=account.doubt,
    )


def kernel_settings(rows: Sequence[SccRow]) -> dict[str, list[str]]:
    """Table 6: what the kernel says of the functions under each arm, as read back."""
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(replace(arm_of(row), order=None).name, set()).update(row.kernel_class)
    return {name: sorted(told) for name, told in found.items()}
