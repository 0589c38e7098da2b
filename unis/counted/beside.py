"""What `unis profile chain` finds out of a chain beside the parts of a packet's time."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from unis.counted.counting import COSTLY, FREE, Counting, counted_chain
from unis.counted.flame import flame_graph, folded
from unis.counted.hot import Hot, HotError, sampled
from unis.counted.references import references
from unis.counted.result import Counted, counted_of, least_share, merged
from unis.engine.client import EngineClient
from unis.plan.model import Plan

_HOT_SECONDS = 30.0  # of windows that are sampled: perf keeps a stack of 4 KiB for each sample


@dataclass(frozen=True)
class BesideSettings:
    """What the command line says."""

    hot: bool = False
    references: bool = False
    folder: Path | None = None  # for the stacks and their picture


class Beside:
    """What is counted, and what the functions were found running."""

    def __init__(
        self,
        plan: Plan,
        client: EngineClient,
        settings: BesideSettings,
        report: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._report = report
        self._chain = counted_chain(plan, client)
        self._free = Counting(self._chain, FREE, of_engine=True)
        self._costly = Counting(self._chain, COSTLY)
        self.missing: list[str] = []
        self.hot: Hot | None = None

    def counting(self, settle: float, window: float) -> AbstractContextManager[None]:
        """Around a window in which nothing is traced; its times in seconds."""
        return self._free.during(settle, window)

    def own_windows(
        self, measure: Callable[[], object], rounds: int, settle: float, window: float
    ) -> None:
        """Windows of what would disturb the others."""
        for _ in range(rounds):
            with self._costly.during(settle, window):
                measure()
        if self._settings.hot:
            self._report("sampling what the functions run")
            most = max(1, round(_HOT_SECONDS / (settle + window)))
            self._sample(lambda: [measure() for _ in range(min(rounds, most))])

    def counted(self) -> Counted:
        """Of all windows so far. Caches are simulated now, which takes seconds a function."""
        self.missing += [*self._free.missing, *self._costly.missing]
        rows = [
            row
            for each in (self._free, self._costly)
            for row in counted_of(each.windows, each.units)
        ]
        if self._settings.references:
            modelled, missing = references(self._plan, self._report)
            rows += modelled
            self.missing += missing
        return Counted(
            places=merged(rows, [each.name for each in self._plan.functions]),
            counter_share=least_share(self._costly.windows),
        )

    def _sample(self, windows: Callable[[], object]) -> None:
        try:
            found = sampled(self._chain, windows)
        except HotError as error:
            self.missing.append(str(error))
            return
        self.hot = found.hot
        self.missing += found.missing
        if (folder := self._settings.folder) is not None:
            title = f"{self._plan.name}: where functions were found running ({found.hot.event})"
            try:
                (folder / "hot.folded").write_text(folded(found.stacks))
                (folder / "hot.svg").write_text(flame_graph(found.stacks, title))
            except OSError as error:
                self.missing.append(f"hot functions: cannot write {folder}: {error.strerror}")
