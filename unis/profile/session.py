"""A profile from beginning to end: what is kept, the run that measures the rest, the result."""

from collections.abc import Callable
from dataclasses import dataclass

from unis import built, version
from unis.errors import UnisError
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.profile.curve import Method
from unis.profile.machine import EngineWindows
from unis.profile.place import this_place
from unis.profile.profiler import Step, Wish, measure, missing
from unis.profile.result import About, Modelled, Profiled, result
from unis.profile.store import Store, StoredProfile, digest, what
from unis.profile.subject import Subject
from unis.profile.windows import OnMachine, Ways
from unis.runtime.costs import known_costs
from unis.runtime.errors import LaunchError
from unis.runtime.planning import plan_chain
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up

# Throughput with 1 to so many ways of the one function of a plan, by a model of the cache; its
# progress is reported. UnisError where the function cannot be modelled.
CacheModel = Callable[[Plan, int, Callable[[str], None]], Modelled]


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    method: Method
    rounds: int  # windows of each kind behind a reading
    window: float  # seconds
    ways: int | None = None  # that functions may have; None: all of the last-level cache


class Session:
    """One profile on this machine."""

    def __init__(
        self,
        subject: Subject,
        settings: Settings,
        ways: Ways | None = None,
        model: CacheModel | None = None,
    ) -> None:
        """`ways`: what sets cache ways, where the machine can; else the `model` tells."""
        self._settings = settings
        self._model = model
        self._ways = ways
        self._machine = Machine.this()
        self._place = this_place(len(self._machine.cpus))
        plan = plan_chain(subject.chain, self._machine)
        if ways and (settings.ways or 0) > ways.most:
            raise LaunchError(f"functions may have {ways.most} ways here, not {settings.ways}")
        self._count = settings.ways or (ways.most if ways else self._place.ways) or 1
        self.wish = Wish(self._count if ways else None, settings.method)
        key = {"rounds": str(settings.rounds), "window": f"{settings.window:g} s"}
        key["ways"] = str(self._count) if ways else "as they are"
        self.store = Store(subject.name, what(plan, self._place, key))
        self._subject = subject

    def missing(self) -> list[Step]:
        """What is known to be lacking of it."""
        return missing(self.wish, self.store.read().undisturbed())

    def profiled(self, report: Callable[[str], None], *, again: bool = False) -> Profiled:
        """Measures what is lacking, all of it if `again`. ImpossibleProfileError: it is none."""
        kept = self.store.new() if again else self.store.read().undisturbed()
        if missing(self.wish, kept):
            self.store.see_that_it_can_be_kept()
            self.store.write(kept)
            kept = self._measured(report)
        elif kept.mpps:
            report(f"nothing is left to measure: {self.store.file} (--again measures again)")
        modelled = None if self._ways else self._modelled(report)
        return result(self.wish, kept, self._about(), modelled)

    def _modelled(self, report: Callable[[str], None]) -> Modelled | str | None:
        """Throughput by ways, or why it cannot be modelled; None where there is no model."""
        if self._model is None:
            return None
        report("throughput by ways is modelled, because this machine cannot set them")
        try:
            plan = plan_chain(self._of_kept().chain, self._machine)
            return self._model(plan, self._count, report)
        except UnisError as error:
            return str(error)

    def _measured(self, report: Callable[[str], None]) -> StoredProfile:
        def measured(run: Run) -> StoredProfile:
            slots = run.plan.links[0].slots
            kept = self.store.read().model_copy(update={"slots": slots})
            windows = EngineWindows(run, self._settings.window)
            backend = OnMachine(windows, self._settings.rounds, self._ways, self.wish.ways)
            return measure(self.wish, backend, kept, self.store.write, report)

        return brought_up(
            lambda: self._of_kept().chain,
            self._machine,
            Options(costs="measured"),
            report,
            measured,
        )

    def _of_kept(self) -> Subject:
        """On the rings on which the first readings were made."""
        slots = self.store.read().slots
        return self._subject.on_rings(slots) if slots else self._subject

    def _about(self) -> About:
        plan = plan_chain(self._of_kept().chain, self._machine)
        costs = known_costs(plan)
        names = [function.name for function in plan.functions]
        known = all(name in costs for name in names)
        return About(
            name=self._subject.name,
            told=self._subject.told,
            traffic=traffic_words(plan),
            place=str(self._place),
            build=f"UNiS {version()}, unisd {digest(built.unisd().read_bytes())[:8]}",
            ways=self._count,
            cost_ns=sum(costs[name].ns for name in names) if known else None,
        )


def traffic_words(plan: Plan) -> str:
    """Packets as one speaks of them."""
    source = plan.traffic.source
    if source.kind == "synthetic":
        size = f"{source.size} B" if isinstance(source.size, int) else source.size
        return f"{size}, {source.flows} flows"
    return str(getattr(source, "file", source.kind))
