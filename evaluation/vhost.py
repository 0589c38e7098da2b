"""`python -m evaluation vhost`: DPDK's testpmd on vhost-user, and the same one on memif.

Two chains of unmodified testpmd are up at once, one on each kind of link. The source sends through
one of them at a time, as much as its first link takes, while the functions of the other one sleep.
Windows of one round are compared.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from evaluation.captures import replay, write_capture
from unis.bench import third_party
from unis.bench.throughput import POLICIES
from unis.chain.load import LoadedChain
from unis.chain.model import API_VERSION, ChainFile
from unis.measure.disturbance import Disturbance
from unis.measure.paired import Paired, Quartiles, Ratio
from unis.measure.summary import MachineSummary
from unis.measure.windows import Rounds, in_turn, throughput
from unis.plan.machine import Machine
from unis.runtime.errors import LaunchError
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up

LEAST = 0.9  # of what memif passes
VHOST, MEMIF = "vhost", "memif"
KINDS = (MEMIF, VHOST)
_SIZE = 64  # bytes
_FIRST_PORT = 5001  # UDP, of the first chain's packets
_SLOTS = 2048  # of each link: what testpmd is told too


class VhostRow(BaseModel):
    """Chains of one length."""

    length: int  # programs
    mpps: dict[str, Quartiles]  # by kind of link
    ratio: Ratio | None  # vhost ÷ memif; None: memif passed nothing
    ratio_quartiles: Quartiles | None
    by_block: list[float]  # medians of the ratio, by bring-up

    @property
    def kept(self) -> bool | None:
        """Whether vhost passes LEAST of memif; None: that cannot be told from these windows."""
        if self.ratio is None or self.ratio.lo <= LEAST <= self.ratio.hi:
            return None
        return self.ratio.lo > LEAST


class VhostResults(BaseModel):
    """The result, and the machine it is from."""

    machine: MachineSummary
    window_s: float
    rounds: int  # of each length, over all blocks
    blocks: int  # times that the chains of a length were brought up
    rows: list[VhostRow]
    disturbed: Disturbance


@dataclass(frozen=True)
class VhostSettings:
    """What the command line says."""

    lengths: Sequence[int]
    blocks: int  # bring-ups of each length
    rounds: int  # of each of them
    window: float  # seconds


def measure(
    settings: VhostSettings, machine: Machine, report: Callable[[str], None]
) -> VhostResults:
    """Brings chains up, and takes them down. LaunchError where testpmd is missing."""
    blocks: dict[int, list[Rounds]] = {length: [] for length in settings.lengths}
    with tempfile.TemporaryDirectory(prefix="unis-vhost-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the engine reads captures as whoever it is
        for kind in KINDS:
            write_capture(_capture(folder, kind), _port(kind), _SIZE)
        # All lengths in each block: what changes meanwhile changes for all. What a chain passes
        # depends on where its memory lies, so each kind comes first in every other block.
        for block in range(1, settings.blocks + 1):
            kinds = KINDS if block % 2 else KINDS[::-1]
            for length in settings.lengths:
                report(f"block {block} of {settings.blocks}, {length} testpmd on each kind of link")
                found = brought_up(
                    partial(chains, kinds, length, max(machine.cpus), folder), machine,
                    Options(costs="unknown"), report, partial(_compared, settings, folder),
                )  # fmt: skip
                blocks[length].append(found)
    windows = [
        window for of in blocks.values() for block in of for one in block for window in one.values()
    ]
    return VhostResults(
        machine=MachineSummary.this(len(machine.cpus)),
        window_s=settings.window,
        rounds=settings.blocks * settings.rounds,
        blocks=settings.blocks,
        rows=[row_of(length, of) for length, of in blocks.items()],
        disturbed=Disturbance.of(windows),
    )


def row_of(length: int, blocks: Sequence[Rounds]) -> VhostRow:
    """From the windows of a length, by bring-up."""
    mpps = {kind: [throughput(block, kind) for block in blocks] for kind in KINDS}
    pairs = [*zip(mpps[VHOST], mpps[MEMIF], strict=True)]
    paired = Paired.of_blocks(pairs)
    alone = [Paired.ratio(*pair) for pair in pairs]
    return VhostRow(
        length=length,
        mpps={kind: Quartiles.of([each for block in of for each in block])
              for kind, of in mpps.items()},
        ratio=Ratio.of(paired),
        ratio_quartiles=Quartiles(median=paired.median, q1=paired.q1, q3=paired.q3)
        if paired else None,
        by_block=[one.median for one in alone if one],
    )  # fmt: skip


def chains(kinds: Sequence[str], length: int, cpu: int, folder: Path) -> LoadedChain:
    """Both chains, as `unis up` reads them, in this order."""
    program = third_party.testpmd()
    if program is None:
        raise LaunchError("testpmd is missing: run `tools/third-party testpmd`")
    data: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "name": "bench-vhost",
        "traffic": {"source": {"kind": "pcap", "file": str(_capture(folder, MEMIF))}},
        "scheduler": {"max_delay_us": 0},  # at full load nobody sleeps between packets
        "defaults": {"cpu": cpu},
        "functions": {
            name: {**program, "cost_ns": None} for kind in kinds for name in _names(kind, length)
        },
        "chains": {
            kind: {"path": _names(kind, length), "match": [{"dst_port": _port(kind)}]}
            for kind in kinds
        },
        "links": [
            {"from": origin, "to": to, "kind": kind, "slots": _SLOTS}
            for kind in kinds
            for origin, to in zip(
                ["ingress", *_names(kind, length)], [*_names(kind, length), "egress"], strict=True
            )
        ],
    }
    return LoadedChain(folder / "bench-vhost.yaml", ChainFile.model_validate(data))


def _compared(settings: VhostSettings, folder: Path, run: Run) -> Rounds:
    arm = POLICIES[run.plan.controller]

    arms = [
        replace(arm, name=kind, prepare=partial(replay, run, _capture(folder, kind)))
        for kind in KINDS
    ]
    return in_turn(run, arms, settings.rounds, settings.window)


def _names(kind: str, length: int) -> list[str]:
    return [f"{kind}{at}" for at in range(1, length + 1)]


def _port(kind: str) -> int:
    return _FIRST_PORT + KINDS.index(kind)


def _capture(folder: Path, kind: str) -> Path:
    return folder / f"{kind}.pcap"
