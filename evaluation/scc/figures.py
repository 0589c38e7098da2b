"""Box plots of `python -m evaluation scc`: from the 25th to the 75th percentile, with the median;
whiskers to the 5th and the 95th, a mark at the 99th.
"""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from evaluation.scc import paper
from evaluation.scc.arms import BLOCKING, DEFAULT, HAND_OVER, ORDERS, SLEEPING
from evaluation.scc.rows import SccRow, arm_of

# Okabe and Ito's, told apart by most people; an arm has the same in all pictures.
_COLOUR_OF = {
    DEFAULT.name: "#D55E00",
    BLOCKING.name: "#E69F00",
    HAND_OVER.name: "#0072B2",
    SLEEPING.name: "#56B4E9",
    ORDERS[0].name: "#0072B2",
    ORDERS[1].name: "#CC79A7",
}
_MORE = (
    "#999999", "#F0E442", "#009E73", "#CC79A7", "#004466", "#8A6FB0", "#B8860B", "#5F9EA0",
    "#A0522D", "#708090", "#BDB76B", "#2F4F4F", "#C0C0C0",
)  # fmt: skip
_KEYS = ("p5", "p25", "p50", "p75", "p95", "p99")
_US = "latency, µs"
# Where no function can wait.
_POLLING_LOADS = {"half": "half of what polling passes"}


def draw(rows: Sequence[SccRow], folder: Path) -> list[Path]:
    """A file for each experiment that has rows."""
    made = []
    for name, plot in _PLOTS.items():
        mine = [row for row in rows if row.experiment == name]
        if not mine:
            continue
        file = folder / f"{name}.png"
        with mpl.rc_context({"font.size": 10, "axes.spines.top": False}):
            figure = plot(mine)
            figure.savefig(file, dpi=96)
        made.append(file)
    return made


def boxes(
    axes: Axes,
    rows: Sequence[SccRow],
    x_of: Callable[[SccRow], str],
    group_of: Callable[[SccRow], str],
) -> None:
    """Boxes by x, side by side those of the groups. Rows without packets have none."""
    xs, groups = (list(dict.fromkeys(map(each, rows))) for each in (x_of, group_of))
    width, colours = 0.8 / len(groups), _colours(groups)
    for row in rows:
        us = [row.latency_us[key] for key in _KEYS]
        p5, p25, p50, p75, p95, p99 = (value if value is not None else 0.0 for value in us)
        if not p50:
            continue
        at = groups.index(group_of(row))
        box = axes.bxp(
            [{"med": p50, "q1": p25, "q3": p75, "whislo": p5, "whishi": p95, "fliers": [p99]}],
            positions=[xs.index(x_of(row)) + (at - (len(groups) - 1) / 2) * width],
            widths=0.85 * width, patch_artist=True, manage_ticks=False,
            flierprops={"marker": ".", "markersize": 4, "markeredgecolor": colours[groups[at]]},
            medianprops={"color": "black"},
        )  # fmt: skip
        for patch in box["boxes"]:
            patch.set_facecolor(colours[groups[at]])
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks(range(len(xs)), xs)
    axes.set_xlim(-0.6, len(xs) - 0.4)
    axes.grid(visible=True, axis="y", alpha=0.35)
    axes.set_ylabel(_US)
    axes.legend(
        handles=[Patch(color=colours[group], label=group) for group in groups],
        frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1),
    )  # fmt: skip


def _colours(groups: Sequence[str]) -> dict[str, str]:
    more = iter(itertools.cycle(_MORE))
    return {group: _COLOUR_OF.get(group) or next(more) for group in groups}


def _arm(row: SccRow) -> str:
    return arm_of(row).name


def _panels(count: int, width: float = 12.5, height: float = 4.4) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, height * count), layout="constrained")
    return figure, list(figure.subplots(count, 1, squeeze=False)[:, 0])


def _by_length(rows: Sequence[SccRow]) -> Figure:
    kinds = list(dict.fromkeys((row.load, row.batch) for row in rows))
    figure, axes = _panels(len(kinds))
    for panel, (load, batch) in zip(axes, kinds, strict=True):
        mine = [row for row in rows if (row.load, row.batch) == (load, batch)]
        boxes(panel, mine, lambda row: str(row.length), _arm)
        first = mine[0]
        told = f", batch {batch}" if batch else ""
        load_told = {"half": "half of what blocking passes", "light": "half of what polling passes"}
        panel.set_title(f"{first.link}, {first.driver}{told}: {load_told.get(load, load)}")
        panel.set_xlabel("functions of the chain")
        if load == "overload":
            _paper_lines(panel, mine)
    return figure


def _paper_lines(axes: Axes, rows: Sequence[SccRow]) -> None:
    """Medians of the paper's Fig. 10, on its machine at its rate, for arms that are its own."""
    lengths = list(dict.fromkeys(row.length for row in rows))
    arms = dict.fromkeys(_arm(row) for row in rows if row.paper)
    for arm, dash in zip(arms, itertools.cycle(("--", ":"))):
        mine = [row for row in rows if _arm(row) == arm]
        points = [(lengths.index(row.length), row.paper.low) for row in mine if row.paper]
        axes.plot(*zip(*points, strict=True), dash, color="black", linewidth=1)
        axes.annotate(f"paper: {arm}", points[-1], fontsize=7, va="bottom")


def _by_order(rows: Sequence[SccRow]) -> Figure:
    figure, (panel,) = _panels(1, 7)
    boxes(panel, rows, lambda row: f"{row.length} functions", _arm)
    panel.set_title("order of the run queue, half load")
    return figure


def _by_batch(rows: Sequence[SccRow]) -> Figure:
    sizes = list(dict.fromkeys(row.size for row in rows))
    figure, axes = _panels(len(sizes))
    for panel, size in zip(axes, sizes, strict=True):
        mine = [row for row in rows if row.size == size]
        boxes(panel, mine, _batch_name, _arm)
        panel.set_title(f"{size} B, one function, at the rate that saturates batch 1")
        panel.set_xlabel("frames of a system call, at most")
        for batch, told in ((1, "paper, batch 1"), (2, "paper, batch 2 to 32")):
            if found := paper.latency_of_batch(batch, size):
                panel.axhspan(found.low, found.high, color="black", alpha=0.12)
                panel.annotate(
                    told, (0.002, found.high), xycoords=("axes fraction", "data"), fontsize=7
                )
    return figure


def _batch_name(row: SccRow) -> str:
    return "recv/send" if row.calls == "single" else str(row.batch)


def _by_queue(rows: Sequence[SccRow]) -> Figure:
    figure, axes = _panels(2, 9)
    for panel, load in zip(axes, ("half", "overload"), strict=True):
        mine = [row for row in rows if row.load == load]
        boxes(panel, mine, lambda row: f"{row.slots} slots\n", _arm)
        panel.set_title(
            f"length of the queues, {mine[0].length} functions, {_POLLING_LOADS.get(load, load)}"
        )
        for at, slots in enumerate(dict.fromkeys(row.slots for row in mine)):
            kpps = [f"{row.kpps:.0f}" for row in mine if row.slots == slots]
            panel.annotate(
                f"{' / '.join(kpps)} kpps", (at, 0), xycoords=("data", "axes fraction"),
                ha="center", va="top", fontsize=8, xytext=(0, -18), textcoords="offset points",
            )  # fmt: skip
    return figure


def _by_testpmd(rows: Sequence[SccRow]) -> Figure:
    figure, (panel,) = _panels(1, 9)
    boxes(panel, rows, lambda row: f"{row.driver}, {row.load}", _arm)
    panel.set_title(f"four dpdk-testpmd in a chain; half: {_POLLING_LOADS['half']}")
    return figure


def _by_contention(rows: Sequence[SccRow]) -> Figure:
    mine = [row for row in rows if row.load == "overload"]
    kinds = list(dict.fromkeys((row.link, row.batch) for row in mine))
    figure, axes = _panels(len(kinds))
    for panel, kind in zip(axes, kinds, strict=True):
        of_kind = [row for row in mine if (row.link, row.batch) == kind]
        lengths = list(dict.fromkeys(row.length for row in of_kind))
        groups = list(dict.fromkeys(map(_arm, of_kind)))
        width, colours = 0.8 / len(groups), _colours(groups)
        for at, group in enumerate(groups):
            bars = [row for row in of_kind if _arm(row) == group]
            shift = (at - (len(groups) - 1) / 2) * width
            panel.bar(
                [lengths.index(row.length) + shift for row in bars],
                [row.contention or 0.0 for row in bars], width, color=colours[group], label=group,
            )  # fmt: skip
            for row in bars:
                if row.paper:
                    panel.plot(
                        [lengths.index(row.length) + shift], [row.paper.low], "_k", markersize=14
                    )
        panel.set_xticks(range(len(lengths)), map(str, lengths))
        panel.set_xlabel("functions of the chain")
        panel.set_ylabel("run delay ÷ run time")
        told = f", batch {kind[1]}" if kind[1] else ""
        panel.set_title(f"{kind[0]}{told}: contention in overload (black: the paper's Table 8)")
        panel.grid(visible=True, axis="y", alpha=0.35)
        panel.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


_PLOTS: dict[str, Callable[[Sequence[SccRow]], Figure]] = {
    "policy": _by_length,
    "order": _by_order,
    "batch": _by_batch,
    "queue": _by_queue,
    "testpmd": _by_testpmd,
    "ovs": _by_length,
    "contention": _by_contention,
}
