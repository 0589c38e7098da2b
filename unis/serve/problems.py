"""Errors as Kubernetes tells them: an object of kind Status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

from unis.errors import EXIT_BAD_INPUT

API_VERSION: Final = "unis/v1"


class StatusReason(StrEnum):
    """Why a request failed; each has a status code of HTTP."""

    BAD_REQUEST = "BadRequest"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "NotFound"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    CONFLICT = "Conflict"
    PRECONDITION_FAILED = "PreconditionFailed"
    TOO_LARGE = "RequestEntityTooLarge"
    UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType"
    MISDIRECTED = "MisdirectedRequest"
    INVALID = "Invalid"
    TOO_MANY_REQUESTS = "TooManyRequests"
    INTERNAL_ERROR = "InternalError"
    UNAVAILABLE = "ServiceUnavailable"


CODES: Mapping[StatusReason, int] = {
    StatusReason.BAD_REQUEST: 400,
    StatusReason.UNAUTHORIZED: 401,
    StatusReason.FORBIDDEN: 403,
    StatusReason.NOT_FOUND: 404,
    StatusReason.METHOD_NOT_ALLOWED: 405,
    StatusReason.CONFLICT: 409,
    StatusReason.PRECONDITION_FAILED: 412,
    StatusReason.TOO_LARGE: 413,
    StatusReason.UNSUPPORTED_MEDIA_TYPE: 415,
    StatusReason.MISDIRECTED: 421,
    StatusReason.INVALID: 422,
    StatusReason.TOO_MANY_REQUESTS: 429,
    StatusReason.INTERNAL_ERROR: 500,
    StatusReason.UNAVAILABLE: 503,
}
_BY_CODE = {code: reason for reason, code in CODES.items()}


class StatusCause(BaseModel):
    """One thing that is wrong."""

    message: str


class StatusDetails(BaseModel):
    """More about it."""

    causes: list[StatusCause] = Field(default=[])


class FailureStatus(BaseModel):
    """Why a request failed."""

    api_version: Literal["unis/v1"] = Field(API_VERSION, alias="apiVersion")
    kind: Literal["Status"] = "Status"
    status: Literal["Failure"] = "Failure"
    reason: StatusReason
    message: str
    code: int
    details: StatusDetails = StatusDetails()


FAILURES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": FailureStatus, "description": "The request cannot be done."},
    "5XX": {"model": FailureStatus, "description": "The server cannot do it now."},
}
"""What any path may answer, for its description."""


class ApiError(Exception):
    """Ends a request with a Status. `causes`: sentences, each on one thing that is wrong."""

    def __init__(self, reason: StatusReason, message: str, causes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.causes = causes


def reason_of_exit(code: int) -> StatusReason:
    """What the exit code of a command says: whether the request is wrong, or the machine."""
    return StatusReason.INVALID if code == EXIT_BAD_INPUT else StatusReason.CONFLICT


def reason_of_http(code: int) -> StatusReason:
    """Of an error that FastAPI or Starlette raised."""
    return _BY_CODE.get(code, StatusReason.BAD_REQUEST)


def status(reason: StatusReason, message: str, causes: Sequence[str] = ()) -> dict[str, Any]:
    """The object."""
    details = StatusDetails(causes=[StatusCause(message=cause) for cause in causes])
    found = FailureStatus(reason=reason, message=message, code=CODES[reason], details=details)
    return found.model_dump(mode="json", by_alias=True)


def status_response(reason: StatusReason, message: str, causes: Sequence[str] = ()) -> JSONResponse:
    """The answer."""
    headers = {}
    if reason is StatusReason.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="unis"'
    if reason is StatusReason.TOO_MANY_REQUESTS:
        headers["Retry-After"] = "1"
    return JSONResponse(status(reason, message, causes), CODES[reason], headers)
