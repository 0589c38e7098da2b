"""This machine as a machine file has it: what was calibrated, and the rest assumed."""

import os
import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from statistics import fmean

from unis.capacity.machine import Cpus, LinkCost, MachineFile, PlatformCosts
from unis.capacity.parameter import Parameter, assumed
from unis.engine import names
from unis.errors import UnisError
from unis.measure import primitives
from unis.measure.primitives import Primitives
from unis.runtime.costs import cpu_model
from unis.simulate.calibration import kept

_CPUINFO = Path("/proc/cpuinfo")
_MHZ = re.compile(r"^cpu MHz\s*:\s*([0-9.]+)", re.MULTILINE)
_USUAL_HZ = 2.5e9
_GUESS = "a guess for a virtual machine; `unis calibrate` measures it"
_LINK_GUESS = "a guess; `unis bench model` measures it"
_CALLS = ("recvmmsg", "sendmmsg")
_SHORT, _LONG, _MANY = 60, 1514, 64  # bytes of frames without FCS, and frames of a call
# Of software links, beside what a function costs on rings: ns at each end, and of each byte.
_LINKS = {
    "ring": (0.0, 0.0), "memif": (15.0, 0.03), "vhost": (30.0, 0.03), "veth": (600.0, 0.1),
    "bridge": (800.0, 0.1), "xdp": (300.0, 0.1), "tap": (1000.0, 0.2), "ovs": (600.0, 0.1),
}  # fmt: skip
_CARRIED = {"ovs": 500.0}  # ns, by the thread of Open vSwitch


def this_machine() -> MachineFile:
    """The CPUs that we may use, with costs of UNiS's parts from `unis calibrate` if it has run."""
    count = Parameter(
        value=len(os.sched_getaffinity(0)), unit="CPUs", source="measured", note="that UNiS may use"
    )
    platform, switch = _costs()
    calibrated = _calibrated()
    return MachineFile(
        api_version="unis/machine/v1",
        name="here",
        description=f"{cpu_model()}, from what is calibrated here; it has no NIC in the model",
        cpus=Cpus(count=count, frequency=_frequency()),
        platform=platform,
        switch=switch,
        wake=_wake(calibrated),
        links={
            **{kind: _guessed(kind) for kind in _LINKS if kind in names.links()},
            **_veth(calibrated),
        },
    )


def _calibrated() -> Primitives | None:
    """What `unis calibrate` keeps of this machine; None: it has not run."""
    with suppress(UnisError):
        return primitives.kept()
    return None


def _measured(ns: float, when: datetime, what: str = "") -> Parameter:
    told = f"{what}{', ' if what else ''}unis calibrate, {when:%Y-%m-%d}"
    return Parameter(value=max(0.0, ns), unit="ns", source="measured", note=told)


def _wake(found: Primitives | None) -> Parameter:
    """Of functions that a CPU of the platform wakes."""
    row = found and found.find("wake_up", "fifo", by="futex", **{"from": "same CPU"})
    if found and row and row.ns:
        return _measured(row.ns.median_ns, found.measured, "a futex on one CPU")
    return assumed(2500, "ns", _GUESS)


def _guessed(kind: str) -> LinkCost:
    each, byte = (assumed(ns, "ns", _LINK_GUESS) for ns in _LINKS[kind])
    carry = assumed(_CARRIED[kind], "ns", _LINK_GUESS) if kind in _CARRIED else None
    return LinkCost(receive=each, send=each, per_byte=byte if byte.value else None, carry=carry)


def _veth(found: Primitives | None) -> dict[str, LinkCost]:
    """By packet sockets, as `unis calibrate` measured them, if it has; nothing else."""
    if found is None:
        return {}
    times = {
        (name, size, batch): row.ns.median_ns
        for name in _CALLS
        for size, batch in ((_SHORT, 1), (_SHORT, _MANY), (_LONG, _MANY))
        if (row := found.find("packet", name, frame_bytes=size, batch=batch)) and row.ns
    }
    if len(times) < 3 * len(_CALLS):
        return {}
    burst = fmean(times[name, _SHORT, 1] - times[name, _SHORT, _MANY] for name in _CALLS)
    byte = fmean(times[name, _LONG, _MANY] - times[name, _SHORT, _MANY] for name in _CALLS)
    per_burst, per_byte = max(0.0, burst * _MANY / (_MANY - 1)), max(0.0, byte / (_LONG - _SHORT))

    receive, send = (
        _measured(
            times[name, _SHORT, _MANY] - per_burst / _MANY - _SHORT * per_byte, found.measured, name
        )
        for name in _CALLS
    )
    both = " and ".join(_CALLS)
    return {
        "veth": LinkCost(
            receive=receive,
            send=send,
            per_byte=_measured(per_byte, found.measured, both),
            per_burst=_measured(per_burst, found.measured, both),
        )
    }


def _frequency() -> Parameter:
    with suppress(OSError):
        if found := _MHZ.findall(_CPUINFO.read_text()):
            hz = max(map(float, found)) * 1e6
            return Parameter(value=hz, unit="Hz", source="measured", note=str(_CPUINFO))
    return assumed(_USUAL_HZ, "Hz", "usual")


def _costs() -> tuple[PlatformCosts, Parameter]:
    """Of UNiS's own parts, and of a switch."""
    try:
        found = kept()
    except UnisError:
        costs = PlatformCosts(
            source=assumed(15, "ns", _GUESS), sink=assumed(20, "ns", _GUESS),
            bridge=assumed(20, "ns", _GUESS), decision=assumed(500, "ns", _GUESS),
        )  # fmt: skip
        return costs, assumed(1500, "ns", _GUESS)

    when, each = found.measured, found.costs
    costs = PlatformCosts(
        source=_measured(each.source_ns, when), sink=_measured(each.sink_ns, when),
        bridge=assumed(20, "ns", _LINK_GUESS), decision=_measured(each.switch_call_ns, when),
    )  # fmt: skip
    return costs, _measured(each.yield_ns, when)
