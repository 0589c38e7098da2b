"""The steps of `--only profiler`."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from evaluation.caches.geometry import read_caches
from evaluation.scc.arms import DEFAULT, SccArm
from evaluation.scc.chains import ChainSpec
from evaluation.scc.profiler.claims import LENGTHS, injected_title, length_title
from evaluation.scc.profiler.contexts import (
    CONTEXTS,
    Context,
    kernel_row,
    kernel_told,
    look_at_user,
    references_of,
    user_row,
)
from evaluation.scc.profiler.found import LengthRow, ProfilerFound, References
from evaluation.scc.profiler.injections import INJECTIONS, Injection, Injector, On, injected_row
from evaluation.scc.profiler.lengths import (
    ProfiledChain,
    arm_name,
    profile_of,
    profiled,
    slopes,
    waits_of,
)
from evaluation.scc.profiler.primitives import (
    calibrated,
    level_rows,
    memory_points,
    primitive_rows,
)
from evaluation.scc.windows import Bench
from unis.errors import UnisError
from unis.parts.profiler import PartsSettings
from unis.plan.machine import Machine

_BRING_UP = 4.0  # seconds, with its end
_SETTLE = 0.15
_CALIBRATION = 4.0  # seconds
PER_SECOND = 2000.0  # packets to follow: as `unis profile chain` does by default
_OF_A_ROUND, _OF_COPIES = 4, 2  # windows of a profile, the latter on sockets of the kernel
_BESIDE = 11  # windows of a profile that are of no round
# Share of windows with a tracer, and the seconds that it takes to start.
_TRACERS, _TRACER = 0.6, 0.12
_QUICK_WINDOW, _WINDOW = 0.1, 0.4  # seconds
# By length, where functions poll under the kernel's policy: a profile's windows are as long as its
# packets take.
_POLLING_WINDOW = {4: 0.5, 8: 2.5}
_INJECTED_WINDOW = 0.3  # seconds; as many packets as at low rates must be
_CONTENTION = (
    "Tables 5 and 8: contention is run delay ÷ run time, and wait the rest of the time ÷ run time, "
    "by schedstat"
)
_NO_COUNTERS = (
    "Table 4: references are modelled for the program alone, where there are no hardware counters"
)


@dataclass(frozen=True)
class ProfilerStep:
    """What is measured without a pause; it adds to what was found."""

    title: str
    seconds: float  # expected
    run: Callable[[], None]


class ProfilerSteps:
    """All of them."""

    def __init__(
        self,
        found: ProfilerFound,
        on: On,
        machine: Machine,
        rounds: int,
        report: Callable[[str], None],
        *,
        quick: bool,
        lengths: Sequence[int] = (),
    ) -> None:
        self._found = found
        self._on = on
        self._machine = machine
        self._cpu = max(machine.cpus)
        self._rounds = rounds
        self._report = report
        self._quick = quick
        self._window = _QUICK_WINDOW if quick else _WINDOW
        self._lengths = lengths or LENGTHS

    def steps(self) -> Iterator[ProfilerStep]:
        """In the order of the paper; what is injected comes last."""
        yield ProfilerStep("Table 2, Fig. 3", _CALIBRATION, self._primitives)
        for context in CONTEXTS:
            run = functools.partial(self._context, context)
            windows = 5 + 2 * self._rounds
            if context.spec and self._has_parts(context):
                windows += self._of_profile(context.spec)
            yield ProfilerStep(f"Fig. 4, {context.name}", self._seconds(windows), run)
        for chain in profiled(self._lengths):
            windows = len(chain.arms) * self._of_profile(chain.spec) + 8 * chain.waits
            longer = max(0.0, _POLLING_WINDOW.get(chain.spec.length, 0.0) - self._window)
            more = longer * self._of_profile(chain.spec) if DEFAULT in chain.arms else 0.0
            yield ProfilerStep(
                length_title(chain.spec.name), self._seconds(windows) + more,
                functools.partial(self._length, chain),
            )  # fmt: skip
        for injection in INJECTIONS:
            bring_ups = 6 if injection.by == "bring-up" else 1
            each = _SETTLE + _INJECTED_WINDOW + _TRACER
            windows = 2 * self._rounds + bring_ups
            yield ProfilerStep(
                injected_title(injection.name), bring_ups * _BRING_UP + windows * each,
                functools.partial(self._injected, injection),
            )  # fmt: skip

    def _has_parts(self, context: Context) -> bool:
        return context.has_parts and not self._quick

    def _of_profile(self, spec: ChainSpec) -> int:
        """Windows."""
        of_a_round = _OF_A_ROUND + (_OF_COPIES if spec.link in ("veth", "ovs") else 0)
        return _BESIDE + of_a_round * self._rounds

    def _seconds(self, windows: int) -> float:
        return _BRING_UP + windows * (_SETTLE + self._window + _TRACERS * _TRACER)

    # ------------------------------------------------------------------ each

    def _primitives(self) -> None:
        measured, told = calibrated(self._machine, self._report)
        self._found.calibrated = told
        self._found.primitives = primitive_rows(measured)
        self._found.memory = memory_points(measured)
        try:
            self._found.levels = level_rows(self._found.memory, read_caches(self._cpu))
        except UnisError as error:
            self._found.notes.append(f"Fig. 3 by level of the hierarchy: {error}")

    def _context(self, context: Context) -> None:
        if context.spec is None:
            told = kernel_told(self._cpu, self._rounds, self._window)
            self._found.contexts.append(kernel_row(context, told))
            return
        spec = context.spec

        def parts(bench: Bench) -> float | None:
            if not self._has_parts(context):
                return None
            try:
                return self._profile(bench, spec, DEFAULT).explained_us
            except UnisError as error:
                self._found.notes.append(f"Fig. 4, {context.name}, parts: {error}")
                return None

        seen = self._on(spec, lambda bench: look_at_user(bench, self._rounds, self._window, parts))
        self._found.contexts.append(user_row(context, seen, self._references))

    @functools.cached_property
    def _references(self) -> References | None:
        """Of the router's program."""
        self._found.notes.append(_NO_COUNTERS)
        try:
            return references_of(self._machine, self._report)
        except UnisError as error:
            self._found.notes.append(f"Table 4, references: {error}")
            return None

    def _length(self, chain: ProfiledChain) -> None:
        """What an arm cannot be profiled for is told at the end, when the others have been."""
        troubles: list[UnisError] = []

        def look(bench: Bench) -> None:
            for arm in chain.arms:
                try:
                    self._found.lengths.append(self._profile(bench, chain.spec, arm))
                except UnisError as error:
                    troubles.append(error)
            if chain.waits:
                self._found.waits += waits_of(bench, chain.spec, self._window)

        self._on(chain.spec, look)
        self._found.slopes = slopes(self._found.lengths)
        if chain.waits and _CONTENTION not in self._found.notes:
            self._found.notes.append(_CONTENTION)
        if troubles:
            raise troubles[0]

    def _profile(self, bench: Bench, spec: ChainSpec, arm: SccArm) -> LengthRow:
        window = arm.span(spec.length, self._window, self._window).window
        settings = PartsSettings(self._rounds, window, PER_SECOND, 0.5)
        cpus = len(self._machine.cpus)
        parts = profile_of(bench, arm, settings, cpus, self._report)
        return LengthRow(arm=arm_name(spec, arm), length=spec.length, profile=parts)

    def _injected(self, injection: Injection) -> None:
        injector = Injector(self._on, self._cpu, self._rounds, _INJECTED_WINDOW)
        self._found.injected.append(injected_row(injection, injector.pairs(injection)))
