"""The report of a comparison: one HTML file that needs nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from unis.measure import disturbance
from unis.measure.paired import Paired, ratio_text
from unis.measure.summary import BASELINE, SUBJECT, Summary, latency_of
from unis.measure.windows import Rounds, throughput
from unis.report import colours, plots
from unis.report.templates import template
from unis.runtime.account import DROPPED
from unis.v1 import engine_pb2 as pb

_CLOSE_MS = 1.0


@dataclass(frozen=True)
class _Section:
    title: str
    note: str
    figure: Markup


def report_page(
    title: str,
    summary: Summary,
    rounds: Rounds,
    traces: Mapping[str, pb.TraceReply],
    trace_ms: float,
    functions: Sequence[str],
) -> str:
    """The whole page; `functions` in the order of the chain."""
    page = template(
        "page.html.j2",
        colour=colours.of_arm,
        paired=_paired,
    )
    return page.render(
        title=title,
        headline=headline(summary),
        summary=summary,
        sections=_sections(summary, rounds, traces, trace_ms, functions),
        remarks=remarks(summary),
        account=_account_rows(summary.account),
        missing=missing(summary),
        facts=_facts(summary),
        baseline=BASELINE,
        subject=SUBJECT,
    )


def headline(summary: Summary) -> str:
    """The result in a sentence. Its ratios are those of the table and of the plot."""
    unis = summary.policies.get(SUBJECT)
    if unis is None:
        return f"Compared: {', '.join(summary.policies)}."
    sentence = f"UNiS delivers {unis.mpps.median:.2f} million packets a second"
    if unis.ratio_to_cooperative:
        sentence += (
            f", {ratio_text(unis.ratio_to_cooperative.median)} of what functions reach that are "
            f"rewritten to co-operate{_in_brackets(summary.tuning_of(BASELINE))}"
        )
    kernels = [
        f"{_times(times.median)} times the kernel's {policy}"
        f"{_in_brackets(summary.tuning_of(policy))}"
        for policy in ("rr", "other")
        if (times := summary.times(policy))
    ]
    if kernels:
        sentence += f", and {' and '.join(kernels)}"
    return sentence + "."


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def missing(summary: Summary) -> str:
    """What is wrong with the account; empty if nothing is."""
    if summary.accounted:
        return ""
    if not summary.account["exact"]:
        return "The chain did not drain in time, so the account is not exact."
    return f"{summary.account['unaccounted']:,} packets are missing."


def _account_rows(account: Mapping[str, int | bool]) -> dict[str, int]:
    """Under the names of the account on the terminal, without drops and copies that were none."""
    always = ("offered", "delivered", "in_flight", "unaccounted")
    return {
        f"dropped: {DROPPED[key]}" if key in DROPPED else key.replace("_", " "): value
        for key, value in account.items()
        if key != "exact" and (value or key in always)
    }


def _sections(
    summary: Summary,
    rounds: Rounds,
    traces: Mapping[str, pb.TraceReply],
    trace_ms: float,
    functions: Sequence[str],
) -> list[_Section]:
    windows = {arm: throughput(rounds, arm) for arm in summary.policies}
    curves = {arm: latency_of(rounds, arm).curve() for arm in summary.policies}
    return [
        _Section(
            "Throughput",
            "Every policy ran in turn, in short windows of the same run, on the same processes.",
            Markup(plots.throughput(windows, notes_of_bars(summary))),  # noqa: S704  our own plot
        ),
        _Section(
            "Latency",
            "How long packets were under way. The source fills the first ring, so this is mostly "
            "time in rings: the sooner all functions have had their turn, the shorter.",
            Markup(plots.latency(curves)),  # noqa: S704
        ),
        _Section(
            "Who ran when",
            "A function that polls an empty ring looks busy to the kernel. rr and other let it "
            "spin for its whole time slice; unis changes as soon as there is work elsewhere. "
            "Where a strip is blank, nothing was recorded. A stripe of milliseconds under unis "
            "usually means that another program had a CPU: run again when the machine is quiet."
            f"{_cut(traces)}",
            Markup(plots.timeline(traces, functions, trace_ms, min(_CLOSE_MS, trace_ms))),  # noqa: S704
        ),
    ]


def _cut(traces: Mapping[str, pb.TraceReply]) -> str:
    """Which recordings were full before their end."""
    full = [arm for arm, trace in traces.items() if trace.dropped_events]
    return f" The recording of {', '.join(full)} was full before its end." if full else ""


def notes_of_bars(summary: Summary) -> dict[str, str]:
    """What stands beside each bar: the share of the baseline, or how far behind UNiS it is."""
    notes: dict[str, str] = {}
    for arm, result in summary.policies.items():
        share, times = result.ratio_to_cooperative, result.ratio_of_unis
        if arm == BASELINE:
            continue
        if share and (arm == SUBJECT or share.median >= 0.1 or not times):
            notes[arm] = f"{ratio_text(share.median)} of {BASELINE}"
        elif times and arm != SUBJECT:
            notes[arm] = f"{SUBJECT}: {_times(times.median)} times as much"
    return notes


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _paired(value: Paired | None) -> Markup:
    if value is None:
        return Markup("–")
    show = _times if value.median >= 10 else ratio_text
    text = Markup("{} <small>[{}–{}]</small>")
    return text.format(show(value.median), show(value.low), show(value.high))


def remarks(summary: Summary) -> list[str]:
    """What a reader of the table would otherwise not know."""
    told = [
        f"{arm}: in {result.windows_without_packets} of its windows ({result.window_s:.2g} s each) "
        "no packet arrived; those rounds have no ratio to it."
        for arm, result in summary.policies.items()
        if result.windows_without_packets
    ]
    disturbed = disturbance.remark(result.disturbed for result in summary.policies.values())
    return told + ([disturbed] if disturbed else [])


def _facts(summary: Summary) -> dict[str, object]:
    windows = {f"{arm} {result.window_s:.2g} s" for arm, result in summary.policies.items()}
    return {
        **{key.replace("_", " "): value for key, value in summary.machine.model_dump().items()},
        "costs": ", ".join(f"{name} {ns:.1f} ns" for name, ns in summary.costs_ns.items()),
        "windows": ", ".join(sorted(windows)),
        **summary.settings,
    }
