"""`python -m evaluation model`: what is measured, in which steps."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from evaluation.model.chains import (
    CASES,
    KINDS,
    SHAPES,
    THREE,
    ModelCase,
    ModelShape,
    chains_of,
    missing,
)
from evaluation.model.fit import KnownCosts
from evaluation.model.judging import CHAINS, LinkParameters, ModelRow, judged
from evaluation.model.overload import (
    ARMS,
    LINKS,
    LOADS,
    OverloadPoint,
    OverloadRounds,
    overload_rounds,
    points,
)
from evaluation.model.windows import SPAN, ModelBench, ModelRounds, capture_of, captures
from evaluation.paper.progress import Progress
from unis.errors import UnisError
from unis.plan.machine import Machine
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up

_BRING_UP = 9.0  # seconds, of all chains, with their end
_BRING_UP_ONE = 5.0
_ESTIMATE = 3.0
_OVERHEAD = 0.05  # of a window: traffic is sent to another chain
_SWITCH_ROUNDS = 500
_ESTIMATE_ROUNDS = 500  # bursts
_SIZE = 64  # bytes: what macswap costs alone does not depend on it
_FREE = 0  # cycles of a function without work
_RING = "ring"
_T = TypeVar("_T")


@dataclass(frozen=True)
class ModelSettings:
    """What the command line says."""

    kinds: Sequence[str] = KINDS
    rounds: int = 9
    overload_rounds: int = 5


@dataclass
class ModelFound:
    """What there is so far."""

    rows: list[ModelRow] = field(default_factory=list)
    parameters: list[LinkParameters] = field(default_factory=list)
    overload: list[OverloadPoint] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    failed: bool = False
    stolen: list[float] = field(default_factory=list)  # by window


@dataclass(frozen=True)
class _ModelStep:
    name: str
    seconds: float
    run: Callable[[], None]


class ModelMeasurement:
    """Measures step by step."""

    def __init__(
        self, settings: ModelSettings, machine: Machine, report: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._machine = machine
        self._cpu = max(machine.cpus)
        self._report = report
        self._known: KnownCosts | None = None
        self.found = ModelFound()
        self._steps = [*self._all_steps()]

    @property
    def seconds(self) -> float:
        """How long all steps take, as expected."""
        return sum(step.seconds for step in self._steps)

    def measure(self) -> Iterator[ModelFound]:
        """After each step what there is. A step that fails is left out, and told."""
        progress = Progress(self._report, [step.seconds for step in self._steps], [])
        with tempfile.TemporaryDirectory(prefix="unis-model-") as folder:
            self._folder = Path(folder)
            self._folder.chmod(0o755)  # the engine reads captures as whoever it is
            for step in self._steps:
                progress.measuring(step.name, step.seconds)
                try:
                    step.run()
                except UnisError as error:
                    self.found.left_out[step.name] = str(error)
                    self.found.failed = True
                    self._report(f"{step.name}: {error}")
                yield self.found

    def _all_steps(self) -> Iterator[_ModelStep]:
        settings = self._settings
        yield _ModelStep("cost of functions", _BRING_UP_ONE + _ESTIMATE, self._estimate)
        window = SPAN.settle + SPAN.window + _OVERHEAD
        for kind in settings.kinds:
            name = f"{kind}{CHAINS}"
            if why := missing(kind):
                self.found.left_out[name] = why
                continue
            seconds = _BRING_UP + settings.rounds * len(CASES) * window
            yield _ModelStep(name, seconds, partial(self._chains, kind))
        for kind in settings.kinds:
            if kind in LINKS:
                windows = settings.overload_rounds * len(ARMS) * (len(LOADS) + 1) * window
                yield _ModelStep(
                    f"{kind}: overload", _BRING_UP_ONE + windows,
                    partial(self._overload, kind),
                )  # fmt: skip

    # ------------------------------------------------------------------ steps

    def _estimate(self) -> None:
        """The work of functions, and a switch, on rings."""
        cycles = sorted({each for shape in SHAPES for each in shape.cycles})
        alone = [ModelShape(f"work{each}-", (each,), (64,), fits=True) for each in cycles]

        def look(run: Run) -> KnownCosts:
            found = run.client.estimate(
                [shape.functions[0] for shape in alone], {_SIZE: 1}, _ESTIMATE_ROUNDS
            )
            named = {each.function: each.ns for each in found}
            ns = {shape.cycles[0]: named[shape.functions[0]] for shape in alone}
            switch = run.client.switch_cost(self._cpu, _SWITCH_ROUNDS)
            work = {each: max(0.0, ns[each] - ns[_FREE]) for each in cycles}
            return KnownCosts(work, switch.yield_ns, ns[_FREE])

        self._known = self._on(
            _RING, alone, look, Options(start=False, costs="unknown", sizes=[64])
        )

    def _chains(self, kind: str) -> None:
        rounds = self._settings.rounds

        def look(run: Run) -> ModelRounds:
            bench = ModelBench(run, SHAPES, self._folder)
            return bench.rounds(
                CASES, rounds, lambda at: self._report(f"{kind}: round {at} of {rounds}")
            )

        if self._known is None:
            raise UnisError("the cost of functions was not measured")
        measured = self._on(kind, SHAPES, look, Options(costs="unknown"))
        self.found.stolen += [each.stolen for readings in measured for each in readings.values()]
        rows, parameters = judged(kind, measured, self._known)
        self.found.rows += rows
        self.found.parameters.append(parameters)

    def _overload(self, kind: str) -> None:
        rounds = self._settings.overload_rounds

        def look(run: Run) -> OverloadRounds:
            bench = ModelBench(run, (THREE,), self._folder)
            return overload_rounds(
                bench, rounds,
                lambda at: self._report(f"{kind}: overload, round {at} of {rounds}"),
            )  # fmt: skip

        measured = self._on(kind, (THREE,), look, Options(costs="unknown"))
        self.found.overload += points(kind, measured)

    def _on(
        self,
        kind: str,
        shapes: Sequence[ModelShape],
        look: Callable[[Run], _T],
        options: Options,
    ) -> _T:
        captures(self._folder, shapes)
        first = ModelCase(shapes[0], shapes[0].sizes[0])
        file = capture_of(self._folder, shapes, first)
        return brought_up(
            lambda: chains_of(kind, shapes, file, self._cpu), self._machine, options,
            self._report, look,
        )  # fmt: skip
