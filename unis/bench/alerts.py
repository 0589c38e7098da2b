"""Suricata's alerts in a chain under UNiS, against those of Suricata alone on a core.

Each capture goes through once, from its first packet to its last, so that both see the same packets
in the same order and no flow twice. All its alerts are compared, each with its rule, what became of
the packet, and the addresses; what it says it dropped is held against what the engine counts as
dropped by functions.
"""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from unis.bench import third_party
from unis.chain.load import LoadedChain
from unis.plan.machine import Machine
from unis.runtime.errors import RunFailedError
from unis.runtime.run import Options, Run
from unis.runtime.running import brought_up
from unis.v1 import engine_pb2 as pb

_QUIET_SECONDS = 0.3  # without a new packet: the capture is at its end
_LOOKS = 30  # until it must be

# Rule, action, protocol, addresses and ports.
Alert = tuple[object, ...]


class Pass(BaseModel):
    """A capture that went through once."""

    offered: int  # packets
    delivered: int
    dropped_by_function: int  # as the engine accounts for them
    drops: int  # of packets, as Suricata tells
    alerts: int

    @property
    def accounted(self) -> bool:
        """Whether every packet was delivered or is one that Suricata says it dropped."""
        return (
            self.dropped_by_function == self.drops
            and self.offered == self.delivered + self.dropped_by_function
        )


class CaptureAlerts(BaseModel):
    """One capture, both ways."""

    alone: Pass
    unis: Pass
    same: bool  # alerts, as often
    accounted: bool


class Alerts(BaseModel):
    """All captures, by name."""

    captures: dict[str, CaptureAlerts]
    same: bool
    accounted: bool


def compare_alerts(machine: Machine, report: Callable[[str], None]) -> Alerts:
    """Plays each capture to Suricata alone under the kernel, and in its chain under UNiS."""
    captures: dict[str, CaptureAlerts] = {}
    for capture in third_party.CAPTURES:
        alone, told_alone = _play(capture, machine, report, alone=True)
        unis, told = _play(capture, machine, report, alone=False)
        captures[capture] = CaptureAlerts(
            alone=alone,
            unis=unis,
            same=told_alone == told,
            accounted=alone.accounted and unis.accounted,
        )
    return Alerts(
        captures=captures,
        same=all(capture.same for capture in captures.values()),
        accounted=all(capture.accounted for capture in captures.values()),
    )


def events_in(text: str) -> tuple[Counter[Alert], int]:
    """Alerts and how often each, and the number of dropped packets, of a file of EVENTS."""
    alerts: Counter[Alert] = Counter()
    drops = 0
    for line in text.splitlines():
        event = json.loads(line)
        if event["event_type"] == "drop":
            drops += 1
        elif event["event_type"] == "alert":
            flow = (event.get(key) for key in
                    ("proto", "src_ip", "src_port", "dest_ip", "dest_port"))  # fmt: skip
            alerts[event["alert"]["signature_id"], event["alert"]["action"], *flow] += 1
    return alerts, drops


def _play(
    capture: str, machine: Machine, report: Callable[[str], None], *, alone: bool
) -> tuple[Pass, Counter[Alert]]:
    with tempfile.TemporaryDirectory(prefix="unis-bench-") as name:
        directory = Path(name)
        events = directory / third_party.EVENTS
        cpu = max(machine.cpus)

        def make() -> LoadedChain:
            events.unlink(missing_ok=True)
            return third_party.suricata_chain(capture, cpu, directory, alone=alone)

        policy = "other" if alone else "unis"
        account = brought_up(make, machine, Options(policy=policy), report, _till_it_ends)
        alerts, drops = events_in(events.read_text())
    return Pass(
        offered=account.offered,
        delivered=account.delivered,
        dropped_by_function=account.dropped_by_function,
        drops=drops,
        alerts=alerts.total(),
    ), alerts


def _till_it_ends(run: Run) -> pb.Account:
    before = 0
    for _ in range(_LOOKS):
        time.sleep(_QUIET_SECONDS)
        run.check()
        offered = run.client.stats().account.offered
        if 0 < offered == before:
            return run.client.settle()
        before = offered
    raise RunFailedError(f"the capture did not end: {before} packets of it came")
