"""What `unis calibrate` has measured on this machine, kept for `unis simulate --calibrated`."""

import datetime
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError, field_validator

from unis.runtime.costs import cpu_model
from unis.runtime.kept import KeptFile, age_remark, first_error
from unis.simulate.scenario import MachineCosts, ScenarioError

_MAY_BE_0 = ("scheduled_switch_ns",)  # the scheduler believes the truth


class Calibration(BaseModel):
    """Costs of a machine, and when they were measured."""

    model_config = ConfigDict(extra="forbid")

    cpu_model: str
    measured: AwareDatetime
    costs: MachineCosts

    @field_validator("costs", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        names = {field.name for field in fields(MachineCosts)}
        if isinstance(value, Mapping) and (more := sorted({*value} - names)):
            raise ValueError(f"unknown key `{more[0]}`")
        return value

    @field_validator("costs")
    @classmethod
    def _measured(cls, costs: MachineCosts) -> MachineCosts:
        for name, value in asdict(costs).items():
            if isinstance(value, bool) or (value == 0 and name in _MAY_BE_0):
                continue
            if not 0 < value < math.inf:
                raise ValueError(f"`{name}` is {value:g}, and costs are above 0")
        return costs

    @classmethod
    def of(cls, costs: MachineCosts) -> "Calibration":
        """Measured just now. ScenarioError where that cannot be."""
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        try:
            return cls(cpu_model=cpu_model(), measured=now, costs=costs)
        except ValidationError as error:
            raise ScenarioError(
                f"what was measured cannot be: {first_error(error)}; try again while nothing "
                "else runs",
                bad_input=False,
            ) from None

    def stale(self) -> str | None:
        """Why it does not hold here; None: it does."""
        if self.cpu_model == cpu_model():
            return None
        return f"it is of another CPU ({self.cpu_model}): run `unis calibrate`"

    def remark(self, now: datetime.datetime | None = None) -> str | None:
        """What who reckons with it must know; None: it is of today."""
        return age_remark(self.measured, now)


FILE = KeptFile("calibration.json", Calibration, ScenarioError)


def kept() -> Calibration:
    """What was measured here last; ScenarioError if nothing was, or on another CPU."""
    found = FILE.read()
    if stale := found.stale():
        raise ScenarioError(f"{FILE.path}: {stale}")
    return found
