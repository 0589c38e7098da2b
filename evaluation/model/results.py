"""results.json of `python -m evaluation model`."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from evaluation.model.judging import LinkParameters, ModelRow, ModelVerdict, verdict_of
from evaluation.model.overload import LOADS, OverloadPoint, in_hardware
from unis.measure.summary import MachineSummary


class ModelResults(BaseModel):
    """All that was measured, and what it says."""

    schema_version: int = 1
    machine: MachineSummary
    commit: str
    quick: bool
    rounds: int
    window_s: float
    parameters: list[LinkParameters]
    rows: list[ModelRow]
    verdict: ModelVerdict
    overload: list[OverloadPoint]  # links that drop in software: measured
    hardware: dict[float, float]  # by load, links that drop in hardware: the model, not measured
    left_out: dict[str, str]  # what was not measured, and why
    stolen: float  # share of the CPUs' time that a hypervisor gave to others


def results_of(
    machine: MachineSummary,
    commit: str,
    *,
    quick: bool,
    rounds: int,
    window_s: float,
    parameters: Sequence[LinkParameters],
    rows: Sequence[ModelRow],
    overload: Sequence[OverloadPoint],
    left_out: Mapping[str, str],
    stolen: float,
) -> ModelResults:
    """With the verdict."""
    return ModelResults(
        machine=machine,
        commit=commit,
        quick=quick,
        rounds=rounds,
        window_s=window_s,
        parameters=list(parameters),
        rows=list(rows),
        verdict=verdict_of(rows, left_out),
        overload=list(overload),
        hardware=dict(zip(LOADS, in_hardware(LOADS), strict=True)),
        left_out=dict(left_out),
        stolen=stolen,
    )
