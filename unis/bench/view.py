"""The demo on the terminal: live, and its result."""

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from unis.measure.paired import Paired, ratio_text
from unis.measure.summary import BASELINE, Summary, summarise_arm
from unis.measure.windows import Rounds
from unis.report import colours
from unis.report.page import headline, missing, remarks

_BAR = 32  # characters


def comparison(rounds: Rounds, arms: Sequence[str], total: int) -> RenderableType:
    """The live view: a bar for each arm."""
    seen = [arm for arm in arms if any(arm in windows for windows in rounds)]
    summaries = {arm: summarise_arm(rounds, arm) for arm in seen}
    most = max((summary.mpps.median for summary in summaries.values()), default=0.0) or 1.0
    table = Table(box=None, pad_edge=False)
    for column in ("policy", "", "Mpps", f"÷ {BASELINE}", "p50 µs"):
        table.add_column(column, justify="left" if column in ("policy", "") else "right")
    for arm, summary in summaries.items():
        filled = round(summary.mpps.median / most * _BAR)
        latency = summary.latency_us["p50"]
        table.add_row(
            arm,
            Text("█" * filled, colours.of_arm(arm)) + Text("░" * (_BAR - filled), "bright_black"),
            f"{summary.mpps.median:.3f}",
            _median(summary.ratio_to_cooperative),
            f"{latency:,.0f}" if latency is not None else "–",
        )
    return Group(Text(f"round {len(rounds)} of {total}: windows of one run, in turn"), table)


def result_table(summary: Summary) -> Table:
    """The result."""
    table = Table(box=None, pad_edge=False)
    table.add_column("policy")
    ratio = f"÷ {BASELINE}"
    for column in ("Mpps", "q1–q3", ratio, "95 %", "dropped/s", "p5 µs", "p50", "p95", "p99"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, arm in summary.policies.items():
        table.add_row(
            _row_name(name, summary.tuning_of(name)),
            f"{arm.mpps.median:.3f}",
            f"{arm.mpps.q1:.3f}–{arm.mpps.q3:.3f}",
            _median(arm.ratio_to_cooperative),
            _interval(arm.ratio_to_cooperative),
            f"{arm.drops.per_second:,.0f}",
            *("–" if us is None else f"{us:,.0f}" for us in arm.latency_us.values()),
        )
    return table


def print_result(summary: Summary, console: Console) -> None:
    """The end of the demo."""
    console.print(result_table(summary))
    for remark in remarks(summary):
        console.print(remark, markup=False)
    console.print()
    console.print(headline(summary), markup=False)
    if summary.accounted:
        console.print("Every packet is accounted for.")
    else:
        console.print(missing(summary), style="red", markup=False)


def _row_name(arm: str, tuning: str) -> Text:
    name = Text(arm, "bold" if arm == "unis" else "")
    return name + Text(f"\n  {tuning}", "dim") if tuning else name


def _median(ratio: Paired | None) -> str:
    return ratio_text(ratio.median) if ratio else "–"


def _interval(ratio: Paired | None) -> str:
    return f"{ratio_text(ratio.low)}–{ratio_text(ratio.high)}" if ratio else "–"
