"""Figures that ask for the reasons, 9 to 13: switches, CPU, caches."""

import statistics
from collections.abc import Callable, Sequence

from evaluation.paper import arms
from evaluation.paper.case import MAIN
from evaluation.paper.cases import LENGTH_LOOKED_INTO
from evaluation.paper.figure import Chain, FigureFinding, FigureOf, spread_at
from evaluation.paper.judging import all_of, at_least, at_most, over_lengths, told
from evaluation.paper.measured import Measured, Window
from evaluation.paper.results import Figure, Plot, Point, ResultRow, Verdict
from evaluation.paper.rows import context_switches, ratios_of, row, slowest
from unis.measure.paired import Ratio, pooled

_LOOKED = (arms.PRIORITY, arms.HANDOVER, *arms.K.values())
_HALF = 0.5
_RULE_OF_SWITCHES = "UNiS as in the paper makes at most half of the switches of k = 8"
_LITTLE = 0.03  # of the CPU: the paper has "marginally more", so as much less contradicts it
_RULE_OF_CPU = (
    "the slowest has more of the CPU under UNiS, k = 16 and k = 24 than with k = 8 (3 % less is "
    "needed to differ)"
)
_OVER = "; each by the mean over the lengths"


def fig9(found: FigureFinding) -> FigureOf:
    """Throughput by the distance between yields."""
    of = found.of("fig9")
    verdicts: list[Verdict] = []
    words: list[str] = []
    for cost in ("light", "medium"):
        there = [(case, measured) for case, measured in of if case.cost == cost]
        if not there:
            continue
        k16, k24, unis = (
            over_lengths(there, arm, arms.PAPER_K, MAIN)
            for arm in (arms.K[16], arms.K[24], arms.PRIORITY)
        )
        verdicts += [(at_most if cost == "light" else at_least)(k, 1.0) for k in (k16, k24)]
        verdicts.append(at_most(unis, 1.0))
        words.append(
            f"{cost}, by k = 8: k = 16 {told(k16)}, k = 24 {told(k24)}, UNiS as in the paper "
            f"{told(unis)}"
        )
    verdict = all_of(verdicts)
    return Figure(
        key="fig9", name="Fig. 9", title="Throughput by the bursts between yields",
        paper="Five light functions pass most with k = 8, less with 16 and 24, less still under "
        "UNiS; five medium ones the more the larger k is, and UNiS less than k = 8.",
        ours="; ".join(words) + " (the mean over the lengths).",
        rule="with k = 16 and with 24 light functions pass no more, medium ones no less than with "
        "8; UNiS as in the paper passes no more than k = 8" + _OVER,
        verdict=verdict,
        why="" if verdict == "agrees" else "longer turns cost light functions no more here; "
        "without counters it is not known what the caches do",
        source=["measured"],
        plots=[_bars(one, lambda window: window.mpps, "Mpps") for one in _looked_into(of)],
    ), _rows("fig9", of)  # fmt: skip


def fig10(found: FigureFinding) -> FigureOf:
    """Context switches of light functions."""
    of = found.of("fig10")
    verdict, words = _switches(of)
    return Figure(
        key="fig10", name="Fig. 10", title="Context switches of light functions",
        paper="Five light functions: UNiS makes less than half of the context switches of k = 8.",
        ours=words, rule=_RULE_OF_SWITCHES + _OVER, verdict=verdict,
        why="" if verdict == "agrees" else "turns end earlier than the ring would allow",
        source=["measured"],
        plots=[_bars(one, context_switches, _SWITCHES) for one in _looked_into(of)],
    ), _rows("fig10", of)  # fmt: skip


def fig11(found: FigureFinding) -> FigureOf:
    """The CPU of the slowest function."""
    of = found.of("fig11")
    verdict, words = _slowest(of)
    return Figure(
        key="fig11", name="Fig. 11", title="CPU of the slowest of light functions",
        paper="Of five light functions the slowest has a little more of the CPU's cycles than with "
        "k = 8 under UNiS, k = 16 and k = 24. Here: its share of the CPU's time, as the kernel "
        "counts it.",
        ours=words, rule=_RULE_OF_CPU + _OVER, verdict=verdict,
        why="" if verdict == "agrees" else _LESS, source=["measured"],
        plots=[_bars(one, _percent, "% of the CPU") for one in _looked_into(of)],
    ), _rows("fig11", of)  # fmt: skip


def fig13(found: FigureFinding) -> FigureOf:
    """Switches and CPU of medium functions."""
    of = found.of("fig13")
    switches, of_switches = _switches(of)
    cpu, of_cpu = _slowest(of)
    verdict = all_of([switches, cpu])
    return Figure(
        key="fig13", name="Fig. 13", title="Context switches and CPU of medium functions",
        paper="As with light ones: UNiS makes less than half of the switches of k = 8, and the "
        "slowest function has a little more of the CPU.",
        ours=f"{of_switches} {of_cpu}",
        rule=f"{_RULE_OF_SWITCHES}, and {_RULE_OF_CPU}{_OVER}",
        verdict=verdict, why="" if verdict == "agrees" else _LESS, source=["measured"],
        plots=[
            plot
            for one in _looked_into(of)
            for plot in (_bars(one, context_switches, _SWITCHES), _bars(one, _percent, _CPU))
        ],
    ), _rows("fig13", of)  # fmt: skip


_SWITCHES, _CPU = "context switches of a function, 1/s", "% of the CPU"
_LESS = "what is lost in switches by priority all functions lack, and it is little either way"


def _switches(of: Sequence[Chain]) -> tuple[Verdict, str]:
    by_paper_k = _by_paper_k(of, arms.PRIORITY, context_switches)
    handed = _by_paper_k(of, arms.HANDOVER, context_switches)
    return at_most(by_paper_k, _HALF), (
        f"Switches of a function by those with k = 8: UNiS as in the paper {told(by_paper_k)}, "
        f"hand-over {told(handed)}."
    )


def _slowest(of: Sequence[Chain]) -> tuple[Verdict, str]:
    by_paper_k = {
        arm: _by_paper_k(of, arm, slowest) for arm in (arms.PRIORITY, arms.K[16], arms.K[24])
    }
    words = ", ".join(f"{_short(arm)} {told(found, 3)}" for arm, found in by_paper_k.items())
    return (
        all_of(at_least(found, 1.0, _LITTLE) for found in by_paper_k.values()),
        f"CPU of the slowest by that with k = 8: {words}.",
    )


def _by_paper_k(of: Sequence[Chain], arm: str, what: Callable[[Window], float]) -> Ratio | None:
    return pooled([ratios_of(measured, arm, arms.PAPER_K, what) for _, measured in of])


def fig12(found: FigureFinding) -> FigureOf:
    """Cache misses, for which there must be counters."""
    of = found.of("fig12")
    figure = Figure(
        key="fig12", name="Fig. 12", title="Cache misses of each function",
        paper="More under UNiS and with larger k: the last of five light functions misses in "
        "9.8 % of its references under UNiS, in 4.9 % with k = 8.",
        ours="Not measured.",
        rule="the last of light functions misses more under UNiS as in the paper than with k = 8, "
        "by the medians of its windows",
        verdict="cannot be had here", why=of[0][1].no_counters or "nothing was counted", source=[],
        plots=[],
    )  # fmt: skip
    shown = (arms.PRIORITY, arms.HANDOVER, arms.PAPER_K, arms.K[24])
    plots: list[Plot] = []
    words: list[str] = []
    agrees = True
    for case, measured in _looked_into(of):
        misses = {arm: _misses(measured, arm) for arm in shown}
        if not all(misses.values()):
            return figure, _rows("fig12", of)
        plots.append(
            Plot(
                kind="bars",
                title=f"{case.length} {case.cost} functions",
                x="",
                y="% of references missed",
                series={
                    arm: [Point(x=name, y=y) for name, y in by_function.items()]
                    for arm, by_function in misses.items()
                },
            )
        )
        last = [list(misses[arm].values())[-1] for arm in shown]
        words.append(
            f"{case.cost}, the last function: "
            + ", ".join(f"{arm} {of:.1f} %" for arm, of in zip(shown, last, strict=True))
        )
        agrees &= case.cost != "light" or last[0] > last[2]
    return figure.model_copy(
        update={
            "ours": "; ".join(words) + ".",
            "verdict": "agrees" if agrees else "differs",
            "why": "" if agrees else "the caches here hold what longer turns leave in them",
            "source": ["measured"],
            "plots": plots,
        }
    ), _rows("fig12", of)


def _misses(measured: Measured, arm: str) -> dict[str, float]:
    """By function, in the order of the chain, %; empty: not counted."""
    windows = [window.cache_misses for window in measured.values(arm, lambda window: window)]
    names = sorted({name for window in windows for name in window})
    return {
        name: 100 * statistics.median(window[name] for window in windows if name in window)
        for name in names
    }


def _looked_into(of: Sequence[Chain]) -> list[Chain]:
    """The length that the paper shows, of each cost; else the longest that was measured."""
    costs = dict.fromkeys(case.cost for case, _ in of)
    return [
        min(
            ((case, measured) for case, measured in of if case.cost == cost),
            key=lambda chain: (abs(chain[0].length - LENGTH_LOOKED_INTO), -chain[0].length),
        )
        for cost in costs
    ]


def _bars(one: Chain, of: Callable[[Window], float], y: str) -> Plot:
    case, measured = one
    points = [spread_at(_short(arm), measured.values(arm, of)) for arm in _LOOKED]
    return Plot(
        kind="bars", title=f"{case.length} {case.cost} functions", x="", y=y, series={y: points}
    )


def _percent(window: Window) -> float:
    return 100 * slowest(window)


def _short(arm: str) -> str:
    return arm.replace("cooperative/", "k = ")


def _rows(key: str, of: Sequence[Chain]) -> list[ResultRow]:
    return [row(key, case, measured, arm) for case, measured in of for arm in _LOOKED]
