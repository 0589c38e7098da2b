"""results.json of `python -m evaluation scc`."""

from pydantic import BaseModel

from evaluation.scc import paper
from evaluation.scc.arms import FIFO_POLLING
from evaluation.scc.claims import Kept, SccClaim, accounts_claim, claims
from evaluation.scc.experiments import Measurements, SccSettings, kernel_settings
from evaluation.scc.profiler.claims import profiler_claims
from evaluation.scc.profiler.found import ProfilerFound
from evaluation.scc.rows import LatencyFit, SccRow, fits
from unis.measure.disturbance import remark
from unis.measure.summary import MachineSummary


class SccResults(BaseModel):
    """All that was measured, and what it says."""

    schema_version: int = 1
    machine: MachineSummary
    commit: str
    quick: bool
    rounds: int
    window_s: float
    rows: list[SccRow]
    fits: list[LatencyFit]
    claims: list[SccClaim]
    accounts: list[Kept]
    profiler: ProfilerFound
    kernel_settings: dict[str, list[str]]  # Table 6: by arm, what the kernel said of functions
    left_out: dict[str, str]  # what was not measured, and why
    doubted: dict[str, str]  # what does not show what it is to show, and why
    remarks: dict[str, list[str]]  # by experiment: what does not close in the paper
    disturbed: str | None


def results_of(
    found: Measurements, settings: SccSettings, machine: MachineSummary, commit: str
) -> SccResults:
    """With all verdicts; those of rows are written into them."""
    rows = [row.model_copy(update={"verdict": None}) for row in found.rows]
    judged = [*claims(rows, found.left_out, found.doubted), accounts_claim(found.accounts)]
    judged += profiler_claims(found.profiler, found.left_out)
    experiments = dict.fromkeys(row.experiment for row in rows)
    if not found.profiler.empty:
        experiments["profiler"] = None
    return SccResults(
        machine=machine,
        commit=commit,
        quick=settings.quick,
        rounds=settings.rounds,
        window_s=settings.window,
        rows=rows,
        fits=fits(rows),
        claims=judged,
        accounts=found.accounts,
        profiler=found.profiler,
        kernel_settings=kernel_settings([row for row in rows if row.experiment != "contention"]),
        left_out={**found.left_out, "policy fifo": FIFO_POLLING},
        doubted=found.doubted,
        remarks={name: paper.remarks(name) for name in experiments},
        disturbed=remark(
            [
                *(row.disturbed for row in rows if row.experiment != "contention"),
                *(row.profile.disturbed for row in found.profiler.lengths),
            ]
        ),
    )
