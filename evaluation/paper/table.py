"""Table 1: several chains on several CPUs."""

import statistics
from collections.abc import Mapping

from evaluation.paper import arms
from evaluation.paper.case import MAIN
from evaluation.paper.cases import CONFIGURATIONS
from evaluation.paper.figure import Chain, FigureFinding, FigureOf
from evaluation.paper.judging import all_of, at_least, at_most, told
from evaluation.paper.measured import Measured, ratio
from evaluation.paper.results import Figure, Plot, Point, ResultRow, Source, Verdict
from evaluation.paper.rows import row, simulated_row
from evaluation.paper.throughput import switching
from unis.measure.paired import Paired, Ratio

_PAPER = {
    "a": {"s1": (5.31, 5.30), "s2": (5.31, 5.21)},
    "b": {"s1": (5.24, 5.10), "s2": (5.24, 5.14)},
    "c": {"s1": (5.41, 5.34)},
}  # Mpps: co-operative, UNiS
_LEAST = 0.97  # of co-operative functions; and so even
_SHOWN = (arms.PRIORITY, arms.HANDOVER, arms.PAPER_K)


def table1(found: FigureFinding) -> FigureOf:
    """Judged by what was measured; what needs more CPUs is simulated beside it."""
    of = {case.key[-1]: (case, measured) for case, measured in found.of("table1")}
    plots: list[Plot] = []
    rows: list[ResultRow] = []
    said: list[str] = []
    verdicts: list[Verdict] = []
    for name in CONFIGURATIONS:
        source: Source = "measured" if name in of else "simulated"
        if name in of:
            mpps, words, verdict = _measured(of[name], name)
            verdicts.append(verdict)
            rows += _rows(of[name], name)
        elif name in found.several:
            mpps = {arm: dict(chains) for arm, chains in found.several[name].items()}
            words = _told(mpps)
            rows += _simulated(of.get("a"), name, mpps)
        else:
            said.append(f"({name}) needs more CPUs, and nothing to simulate it by was measured")
            continue
        said.append(f"({name}, {source}) {words}")
        plots.append(_plot(name, source, mpps))
    verdict = all_of(verdicts) if verdicts else "cannot be had here"
    judged = ", ".join(f"({name})" for name in CONFIGURATIONS if name in of)
    return Figure(
        key="table1", name="Table 1", title="Several chains on several CPUs, medium functions",
        paper="No chain starves: UNiS gives both the same, within 2.7 % of co-operative functions: "
        + "; ".join(
            f"({name}) " + ", ".join(f"{unis} of {coop} Mpps" for coop, unis in chains.values())
            for name, chains in _PAPER.items()
        ) + ".",
        ours="Mpps under UNiS as in the paper, hand-over, k = 8: " + "; ".join(said) + ".",
        rule=f"of what is measured {judged}: UNiS as in the paper ÷ k = 8 is {_LEAST:g} or more, "
        f"and the second chain has {_LEAST:g} to {2 - _LEAST:g} of what the first has",
        verdict=verdict,
        why="" if verdict == "agrees" or not of else switching(found, [*of.values()]),
        source=[*(["measured"] if of else []), *(["simulated"] if found.several else [])],
        plots=plots,
    ), rows  # fmt: skip


def _measured(of: Chain, name: str) -> tuple[dict[str, dict[str, float]], str, Verdict]:
    _, measured = of
    mpps = {
        arm: {
            chain: statistics.median(_of_chain(measured, arm, chain))
            for chain in CONFIGURATIONS[name]
        }
        for arm in _SHOWN
    }
    total = ratio(measured, arms.PRIORITY, arms.PAPER_K)
    verdicts = [at_least(total, _LEAST)]
    words = f"{_told(mpps)}, UNiS ÷ k = 8 {told(total)}"
    if shares := _shares(measured):
        verdicts += [at_least(shares, _LEAST), at_most(shares, 2 - _LEAST)]
        words += f", second ÷ first chain {told(shares)}"
    return mpps, words, all_of(verdicts)


def _rows(of: Chain, name: str) -> list[ResultRow]:
    case, measured = of
    return [row("table1", case, measured, arm, by=arms.PAPER_K) for arm in arms.TABLE] + [
        row("table1", case, measured, arm, chain=chain)
        for arm in _SHOWN
        for chain in CONFIGURATIONS[name]
    ]


def _simulated(
    of: Chain | None, name: str, mpps: Mapping[str, Mapping[str, float]]
) -> list[ResultRow]:
    if of is None:
        return []
    case, measured = of
    length = max(map(len, CONFIGURATIONS[name].values()))
    return [
        simulated_row("table1", case, measured, arm, passed, chain=chain).model_copy(
            update={"case": f"table1{name}", "length": length, "x": float(length)}
        )
        for arm, chains in mpps.items()
        for chain, passed in chains.items()
    ]


def _plot(name: str, source: Source, mpps: Mapping[str, Mapping[str, float]]) -> Plot:
    return Plot(
        kind="bars",
        title=f"configuration {name}, {source}",
        x="chain",
        y="Mpps",
        series={
            arm: [Point(x=chain.upper(), y=passed) for chain, passed in chains.items()]
            for arm, chains in mpps.items()
        },
    )


def _told(mpps: Mapping[str, Mapping[str, float]]) -> str:
    return ", ".join("/".join(f"{of:.2f}" for of in chains.values()) for chains in mpps.values())


def _of_chain(measured: Measured, arm: str, chain: str) -> list[float]:
    return measured.values(arm, lambda window: window.chain_mpps.get(chain, 0.0), MAIN)


def _shares(measured: Measured) -> Ratio | None:
    """What the second chain gets by the first, under UNiS as in the paper."""
    first, second = (_of_chain(measured, arms.PRIORITY, chain) for chain in ("s1", "s2"))
    return Ratio.of(Paired.ratio(second, first)) if any(second) else None
