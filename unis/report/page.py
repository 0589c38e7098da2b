"""The report of a comparison: one HTML file that needs nothing else."""

from collections.abc import Callable, Mapping, Sequence
from html import escape

from unis.bench.summary import BASELINE, Summary
from unis.bench.windows import Quartiles, Rounds, mpps, ratio_text
from unis.engine.histogram import Latency
from unis.report import plots
from unis.v1 import engine_pb2 as pb

_CLOSE_MS = 1.0

_CSS = """
:root { color-scheme: light; }
body { background: #fff; color: #1f2328; font: 16px/1.5 system-ui, sans-serif; margin: 0; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.5rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .2rem; }
p.lead { font-size: 1.15rem; margin: 0 0 1rem; }
p.note { color: #57606a; margin: .2rem 0 .8rem; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .5rem; text-align: right; border-bottom: 1px solid #d0d7de; }
td { white-space: nowrap; font-size: .93rem; } small { color: #57606a; }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; color: #57606a; }
i { display: inline-block; width: .75em; height: .75em; border-radius: 2px; margin-right: .45em; }
table.narrow { width: auto; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .4rem 0; }
dt { color: #57606a; } dd { margin: 0; }
.bad { color: #b42318; font-weight: 600; }
"""


def report_page(
    title: str,
    summary: Summary,
    rounds: Rounds,
    latencies: Mapping[str, Latency],
    traces: Mapping[str, pb.TraceReply],
    trace_ms: float,
    functions: Sequence[str],
) -> str:
    """The whole page; `functions` in the order of the chain."""
    policies = list(summary.policies)
    windows = {
        policy: [mpps(windows[policy]) for windows in rounds if policy in windows]
        for policy in policies
    }
    sections = [
        _section(
            "Throughput",
            "Every policy ran in turn, in short windows of the same run, on the same processes.",
            plots.throughput(windows, _shares(summary), BASELINE),
        ),
        _section(
            "Latency",
            "How long packets were under way. The source fills the first ring, so this is mostly "
            "time in rings: the sooner all functions have had their turn, the shorter.",
            plots.latency({policy: latencies[policy].curve() for policy in policies}),
        ),
        _section(
            "Who ran when",
            "A function that polls an empty ring looks busy to the kernel. rr and other let it "
            "spin for its whole time slice; unis changes as soon as there is work elsewhere.",
            plots.timeline(traces, functions, trace_ms, min(_CLOSE_MS, trace_ms)),
        ),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_CSS}</style></head><body><main>\n"
        f"<h1>{escape(title)}</h1>\n<p class=lead>{escape(headline(summary))}</p>\n"
        f"{''.join(sections)}\n<h2>Numbers</h2>\n{_table(summary)}\n"
        f"<h2>Every packet is accounted for</h2>\n{_account(summary)}\n"
        f"<h2>Measured on</h2>\n{_facts(summary)}\n</main></body></html>\n"
    )


def headline(summary: Summary) -> str:
    """The result in a sentence."""
    unis = summary.policies.get("unis")
    if unis is None:
        return f"Policies {', '.join(summary.policies)} compared."
    sentence = f"UNiS delivers {unis.mpps.median:.2f} million packets a second"
    if unis.ratio_to_cooperative:
        sentence += (
            f", {unis.ratio_to_cooperative.median:.2f} of what functions reach that are rewritten "
            "to co-operate"
        )
    kernels = [
        f"{times:,.0f} times the kernel's {policy}"
        for policy in ("rr", "other")
        if (times := summary.times("unis", policy)) is not None
    ]
    if kernels:
        sentence += f", and {' and '.join(kernels)}"
    return sentence + ". The functions are unmodified."


def _shares(summary: Summary) -> dict[str, float]:
    """Each policy's share of the baseline: the median of paired windows."""
    return {
        policy: result.ratio_to_cooperative.median
        for policy, result in summary.policies.items()
        if policy != BASELINE and result.ratio_to_cooperative
    }


def _section(title: str, note: str, figure: str) -> str:
    return (
        f"<h2>{escape(title)}</h2>\n<p class=note>{escape(note)}</p>\n<figure>{figure}</figure>\n"
    )


def _row(cells: Sequence[str], tag: str = "td") -> str:
    return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"


def _spread(values: Quartiles, text: Callable[[float], str]) -> str:
    low, middle, high = map(text, (values.q1, values.median, values.q3))
    return f"{middle} <small>{low}–{high}</small>"


def _table(summary: Summary) -> str:
    head = ["policy", "Mpps (q1–q3)", f"÷ {BASELINE} (q1–q3)", "dropped/s", "switches/s"]
    rows = [_row([*head, "p5 µs", "p50 µs", "p95 µs", "p99 µs"], "th")]
    for name, policy in summary.policies.items():
        ratio = policy.ratio_to_cooperative
        rows.append(
            _row(
                [
                    f'<i style="background:{plots.colour(name)}"></i>{escape(name)}',
                    _spread(policy.mpps, "{:.3f}".format),
                    _spread(ratio, ratio_text) if ratio else "–",
                    f"{policy.drops.per_second:,.0f}",
                    f"{policy.switches_per_second:,.0f}",
                    *("–" if us is None else f"{us:,.0f}" for us in policy.latency_us.values()),
                ]
            )
        )
    return f"<table>{''.join(rows)}</table>"


def _account(summary: Summary) -> str:
    account = {key: value for key, value in summary.account.items() if key != "exact"}
    verdict = (
        "<p>With the source paused and the chain drained: offered = delivered + dropped + in "
        "flight.</p>"
        if summary.accounted
        else "<p class=bad>The account is not exact: packets are missing.</p>"
    )
    rows = "".join(_row([escape(k.replace("_", " ")), f"{v:,}"]) for k, v in account.items())
    return f"{verdict}<table class=narrow>{rows}</table>"


def _facts(summary: Summary) -> str:
    facts: dict[str, object] = {
        **{key.replace("_", " "): value for key, value in summary.machine.model_dump().items()},
        "costs": ", ".join(f"{nf} {ns:.1f} ns" for nf, ns in summary.costs_ns.items()),
        **summary.settings,
    }
    pairs = (f"<dt>{escape(key)}</dt><dd>{escape(str(value))}</dd>" for key, value in facts.items())
    return f"<dl>{''.join(pairs)}</dl>"
