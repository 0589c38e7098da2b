"""Stacks as a flame graph: an SVG of its own, without scripts, readable in the dark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

_WIDTH, _ROW, _TOP = 1200.0, 18.0, 44.0  # px
_LETTER = 6.6  # px of one, on average
_LEAST = 0.4  # px: narrower frames are left out
_STYLE = """
svg{--paper:#fff;--ink:#222;background:var(--paper);font:11px ui-monospace,monospace}
@media(prefers-color-scheme:dark){svg{--paper:#16191d;--ink:#ddd}}
text{fill:#1b1b1b;pointer-events:none}text.head{fill:var(--ink);font-size:13px}
rect{stroke:var(--paper);stroke-width:.6}g:hover>rect{stroke:var(--ink);stroke-width:1.6}
.function{fill:#b7b7b7}.kernel{fill:#f2a65a}.program{fill:#7fb2e5}.library{fill:#93c47d}
"""
_LEGEND = (("program", "program"), ("library", "libraries, plug-in"), ("kernel", "kernel"))


@dataclass(frozen=True)
class Frame:
    """A function of a program on a stack."""

    symbol: str
    module: str
    kind: str  # function (of the chain), program, library, kernel

    @property
    def label(self) -> str:
        """Without what separates frames of folded stacks."""
        return self.symbol.replace(";", ":")


Stacks = Mapping[tuple[Frame, ...], int]  # from the outermost frame inwards; samples


@dataclass
class _Node:
    frame: Frame
    samples: int = 0
    inner: "dict[Frame, _Node]" = field(default_factory=dict)

    def depth(self) -> int:
        return 1 + max((each.depth() for each in self.inner.values()), default=0)


def folded(stacks: Stacks) -> str:
    """A line for each stack, as flamegraph.pl and speedscope read it."""
    lines = [f"{';'.join(each.label for each in stack)} {count}" for stack, count in stacks.items()]
    return "".join(f"{line}\n" for line in sorted(lines))


def flame_graph(stacks: Stacks, title: str) -> str:
    """An SVG document. The outermost frames are at the bottom; a frame is as wide as the share of
    samples in which it was on the stack.
    """
    root = _Node(Frame("all", "", "function"))
    for stack, count in stacks.items():
        node = root
        node.samples += count
        for frame in stack:
            node = node.inner.setdefault(frame, _Node(frame))
            node.samples += count
    height = _TOP + root.depth() * _ROW + 6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" role="img" '
        f'aria-label="{escape(title)}"><style>{_STYLE}</style>',
        f'<text class="head" x="6" y="18">{escape(title)}</text>',
        *_legend(),
    ]
    if root.samples:
        _draw(root, 0.0, _WIDTH, height - 6 - _ROW, root.samples, parts)
    return "".join([*parts, "</svg>\n"])


def _legend() -> Sequence[str]:
    return [
        f'<rect class="{kind}" x="{6 + 180 * at}" y="25" width="12" height="12"/>'
        f'<text class="head" x="{24 + 180 * at}" y="36">{text}</text>'
        for at, (kind, text) in enumerate(_LEGEND)
    ]


def _draw(node: _Node, x: float, width: float, y: float, total: int, parts: list[str]) -> None:
    frame = node.frame
    module = f" ({frame.module})" if frame.module else ""
    title = f"{frame.symbol}{module}: {node.samples} samples, {node.samples / total:.1%}"
    room = int((width - 6) / _LETTER)
    text = frame.symbol if len(frame.symbol) <= room else f"{frame.symbol[: max(0, room - 1)]}…"
    label = f'<text x="{x + 3:.1f}" y="{y + 13:.1f}">{escape(text)}</text>' if room > 2 else ""
    parts.append(
        f'<g><title>{escape(title)}</title><rect class="{frame.kind}" x="{x:.2f}" y="{y:.1f}" '
        f'width="{width:.2f}" height="{_ROW:g}"/>{label}</g>'
    )
    inner_frames = [*node.inner.values()]
    if frame.kind != "function":  # those of the chain stay in its order
        inner_frames.sort(key=lambda each: each.frame.symbol)
    for inner in inner_frames:
        share = width * inner.samples / node.samples
        if share >= _LEAST:
            _draw(inner, x, share, y - _ROW, total, parts)
        x += share
