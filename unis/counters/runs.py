"""The declarations of what is told of a run beside its engine's statistics, which may be absent."""

from __future__ import annotations

from unis.counters.metric import CountedField, Metric, MetricKind

_COUNTER, _GAUGE, _ = MetricKind


def _told(name: str, kind: MetricKind, unit: str, field: str, says: str, labels: str) -> Metric:
    """A metric; `field` is where `unis ps --json` has the same, or empty."""
    readings = (CountedField(field, says),) if field else ()
    return Metric(name, kind, unit, says, tuple(labels.split()), readings)


BUILD = _told("unis_build_info", _GAUGE, "", "", "The version of UNiS; always 1.", "version")
UP = _told("unis_run_up", _GAUGE, "", "silence",
           "1 where the engine of the run answered, else 0.", "")  # fmt: skip
PHASE = _told("unis_run_phase", _GAUGE, "", "phase",
              "How far the run is: starting, running, stopping, failed, stale (its launcher was "
              "killed), damaged (its notes cannot be read); always 1.", "phase")  # fmt: skip
TOOK = _told("unis_run_answer_seconds", _GAUGE, "seconds", "",
             "How long the engine of the run took to answer.", "")  # fmt: skip
FUNCTION_UP = _told("unis_function_up", _GAUGE, "", "exited",
                    "1 while the process of the function runs.", "function")  # fmt: skip
RESTARTS = _told("unis_function_restarts_total", _COUNTER, "restarts", "restarts",
                 "Times that the function was started again after its process ended.",
                 "function")  # fmt: skip
GOAL = _told("unis_chain_goal_seconds", _GAUGE, "seconds", "goals.goal_ns",
             "The promise: 95 % of the packets of the chain take no longer.", "chain")  # fmt: skip
WITHIN = _told("unis_chain_within_goal_packets_total", _COUNTER, "packets", "",
               "Packets that took no longer than the goal; all are in "
               "unis_chain_latency_seconds_count.", "chain")  # fmt: skip
KEPT = _told("unis_chain_goal_kept", _GAUGE, "", "goals.p95_ns",
             "1 where the promise was kept over all packets since the engine started.",
             "chain")  # fmt: skip

RUNS = (BUILD, UP, PHASE, TOOK, FUNCTION_UP, RESTARTS, GOAL, WITHIN, KEPT)
