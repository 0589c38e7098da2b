"""Figures 9 to 13, on causes: switches, CPU, caches."""

import statistics
from collections.abc import Callable, Sequence

from evaluation.paper import arms
from evaluation.paper.case import MAIN
from evaluation.paper.cases import DETAILED_LENGTH
from evaluation.paper.figure import FigureAndRows, Findings, MeasuredCase, spread_at
from evaluation.paper.judging import (
    at_least,
    at_most,
    combined,
    interval_text,
    mean_over_lengths,
    pooled,
)
from evaluation.paper.measured import ArmWindow, Measured
from evaluation.paper.results import Figure, Plot, Point, ResultRow, Verdict
from evaluation.paper.rows import context_switches, ratios_of, row, slowest_cpu_share
from unis.measure.paired import Ratio

_SHOWN = (arms.PRIORITY, arms.HANDOVER, *arms.K.values())
_HALF = 0.5
_RULE_OF_SWITCHES = "UNiS as in the paper makes at most half of the switches of k = 8"
_LITTLE = 0.03  # the paper has "marginally more" CPU: only clearly less contradicts it
_RULE_OF_CPU = (
    "the slowest function has more of the CPU under UNiS, k = 16 and k = 24 than with k = 8; less "
    "by 3 % or more differs"
)
_OVER = "; each is the mean over the lengths"


def fig9(findings: Findings) -> FigureAndRows:
    """Throughput by the distance between yields."""
    chains = findings.chains("fig9")
    verdicts: list[Verdict] = []
    words: list[str] = []
    for cost in ("light", "medium"):
        same_cost = [(case, measured) for case, measured in chains if case.cost == cost]
        if not same_cost:
            continue
        k16, k24, unis = (
            mean_over_lengths(same_cost, arm, arms.PAPER_K, MAIN)
            for arm in (arms.K[16], arms.K[24], arms.PRIORITY)
        )
        verdicts += [(at_most if cost == "light" else at_least)(k, 1.0) for k in (k16, k24)]
        verdicts.append(at_most(unis, 1.0))
        words.append(
            f"{cost}, ÷ k = 8: k = 16 {interval_text(k16)}, k = 24 {interval_text(k24)}, "
            f"UNiS as in the paper {interval_text(unis)}"
        )
    verdict = combined(verdicts)
    return Figure(
        key="fig9", name="Fig. 9", title="Throughput by the bursts between yields",
        paper="Five light functions have the most throughput with k = 8, less with 16 and 24, and "
        "least under UNiS. Five medium functions have more with each larger k, and under UNiS less "
        "than with k = 8.",
        ours="; ".join(words) + " (the mean over the lengths).",
        rule="with k = 16 and k = 24 light functions have no more throughput than with k = 8, and "
        "medium functions no less; UNiS as in the paper has no more than k = 8" + _OVER,
        verdict=verdict,
        why="" if verdict == "agrees" else "longer turns cost light functions no throughput here; "
        "without hardware counters the effect of the caches is unknown",
        source=["measured"],
        plots=[_bars(chain, lambda window: window.mpps, "Mpps") for chain in _detailed(chains)],
    ), _rows("fig9", chains)  # fmt: skip


def fig10(findings: Findings) -> FigureAndRows:
    """Context switches of light functions."""
    chains = findings.chains("fig10")
    verdict, words = _switches(chains)
    return Figure(
        key="fig10", name="Fig. 10", title="Context switches of light functions",
        paper="Five light functions: UNiS makes less than half of the context switches of k = 8.",
        ours=words, rule=_RULE_OF_SWITCHES + _OVER, verdict=verdict,
        why="" if verdict == "agrees" else "turns end earlier than the rings allow",
        source=["measured"],
        plots=[_bars(chain, context_switches, _SWITCHES) for chain in _detailed(chains)],
    ), _rows("fig10", chains)  # fmt: skip


def fig11(findings: Findings) -> FigureAndRows:
    """The CPU of the slowest function."""
    chains = findings.chains("fig11")
    verdict, words = _cpu_of_slowest(chains)
    return Figure(
        key="fig11", name="Fig. 11", title="CPU share of the slowest light function",
        paper="The slowest of five light functions has a little more of the CPU's cycles under "
        "UNiS, k = 16 and k = 24 than with k = 8. Here: its share of CPU time, from the kernel.",
        ours=words, rule=_RULE_OF_CPU + _OVER, verdict=verdict,
        why="" if verdict == "agrees" else _LESS, source=["measured"],
        plots=[_bars(chain, _percent, "% of the CPU") for chain in _detailed(chains)],
    ), _rows("fig11", chains)  # fmt: skip


def fig13(findings: Findings) -> FigureAndRows:
    """Switches and CPU of medium functions."""
    chains = findings.chains("fig13")
    switches, of_switches = _switches(chains)
    cpu, of_cpu = _cpu_of_slowest(chains)
    verdict = combined([switches, cpu])
    return Figure(
        key="fig13", name="Fig. 13", title="Context switches and CPU of medium functions",
        paper="As for light functions: UNiS makes less than half of the switches of k = 8, and the "
        "slowest function has a little more of the CPU.",
        ours=f"{of_switches} {of_cpu}",
        rule=f"{_RULE_OF_SWITCHES}, and {_RULE_OF_CPU}{_OVER}",
        verdict=verdict, why="" if verdict == "agrees" else _LESS, source=["measured"],
        plots=[
            plot
            for chain in _detailed(chains)
            for plot in (_bars(chain, context_switches, _SWITCHES), _bars(chain, _percent, _CPU))
        ],
    ), _rows("fig13", chains)  # fmt: skip


_SWITCHES, _CPU = "context switches of a function, 1/s", "% of the CPU"
_LESS = "the time of switches by priority is lost to all functions; the difference is small"


def _switches(chains: Sequence[MeasuredCase]) -> tuple[Verdict, str]:
    by_paper_k = _by_paper_k(chains, arms.PRIORITY, context_switches)
    handed = _by_paper_k(chains, arms.HANDOVER, context_switches)
    return at_most(by_paper_k, _HALF), (
        "Switches of a function ÷ those with k = 8: UNiS as in the paper "
        f"{interval_text(by_paper_k)}, hand-over {interval_text(handed)}."
    )


def _cpu_of_slowest(chains: Sequence[MeasuredCase]) -> tuple[Verdict, str]:
    by_paper_k = {
        arm: _by_paper_k(chains, arm, slowest_cpu_share)
        for arm in (arms.PRIORITY, arms.K[16], arms.K[24])
    }
    words = ", ".join(
        f"{_short(arm)} {interval_text(ratio, 3)}" for arm, ratio in by_paper_k.items()
    )
    return (
        combined(at_least(ratio, 1.0, _LITTLE) for ratio in by_paper_k.values()),
        f"CPU share of the slowest function ÷ that with k = 8: {words}.",
    )


def _by_paper_k(
    chains: Sequence[MeasuredCase], arm: str, quantity: Callable[[ArmWindow], float]
) -> Ratio | None:
    return pooled([ratios_of(measured, arm, arms.PAPER_K, quantity) for _, measured in chains])


def fig12(findings: Findings) -> FigureAndRows:
    """Cache misses, which need hardware counters."""
    chains = findings.chains("fig12")
    figure = Figure(
        key="fig12", name="Fig. 12", title="Cache misses of each function",
        paper="More under UNiS and with larger k: the last of five light functions misses 9.8 % of "
        "its references under UNiS, and 4.9 % with k = 8.",
        ours="Not measured.",
        rule="the last light function misses more under UNiS as in the paper than with k = 8, by "
        "the medians of its windows",
        verdict="cannot be had here", why=chains[0][1].no_counters or "nothing was counted",
        source=[], plots=[],
    )  # fmt: skip
    shown = (arms.PRIORITY, arms.HANDOVER, arms.PAPER_K, arms.K[24])
    plots: list[Plot] = []
    words: list[str] = []
    agrees = True
    for case, measured in _detailed(chains):
        misses = {arm: _misses(measured, arm) for arm in shown}
        if not all(misses.values()):
            return figure, _rows("fig12", chains)
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
            + ", ".join(f"{arm} {percent:.1f} %" for arm, percent in zip(shown, last, strict=True))
        )
        agrees &= case.cost != "light" or last[0] > last[2]
    return figure.model_copy(
        update={
            "ours": "; ".join(words) + ".",
            "verdict": "agrees" if agrees else "differs",
            "why": "" if agrees else "the caches here are large enough for longer turns",
            "source": ["measured"],
            "plots": plots,
        }
    ), _rows("fig12", chains)


def _misses(measured: Measured, arm: str) -> dict[str, float]:
    """% of references by function, in the order of the chain; empty: not counted."""
    windows = [window.cache_misses for window in measured.values(arm, lambda window: window)]
    names = sorted({name for window in windows for name in window})
    return {
        name: 100 * statistics.median(window[name] for window in windows if name in window)
        for name in names
    }


def _detailed(chains: Sequence[MeasuredCase]) -> list[MeasuredCase]:
    """One chain per cost: of the length that the paper shows, or of the nearest length."""
    costs = dict.fromkeys(case.cost for case, _ in chains)
    return [
        min(
            ((case, measured) for case, measured in chains if case.cost == cost),
            key=lambda chain: (abs(chain[0].length - DETAILED_LENGTH), -chain[0].length),
        )
        for cost in costs
    ]


def _bars(chain: MeasuredCase, quantity: Callable[[ArmWindow], float], y: str) -> Plot:
    case, measured = chain
    points = [spread_at(_short(arm), measured.values(arm, quantity)) for arm in _SHOWN]
    return Plot(
        kind="bars", title=f"{case.length} {case.cost} functions", x="", y=y, series={y: points}
    )


def _percent(window: ArmWindow) -> float:
    return 100 * slowest_cpu_share(window)


def _short(arm: str) -> str:
    return arm.replace("cooperative/", "k = ")


def _rows(key: str, chains: Sequence[MeasuredCase]) -> list[ResultRow]:
    return [row(key, case, measured, arm) for case, measured in chains for arm in _SHOWN]
