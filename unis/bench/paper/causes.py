"""Figures that ask for the reasons, 9 to 13: switches, CPU, caches."""

import statistics
from collections.abc import Callable, Sequence

from unis.bench.paper import arms
from unis.bench.paper.cases import Case
from unis.bench.paper.figure import FigureOf, Found, judged, spread_at
from unis.bench.paper.measured import Measured, Window
from unis.bench.paper.rows import context_switches, median_of, ratio, row, slowest
from unis.report.evaluation import Figure, Plot, Point, Row

_LOOKED = (arms.PRIORITY, arms.HANDOVER, *arms.K.values())


def fig9(found: Found) -> FigureOf:
    """Throughput by the distance between yields."""
    of = found.of("fig9")
    plots = [_bars(case, measured, lambda window: window.mpps, "Mpps") for case, measured in of]
    told: list[str] = []
    agrees = True
    for case, measured in of:
        k8, k16, k24 = (statistics.median(measured.mpps(arms.K[k])) for k in (8, 16, 24))
        unis = ratio(measured, arms.PRIORITY, arms.PAPER_K)
        if case.cost == "light":
            agrees &= k8 >= max(k16, k24) and unis is not None and unis.lo < 1
        else:
            agrees &= k8 <= k16 <= k24
        told.append(
            f"{case.cost}: "
            + ", ".join(f"k = {k} {_mpps(measured, arms.K[k]):.2f}" for k in arms.K)
            + f", UNiS as in the paper {_mpps(measured, arms.PRIORITY):.2f}, hand-over "
            f"{_mpps(measured, arms.HANDOVER):.2f} Mpps"
        )
    return Figure(
        key="fig9", name="Fig. 9", title="Throughput by the bursts between yields, five functions",
        paper="Light functions pass most with k = 8, less with 16 and 24, less still under UNiS; "
        "medium ones the more the larger k is.",
        ours="; ".join(told) + ".", verdict=judged(agrees),
        why="" if agrees else "the second-level cache here holds the packets of longer turns, so "
        "that fewer switches pay for light functions too",
        source=["measured"], plots=plots,
    ), _rows("fig9", of)  # fmt: skip


def fig10(found: Found) -> FigureOf:
    """Context switches of light functions."""
    return _switches(found, "fig10", "Fig. 10", "light")


def fig13(found: Found) -> FigureOf:
    """Switches and CPU of medium functions."""
    figure, rows = _switches(found, "fig13", "Fig. 13", "medium")
    ((case, measured),) = found.of("fig13")
    more, told, plot = _slowest(case, measured)
    agrees = figure.verdict == "agrees" and more
    return figure.model_copy(
        update={
            "title": "Context switches and CPU of five medium functions",
            "paper": "As with light ones: UNiS makes less than half of the switches of k = 8, and "
            "the slowest function has a little more of the CPU.",
            "ours": f"{figure.ours} {told}",
            "verdict": judged(agrees),
            "why": figure.why or ("" if more else _LESS),
            "plots": [*figure.plots, plot],
        }
    ), rows


_LESS = "what is lost in switches by priority, each an interrupt into a virtual CPU, all lack"


def _switches(found: Found, key: str, name: str, cost: str) -> FigureOf:
    of = found.of(key)
    ((case, measured),) = of
    by_arm = {arm: median_of(measured, arm, context_switches) for arm in _LOOKED}
    share = by_arm[arms.PRIORITY] / by_arm[arms.PAPER_K]
    told = ", ".join(f"{arm} {count:,.0f}" for arm, count in by_arm.items())
    return Figure(
        key=key, name=name, title=f"Context switches of five {cost} functions",
        paper="UNiS makes less than half of the context switches of k = 8.",
        ours=f"Of a function in a second: {told}; UNiS as in the paper {share:.2f} of k = 8.",
        verdict=judged(share < 0.5),
        why="" if share < 0.5 else "turns end earlier than the ring would allow: a switch is "
        "begun so early that it is done when the slice ends",
        source=["measured"],
        plots=[_bars(case, measured, context_switches, "context switches of a function, 1/s")],
    ), _rows(key, of)  # fmt: skip


def fig11(found: Found) -> FigureOf:
    """The CPU of the slowest function."""
    of = found.of("fig11")
    ((case, measured),) = of
    more, told, plot = _slowest(case, measured)
    return Figure(
        key="fig11", name="Fig. 11", title="CPU of the slowest of five light functions",
        paper="A little more of the CPU's cycles than with k = 8 under UNiS, k = 16 and k = 24. "
        "Here: its share of the CPU's time, as the kernel counts it.",
        ours=told, verdict=judged(more), why="" if more else _LESS, source=["measured"],
        plots=[plot],
    ), _rows("fig11", of)  # fmt: skip


def _slowest(case: Case, measured: Measured) -> tuple[bool, str, Plot]:
    """Whether nobody has less than with k = 8, in words, and a picture."""
    least = {arm: median_of(measured, arm, slowest) for arm in _LOOKED}
    others = (arms.PRIORITY, arms.K[16], arms.K[24])
    more = all(least[arm] >= 0.97 * least[arms.PAPER_K] for arm in others)
    told = ", ".join(f"{arm} {100 * of:.1f}" for arm, of in least.items())
    plot = _bars(case, measured, lambda window: 100 * slowest(window), "% of the CPU")
    return more, f"The slowest has, % of the CPU: {told}.", plot


def fig12(found: Found) -> FigureOf:
    """Cache misses, for which there must be counters."""
    of = found.of("fig12")
    figure = Figure(
        key="fig12", name="Fig. 12", title="Cache misses of each function",
        paper="More under UNiS and with larger k: the last of five light functions misses in "
        "9.8 % of its references under UNiS, in 4.9 % with k = 8.",
        ours="Not measured.", verdict="cannot be had here",
        why=of[0][1].no_counters or "nothing was counted", source=[], plots=[],
    )  # fmt: skip
    shown = (arms.PRIORITY, arms.HANDOVER, arms.PAPER_K, arms.K[24])
    plots: list[Plot] = []
    told: list[str] = []
    agrees = True
    for case, measured in of:
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
        told.append(
            f"{case.cost}, the last function: "
            + ", ".join(f"{arm} {of:.1f} %" for arm, of in zip(shown, last, strict=True))
        )
        agrees &= case.cost != "light" or last[0] > last[2]
    return figure.model_copy(
        update={
            "ours": "; ".join(told) + ".",
            "verdict": judged(agrees),
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


def _bars(case: Case, measured: Measured, of: Callable[[Window], float], y: str) -> Plot:
    points = [spread_at(_short(arm), measured.values(arm, of)) for arm in _LOOKED]
    return Plot(
        kind="bars", title=f"{case.length} {case.cost} functions", x="", y=y, series={y: points}
    )


def _short(arm: str) -> str:
    return arm.replace("cooperative/", "k = ")


def _mpps(measured: Measured, arm: str) -> float:
    return statistics.median(measured.mpps(arm))


def _rows(key: str, of: Sequence[tuple[Case, Measured]]) -> list[Row]:
    return [row(key, case, measured, arm) for case, measured in of for arm in _LOOKED]
