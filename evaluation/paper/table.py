"""Table 1: several chains on several CPUs."""

import statistics
from collections.abc import Mapping

from evaluation.paper import arms
from evaluation.paper.case import MAIN
from evaluation.paper.cases import CONFIGURATIONS
from evaluation.paper.figure import FigureAndRows, Findings, MeasuredCase
from evaluation.paper.judging import at_least, at_most, combined, interval_text
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
_LEAST = 0.97  # of co-operative throughput, and of the other chain's
_SHOWN = (arms.PRIORITY, arms.HANDOVER, arms.PAPER_K)


def table1(findings: Findings) -> FigureAndRows:
    """Judged by the measured configurations; those that need more CPUs are simulated."""
    chains = {case.key[-1]: (case, measured) for case, measured in findings.chains("table1")}
    plots: list[Plot] = []
    rows: list[ResultRow] = []
    sentences: list[str] = []
    verdicts: list[Verdict] = []
    for name in CONFIGURATIONS:
        source: Source = "measured" if name in chains else "simulated"
        if name in chains:
            mpps, words, verdict = _measured(chains[name], name)
            verdicts.append(verdict)
            rows += _rows(chains[name], name)
        elif name in findings.table1_mpps:
            mpps = {arm: dict(by_chain) for arm, by_chain in findings.table1_mpps[name].items()}
            words = _mpps_text(mpps)
            rows += _simulated(chains.get("a"), name, mpps)
        else:
            sentences.append(
                f"({name}) needs more CPUs, and no measured chain gives the costs to simulate it"
            )
            continue
        sentences.append(f"({name}, {source}) {words}")
        plots.append(_plot(name, source, mpps))
    verdict = combined(verdicts) if verdicts else "cannot be had here"
    judged = ", ".join(f"({name})" for name in CONFIGURATIONS if name in chains)
    return Figure(
        key="table1", name="Table 1", title="Several chains on several CPUs, medium functions",
        paper="No chain starves: UNiS gives both chains the same throughput, within 2.7 % of "
        "co-operative functions: "
        + "; ".join(
            f"({name}) " + ", ".join(f"{unis} of {coop} Mpps" for coop, unis in chains.values())
            for name, chains in _PAPER.items()
        ) + ".",
        ours="Mpps under UNiS as in the paper, hand-over, k = 8: " + "; ".join(sentences) + ".",
        rule=f"in the measured configurations {judged} UNiS as in the paper ÷ k = 8 is {_LEAST:g} "
        f"or more, and the second chain has {_LEAST:g} to {2 - _LEAST:g} of the first",
        verdict=verdict,
        why="" if verdict == "agrees" or not chains else switching(findings, [*chains.values()]),
        source=[
            *(["measured"] if chains else []),
            *(["simulated"] if findings.table1_mpps else []),
        ],
        plots=plots,
    ), rows  # fmt: skip


def _measured(chain: MeasuredCase, name: str) -> tuple[dict[str, dict[str, float]], str, Verdict]:
    _, measured = chain
    mpps = {
        arm: {
            chain: statistics.median(_of_chain(measured, arm, chain))
            for chain in CONFIGURATIONS[name]
        }
        for arm in _SHOWN
    }
    total = ratio(measured, arms.PRIORITY, arms.PAPER_K)
    verdicts = [at_least(total, _LEAST)]
    words = f"{_mpps_text(mpps)}, UNiS ÷ k = 8 {interval_text(total)}"
    if shares := _shares(measured):
        verdicts += [at_least(shares, _LEAST), at_most(shares, 2 - _LEAST)]
        words += f", second ÷ first chain {interval_text(shares)}"
    return mpps, words, combined(verdicts)


def _rows(measured_chain: MeasuredCase, name: str) -> list[ResultRow]:
    case, measured = measured_chain
    return [row("table1", case, measured, arm, base=arms.PAPER_K) for arm in arms.TABLE] + [
        row("table1", case, measured, arm, chain=chain)
        for arm in _SHOWN
        for chain in CONFIGURATIONS[name]
    ]


def _simulated(
    measured_chain: MeasuredCase | None, name: str, mpps: Mapping[str, Mapping[str, float]]
) -> list[ResultRow]:
    if measured_chain is None:
        return []
    case, measured = measured_chain
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


def _mpps_text(mpps: Mapping[str, Mapping[str, float]]) -> str:
    return ", ".join(
        "/".join(f"{passed:.2f}" for passed in chains.values()) for chains in mpps.values()
    )


def _of_chain(measured: Measured, arm: str, chain: str) -> list[float]:
    return measured.values(arm, lambda window: window.chain_mpps.get(chain, 0.0), MAIN)


def _shares(measured: Measured) -> Ratio | None:
    """Throughput of the second chain ÷ first, under UNiS as in the paper."""
    first, second = (_of_chain(measured, arms.PRIORITY, chain) for chain in ("s1", "s2"))
    return Ratio.of(Paired.ratio(second, first)) if any(second) else None
