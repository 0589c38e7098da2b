"""Memory references of our own functions, simulated where the processor does not count them.

A function runs by itself under Callgrind, the tool of Valgrind that has Cachegrind's caches and can
leave out what is not work on packets. The caches are those of the machine, as Valgrind sees them,
and are not shared with anything. So these numbers are modelled, and added to nothing measured.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from unis.counted.flows import ENTRY, Flows, by_itself, write_capture
from unis.counted.result import Count, PlaceCounts
from unis.plan.model import FunctionPlan, Plan

PROVIDER = "cachegrind (modelled)"
_PACKETS = 20_000
_SECONDS = 120
# Sums of events of Callgrind.
_COUNTED = {
    "instructions": ("Ir",),
    "data references": ("Dr", "Dw"),
    "L1D misses": ("D1mr", "D1mw"),
    "LLC misses": ("DLmr", "DLmw"),
}


class ReferencesError(Exception):
    """Not of this function; the text says why."""


def references(plan: Plan, report: Callable[[str], None]) -> tuple[list[PlaceCounts], list[str]]:
    """Of each function, a few seconds each; and sentences on those of which it cannot be said."""
    if shutil.which("valgrind") is None:
        return [], [
            "references: Valgrind is missing (apt-get install valgrind); not known: memory "
            "references of the functions, modelled"
        ]
    found, missing = [], []
    for function in plan.functions:
        report(f"simulating the caches of {function.name}, under Valgrind")
        try:
            found.append(_place(function.name, _of_function(function, _flows(plan))))
        except ReferencesError as error:
            missing.append(f"references: {error}")
    return found, missing


def _flows(plan: Plan) -> Flows:
    return Flows(getattr(plan.traffic.source, "flows", 1), _PACKETS)


def _place(name: str, counts: dict[str, float]) -> PlaceCounts:
    # A simulation of the same packets gives the same again.
    return PlaceCounts(
        name=name,
        counts={
            what: Count(
                value=value, interval=(value, value), provider=PROVIDER, unit="events a packet"
            )
            for what, value in counts.items()
        },
        ratios={},
    )


def _of_function(function: FunctionPlan, flows: Flows) -> dict[str, float]:
    if function.is_command or function.user or function.env:
        raise ReferencesError(
            f"{function.name} is not simulated: only functions of UNiS are, without another user "
            "or environment"
        )
    with tempfile.TemporaryDirectory(prefix="unis-references-") as work:
        capture, out = Path(work) / "in.pcap", Path(work) / "out"
        write_capture(capture, flows.frames())
        words = by_itself(function.program, tuple(function.words), capture)
        said = _run(function, [*_valgrind(out), *words], work)
        received = re.search(r"^rx_packets +(\d+)$", said, re.MULTILINE)
        packets = int(received[1]) if received else flows.total
        try:
            sums = parse_sums(out.read_text())
        except (OSError, ValueError):
            raise ReferencesError(f"{function.name}: Callgrind wrote no sums") from None
    if not packets or not sums["Ir"]:
        raise ReferencesError(
            f"{function.name} calls no function {ENTRY} with packets, or has no symbols"
        )
    return {what: sum(sums[each] for each in events) / packets for what, events in _COUNTED.items()}


def _valgrind(out: Path) -> list[str]:
    return [
        "valgrind", "--tool=callgrind", "-q", "--cache-sim=yes", f"--toggle-collect={ENTRY}",
        f"--callgrind-out-file={out}",
    ]  # fmt: skip


def _run(function: FunctionPlan, command: Sequence[str], work: str) -> str:
    try:
        done = subprocess.run(
            command, cwd=function.cwd, env={**os.environ, "TMPDIR": work},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ReferencesError(
            f"{function.name} has not ended after {_SECONDS} s under Valgrind"
        ) from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        why = lines[-1] if lines else "it said nothing"
        raise ReferencesError(f"{function.name} failed under Valgrind: {why}")
    return done.stdout


def parse_sums(text: str) -> dict[str, int]:
    """The events of a file of Callgrind. ValueError: it has none."""
    events = re.search(r"^events: (.+)$", text, re.MULTILINE)
    # Where parts of the program were left out `totals` may lack their share of `summary`.
    sums = re.search(r"^summary: (.+)$", text, re.MULTILINE)
    if not events or not sums:
        raise ValueError("no sums")
    names, values = events[1].split(), [int(word) for word in sums[1].split()]
    # Callgrind leaves zeros at the end out.
    return dict(zip(names, [*values, *[0] * (len(names) - len(values))], strict=True))
