"""What `unis calibrate` has measured on this machine, kept for `unis simulate --calibrated`."""

from pathlib import Path

from pydantic import BaseModel, ValidationError

from unis.runtime.costs import cache_directory, cpu_model
from unis.runtime.files import write_atomically
from unis.simulate.scenario import MachineCosts, ScenarioError


class Calibration(BaseModel):
    """Costs of a machine, and when they were measured."""

    cpu_model: str
    measured: str  # ISO 8601, UTC
    costs: MachineCosts


def keep(calibration: Calibration) -> Path:
    """Writes it for later calls; returns the file."""
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, calibration.model_dump_json(indent=1) + "\n")
    return file


def kept() -> Calibration:
    """What was measured here last; ScenarioError if nothing was, or on another CPU."""
    try:
        found = Calibration.model_validate_json(_file().read_text())
    except (OSError, ValidationError):
        raise ScenarioError(
            f"no calibration in {_file()}: run `unis calibrate` as the same user"
        ) from None
    if found.cpu_model != cpu_model():
        raise ScenarioError(
            f"{_file()} is of another CPU ({found.cpu_model}): run `unis calibrate`"
        )
    return found


def _file() -> Path:
    return cache_directory() / "calibration.json"
