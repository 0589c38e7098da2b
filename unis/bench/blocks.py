"""Chains that cannot have one CPU at the same time, compared all the same.

They alternate in blocks: each is brought up, measured in windows and taken down, in one order in a
block and the other way round in the next. A window of one is held against those of the others of
its block.

A hypervisor may move a CPU away from the other, and what passes between them takes six times as
long from then on. So that is measured around each part, and a block during which it changed is
measured again: what decides is never a throughput.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from unis.engine.transfer import line_transfer_ns, steady
from unis.measure.windows import Rounds
from unis.v1 import engine_pb2 as pb

_MOST_LEFT_OUT = 2  # times the blocks; on a machine without rest the figures have what there is


@dataclass(frozen=True)
class Block:
    """All parts, measured one after the other, their rounds side by side; some may have fewer."""

    rounds: Rounds
    transfers: tuple[float | None, ...]  # ns between the CPUs, around the parts

    @property
    def transfer_ns(self) -> float | None:
        """The median; None: it could not be measured."""
        known = [took for took in self.transfers if took]
        return statistics.median(known) if known else None


@dataclass(frozen=True)
class Blocks:
    """All blocks that count."""

    blocks: tuple[Block, ...]
    left_out: int  # in which the distance of the CPUs changed

    @property
    def rounds(self) -> Rounds:
        """The rounds of all blocks."""
        return [windows for block in self.blocks for windows in block.rounds]

    @property
    def transfers(self) -> list[float]:
        """Of the blocks in which it could be measured, ns."""
        found = [block.transfer_ns for block in self.blocks]
        return [took for took in found if took is not None]


def measure_blocks(
    parts: Mapping[str, Callable[[], Rounds]],
    count: int,
    cpus: tuple[int, int],
    title: str,
    report: Callable[[str], None],
    so_far: Callable[[Rounds], str] = lambda _: "",
) -> Blocks:
    """Measures `count` blocks; `cpus` are those whose distance counts.

    `so_far` is what to report, before a block, of the rounds that there are.
    """
    blocks: list[Block] = []
    left_out = 0
    while len(blocks) < count:
        number = len(blocks) + 1
        done = [windows for block in blocks for windows in block.rounds]
        report(f"{title}: block {number} of {count}{so_far(done) if done else ''}")
        block = _block(parts, cpus, backwards=number % 2 == 0)
        if not steady(block.transfers) and left_out < _MOST_LEFT_OUT * count:
            left_out += 1
            report(f"{title}: the distance of the CPUs changed, block {number} once more")
            continue
        blocks.append(block)
    return Blocks(tuple(blocks), left_out)


def _block(
    parts: Mapping[str, Callable[[], Rounds]], cpus: tuple[int, int], *, backwards: bool
) -> Block:
    measured: dict[str, Rounds] = {}
    found = [line_transfer_ns(*cpus)]
    for part in list(parts)[:: -1 if backwards else 1]:
        measured[part] = parts[part]()
        found.append(line_transfer_ns(*cpus))
    joined: Rounds = []
    none: Mapping[str, pb.MeasureReply] = {}
    for side_by_side in itertools.zip_longest(*measured.values(), fillvalue=none):
        arms = [arm for windows in side_by_side for arm in windows]
        if len({*arms}) < len(arms):
            raise ValueError(f"two parts have an arm of one name: {arms}")
        joined.append({arm: reply for windows in side_by_side for arm, reply in windows.items()})
    return Block(joined, tuple(found))
