"""What `unis calibrate` has measured on this machine, kept for `unis simulate --calibrated`."""

import datetime
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError, field_validator

from unis.runtime.costs import cache_directory, cpu_model
from unis.runtime.files import check_writable, write_atomically
from unis.simulate.scenario import MachineCosts, ScenarioError

_OLD = datetime.timedelta(days=1)
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
                f"what was measured cannot be: {_first(error)}; try again while nothing else runs",
                bad_input=False,
            ) from None

    def remark(self, now: datetime.datetime | None = None) -> str | None:
        """What who reckons with it must know; None: it is of today."""
        age = (now or datetime.datetime.now(datetime.UTC)) - self.measured
        if age <= _OLD:
            return None
        days = round(age / _OLD)
        return (
            f"this calibration is {days} day{'s' if days > 1 else ''} old, and a machine that "
            "others share may be another by now: run `unis calibrate`"
        )


def see_that_it_can_be_kept() -> None:
    """Before 20 s are spent on it. ScenarioError if it cannot."""
    try:
        check_writable(_file().parent)
    except OSError as error:
        raise _cannot_keep(error) from None


def keep(calibration: Calibration) -> Path:
    """Writes it for later calls; returns the file. ScenarioError if it cannot."""
    file = _file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, calibration.model_dump_json(indent=1) + "\n")
    except OSError as error:
        raise _cannot_keep(error) from None
    return file


def kept() -> Calibration:
    """What was measured here last; ScenarioError if nothing was, or on another CPU."""
    file = _file()
    try:
        found = Calibration.model_validate_json(file.read_text())
    except FileNotFoundError:
        raise ScenarioError(
            f"no calibration in {file}: run `unis calibrate` as the same user"
        ) from None
    except OSError as error:
        raise ScenarioError(f"cannot read {file}: {error.strerror}") from None
    except ValidationError as error:
        raise ScenarioError(
            f"{file}: invalid calibration ({_first(error)}); run `unis calibrate`"
        ) from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{file}: invalid calibration; run `unis calibrate`") from None
    if found.cpu_model != cpu_model():
        raise ScenarioError(f"{file} is of another CPU ({found.cpu_model}): run `unis calibrate`")
    return found


def _first(error: ValidationError) -> str:
    """Of what is wrong."""
    found = error.errors()[0]
    where = ".".join(map(str, found["loc"]))
    said = found["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else said


def _cannot_keep(error: OSError) -> ScenarioError:
    return ScenarioError(
        f"cannot write {_file()}: {error.strerror}; XDG_CACHE_HOME names another place"
    )


def _file() -> Path:
    return cache_directory() / "calibration.json"
