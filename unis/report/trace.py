"""Who ran when and why it was changed, in the Chrome trace format (ui.perfetto.dev opens it)."""

import json
from collections.abc import Iterable
from typing import Any

from unis.engine import names
from unis.v1 import common_pb2 as common
from unis.v1 import engine_pb2 as pb

_RUNS_THREAD, _SWITCHES_THREAD = 0, 1


def chrome_trace(
    policy: int,
    runs: Iterable[common.RunInterval],
    switches: Iterable[common.SwitchEvent],
    begin_ns: int | None = None,
) -> dict[str, Any]:
    """A track for each CPU with who ran, and one below it with each decision of the scheduler."""
    runs, switches = list(runs), list(switches)
    first = [run.begin_ns for run in runs] + [switch.time_ns for switch in switches]
    origin = begin_ns if begin_ns is not None else min(first, default=0)
    cpus = sorted({run.cpu for run in runs} | {switch.cpu for switch in switches})
    events = [event for cpu in cpus for event in _names_of_tracks(cpu)]
    events += [_run_event(run, origin) for run in runs]
    events += [_switch_event(switch, origin) for switch in switches]
    return {
        "displayTimeUnit": "ns",
        "otherData": {"policy": names.policy_name(policy)},
        "traceEvents": events,
    }


def trace_text(reply: pb.TraceReply) -> str:
    """The trace of the engine as the text of a file."""
    return json.dumps(
        chrome_trace(reply.policy, reply.runs, reply.switches, reply.begin_ns or None)
    )


def _names_of_tracks(cpu: int) -> list[dict[str, Any]]:
    def name(kind: str, thread: int, text: str) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": cpu, "tid": thread, "args": {"name": text}}

    return [
        name("process_name", _RUNS_THREAD, f"CPU {cpu}"),
        name("thread_name", _RUNS_THREAD, "runs"),
        name("thread_name", _SWITCHES_THREAD, "scheduler"),
    ]


def _run_event(run: common.RunInterval, origin: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": run.function,
        "cat": "run",
        "pid": run.cpu,
        "tid": _RUNS_THREAD,
        "ts": (run.begin_ns - origin) / 1000,  # µs
        "dur": (run.end_ns - run.begin_ns) / 1000,
        "args": {"packets": run.packets},
    }


def _switch_event(switch: common.SwitchEvent, origin: int) -> dict[str, Any]:
    return {
        "ph": "i",
        "s": "p",
        "name": names.reason_name(switch.reason),
        "cat": "switch",
        "pid": switch.cpu,
        "tid": _SWITCHES_THREAD,
        "ts": (switch.time_ns - origin) / 1000,
        "args": {
            "from": getattr(switch, "from"),
            "to": switch.to,
            "from ingress": switch.from_ingress,
            "from egress": switch.from_egress,
            "to ingress": switch.to_ingress,
            "to egress": switch.to_egress,
            "slice µs": switch.slice_ns / 1000,
        },
    }
