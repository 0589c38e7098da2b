"""Measurements of this machine, kept in the cache for later commands of the same user."""

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from unis.errors import UnisError
from unis.runtime.costs import cache_directory
from unis.runtime.files import check_writable, write_atomically

M = TypeVar("M", bound=BaseModel)
_OLD = datetime.timedelta(days=1)


def age_remark(measured: datetime.datetime, now: datetime.datetime | None = None) -> str | None:
    """What who reckons with a calibration must know; None: it is of today."""
    age = (now or datetime.datetime.now(datetime.UTC)) - measured
    if age <= _OLD:
        return None
    days = round(age / _OLD)
    return (
        f"this calibration is {days} day{'s' if days > 1 else ''} old, and a machine that "
        "others share may be another by now: run `unis calibrate`"
    )


def first_error(error: ValidationError) -> str:
    """Of what is wrong."""
    found = error.errors()[0]
    where = ".".join(map(str, found["loc"]))
    said = found["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else said


@dataclass(frozen=True)
class KeptFile(Generic[M]):
    """A file of the cache that holds one model. What is wrong is raised as `error`."""

    name: str
    model: type[M]
    error: type[UnisError] = UnisError

    @property
    def path(self) -> Path:
        """Where it is."""
        return cache_directory() / self.name

    def see_that_it_can_be_written(self) -> None:
        """Before time is spent on a measurement."""
        try:
            check_writable(self.path.parent)
        except OSError as error:
            raise self._cannot_write(error) from None

    def write(self, model: M) -> Path:
        """Returns the path."""
        path = self.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, model.model_dump_json(indent=1) + "\n")
        except OSError as error:
            raise self._cannot_write(error) from None
        return path

    def read(self) -> M:
        """What was written last."""
        path = self.path
        try:
            return self.model.model_validate_json(path.read_text())
        except FileNotFoundError:
            raise self.error(
                f"no calibration in {path}: run `unis calibrate` as the same user"
            ) from None
        except OSError as error:
            raise self.error(f"cannot read {path}: {error.strerror}") from None
        except ValidationError as error:
            raise self.error(
                f"{path}: invalid calibration ({first_error(error)}); run `unis calibrate`"
            ) from None
        except UnicodeDecodeError:
            raise self.error(f"{path}: invalid calibration; run `unis calibrate`") from None

    def _cannot_write(self, error: OSError) -> UnisError:
        return self.error(
            f"cannot write {self.path}: {error.strerror}; XDG_CACHE_HOME names another place"
        )
