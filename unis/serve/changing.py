"""What can be changed: PUT, POST and DELETE below /v1. Each is a `unis` command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from pydantic.config import JsonDict
from starlette.concurrency import run_in_threadpool

from unis.chain.model import ChainFile
from unis.engine import names
from unis.errors import EXIT_BAD_INPUT
from unis.runtime.directory import run_directory
from unis.runtime.state import Phase, RunState, is_name
from unis.serve.desired import LARGEST, SentFile
from unis.serve.objects import RestPart, RunObject, resource_version
from unis.serve.operations import Operation, OperationObject, OperationPhase
from unis.serve.problems import (
    API_VERSION,
    ApiError,
    StatusReason,
    reason_of_exit,
)

if TYPE_CHECKING:
    from unis.serve.desired import DesiredFiles
    from unis.serve.operations import Operations
    from unis.serve.reading import Looks

_MOST_WAIT = 30.0
_YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
_TYPES = ("application/json", *_YAML_TYPES)
_CHAIN_FILE_REF = "#/components/schemas/ChainFile"

Wait = Query(
    20.0, alias="waitSeconds", ge=0, le=_MOST_WAIT,
    description="How long to wait for the end. Then the answer is 202 and names the operation.",
)  # fmt: skip
DryRun = Query(
    "", alias="dryRun", pattern="^(|All)$", description="`All`: only tell what would be done."
)
_CHAIN_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A chain file, as YAML or JSON; or an object of kind Run that has it as "
        "`spec`.",
        "content": {kind: {"schema": {"$ref": _CHAIN_FILE_REF}} for kind in _TYPES},
    }
}


def _one_of(known: Sequence[str | None]) -> JsonDict:
    return {"enum": [*known]}


class PolicyBody(RestPart):
    """The scheduling policy of a run."""

    policy: str = Field(json_schema_extra=_one_of(names.policies()))
    controller: str | None = Field(None, json_schema_extra=_one_of([*names.controllers(), None]))


class AttachBody(RestPart):
    """A process that UNiS did not start, as the options of `unis attach`."""

    pid: int = Field(gt=0, le=1 << 22)
    cpu: int = Field(ge=0, lt=1 << 16)
    ingress: list[str] = Field([], max_length=64)
    egress: list[str] = Field([], max_length=64)
    name: str | None = None
    cost_ns: float | None = Field(None, ge=0.1, le=1e9)
    group: str | None = None
    policy: str | None = None

    def words(self, run: str) -> list[str]:
        """Of the command line."""
        stated = {"as": self.name, "cost-ns": self.cost_ns, "group": self.group,
                  "policy": self.policy}  # fmt: skip
        return [
            f"--pid={self.pid}", f"--cpu={self.cpu}", f"--name={run}",
            *(f"--ingress={link}" for link in self.ingress),
            *(f"--egress={link}" for link in self.egress),
            *(f"--{key}={value}" for key, value in stated.items() if value is not None),
        ]  # fmt: skip


class DoneStatus(RestPart):
    """Something was done, and nothing is left to show."""

    api_version: Literal["unis/v1"] = API_VERSION
    kind: Literal["Status"] = "Status"
    status: Literal["Success"] = "Success"
    message: str = ""


class PlanResult(RestPart):
    """What would be done."""

    api_version: Literal["unis/v1"] = API_VERSION
    kind: Literal["Plan", "Difference"]
    """Plan: the run would be started. Difference: the run would be changed."""
    metadata: dict[str, str]
    notes: list[str] = Field(default=[])
    result: Any
    """As `unis config --json`, or as `unis apply --dry-run --json`."""


class _Changes:
    """What all of them need."""

    def __init__(self, files: DesiredFiles, operations: Operations) -> None:
        self.files = files
        self.operations = operations

    def put(
        self, run: str, body: bytes, words: Sequence[str], if_match: str, *, dry: bool
    ) -> tuple[Operation, bool]:
        """Begins to apply what was sent; whether the run is new. ApiError."""
        state = run_directory(run).read() if is_name(run) else None
        _require_settled(state)
        there = state is not None and state.phase == Phase.RUNNING and state.live()
        variables = state.variables if state and there else {}
        with self.files.sent(run, body, variables) as sent:
            self._require_match(state, sent, if_match)
            if dry:
                command = ["apply", str(sent.path), "--dry-run", "--json"]
                if not there:
                    command = ["config", str(sent.path), "--json"]
                operation = self.operations.begin(
                    command, run, changes=False, aliases={str(sent.path): run}
                )
                _wait_or_cancel(operation)  # the file is removed then
                return operation, not there
            path = self.files.path(run)
            command = ["apply", str(path), "--json"] if there else ["up", str(path), "-d", *words]
            previous: list[bytes | None] = []

            def place() -> None:
                previous.append(path.read_bytes() if path.exists() else None)
                sent.path.replace(path)

            def restore(ended: Operation) -> None:
                """A file that could not be applied must not be that of the next restart."""
                # The command was interrupted during a change. The launcher finishes the change.
                goes_on = there and ended.code is not None and ended.code > EXIT_BAD_INPUT
                if ended.code and previous and not goes_on:
                    self.files.restore(run, previous[0])

            operation = self.operations.begin(
                command, run, changes=True, aliases={str(path): run}, first=place, then=restore
            )
        return operation, not there

    def _require_match(self, state: RunState | None, sent: SentFile, if_match: str) -> None:
        wanted = (
            [(if_match.strip().strip('"'), StatusReason.PRECONDITION_FAILED)] if if_match else []
        )
        if sent.resource_version:
            wanted.append((sent.resource_version, StatusReason.CONFLICT))
        found = resource_version(state, self.files.content(state)[1]) if state else ""
        for version, reason in wanted:
            if version != found and version != "*" * bool(found):
                now = f"its resourceVersion is {found}" if found else "there is no such run"
                raise ApiError(
                    reason, f"the run has changed: {now}; read it again, and repeat the request"
                )

    def begin(self, run: str, words: Sequence[str], *, changes: bool = True) -> Operation:
        """Begins a command on a run. ApiError: there is none."""
        _require_run(run)
        return self.operations.begin(words, run, changes=changes)

    def down(self, run: str) -> Operation:
        """Begins to end a run. ApiError: there is none."""
        _require_run(run)
        of_then = self.files.identity(run)

        def forget(operation: Operation) -> None:
            if operation.code == 0 and self.files.identity(run) == of_then:
                self.files.remove(run)

        return self.operations.begin(["down", run], run, changes=True, then=forget)


def _wait_or_cancel(operation: Operation) -> None:
    if not operation.wait(_MOST_WAIT):
        operation.cancel()
        operation.wait(_MOST_WAIT)


def _require_run(run: str) -> None:
    if not is_name(run) or run_directory(run).read() is None:
        raise ApiError(StatusReason.NOT_FOUND, f"there is no run `{run}`")


def _require_settled(state: RunState | None) -> None:
    if state and state.live() and state.phase in (Phase.STARTING, Phase.STOPPING):
        until = "it runs" if state.phase == Phase.STARTING else "it is down"
        told = f"run {state.name} is {state.phase}; try again when {until}"
        raise ApiError(StatusReason.CONFLICT, told)


def changing_routes(looks: Looks, files: DesiredFiles, operations: Operations) -> APIRouter:
    """The paths."""
    routes = APIRouter()
    changes = _Changes(files, operations)
    pending: dict[int | str, dict[str, Any]] = {202: {"model": OperationObject}}

    @routes.put(
        "/v1/runs/{run}",
        response_model=None,
        responses={
            200: {"model": RunObject}, 201: {"model": RunObject}, **pending,
        },
        openapi_extra=_CHAIN_BODY,
    )  # fmt: skip
    async def put_run(
        request: Request,
        run: str,
        dry_run: str = DryRun,
        wait: float = Wait,
        delivering: bool = Query(
            False, description="A new run succeeds only once every chain delivers packets."
        ),
    ) -> Response:
        """Make a run be what the chain file says: start it, or apply the difference.

        With `dryRun=All` the answer is a Plan (of a new run) or a Difference.
        """
        body = await _body(request)
        words = ["--wait"] if delivering else []
        if_match = request.headers.get("if-match", "")
        operation, new = await run_in_threadpool(
            lambda: changes.put(run, body, words, if_match, dry=bool(dry_run))
        )
        if dry_run:
            _raise_failure(operation)
            return _json(_planned(run, operation, new=new))
        return await _answer(
            operation, wait, lambda: looks.run(run, fresh=True), 201 if new else 200
        )

    @routes.delete(
        "/v1/runs/{run}", response_model=None,
        responses={200: {"model": DoneStatus}, **pending},
    )  # fmt: skip
    async def delete_run(run: str, wait: float = Wait) -> Response:
        """End a run, and leave the machine as it was. Forgets a run that failed."""
        operation = await run_in_threadpool(changes.down, run)
        return await _answer(operation, wait, lambda: _done(operation))

    @routes.post(
        "/v1/runs/{run}/restart", response_model=None,
        responses={200: {"model": RunObject}, **pending},
    )  # fmt: skip
    async def restart_run(run: str, wait: float = Wait) -> Response:
        """End a run, and start it again from its chain file."""
        operation = await run_in_threadpool(changes.begin, run, ["restart", run])
        return await _answer(operation, wait, lambda: looks.run(run, fresh=True))

    @routes.put(
        "/v1/runs/{run}/policy", response_model=None,
        responses={200: {"model": RunObject}, **pending},
    )  # fmt: skip
    async def put_policy(run: str, body: PolicyBody, wait: float = Wait) -> Response:
        """Change the scheduling policy of a run, and the controller if you name one."""
        _require_known(body.policy, names.policies(), "policy")
        words = ["policy", body.policy, run]
        if body.controller is not None:
            _require_known(body.controller, names.controllers(), "controller")
            words += ["--controller", body.controller]
        operation = await run_in_threadpool(changes.begin, run, words)
        return await _answer(operation, wait, lambda: looks.run(run, fresh=True))

    @routes.post("/v1/runs/{run}/account", response_model=OperationObject, responses=pending)
    async def account(run: str, wait: float = Wait) -> Response:
        """Count every packet of a run, in `status.result`: its source pauses and its chains drain
        meanwhile.
        """
        words = ["account", run, "--json"]
        operation = await run_in_threadpool(lambda: changes.begin(run, words, changes=False))
        return await _as_it_is(operation, wait)

    @routes.post(
        "/v1/runs/{run}/functions", response_model=None,
        responses={200: {"model": RunObject}, **pending},
    )  # fmt: skip
    async def attach_function(run: str, body: AttachBody, wait: float = Wait) -> Response:
        """Schedule a function that UNiS did not start. Starts the run if it is not up."""
        if not is_name(run):
            raise ApiError(StatusReason.INVALID, f"`{run}` is no name of a run")
        operation = await run_in_threadpool(
            lambda: operations.begin(["attach", *body.words(run)], run, changes=True)
        )
        return await _answer(operation, wait, lambda: looks.run(run, fresh=True))

    @routes.delete(
        "/v1/runs/{run}/functions/{name}", response_model=None,
        responses={200: {"model": DoneStatus}, **pending},
    )  # fmt: skip
    async def detach_function(run: str, name: str, wait: float = Wait) -> Response:
        """Give a function that was attached back, as it was found."""
        if not is_name(name):
            raise ApiError(StatusReason.NOT_FOUND, f"run `{run}` has no function `{name}`")
        words = ["detach", name, "--name", run]
        operation = await run_in_threadpool(changes.begin, run, words)
        return await _answer(operation, wait, lambda: _done(operation))

    @routes.post("/v1/plans", response_model=PlanResult, openapi_extra=_CHAIN_BODY)
    async def plan(request: Request) -> Response:
        """The plan of a chain file on this machine as it is now. Nothing is started."""
        body = await _body(request)

        def planned() -> PlanResult:
            with files.sent(None, body, {}) as sent:
                operation = operations.begin(
                    ["config", str(sent.path), "--json"], "", changes=False,
                    aliases={str(sent.path): "file"},
                )  # fmt: skip
                _wait_or_cancel(operation)
            _raise_failure(operation)
            return _planned(sent.name, operation, new=True)

        return _json(await run_in_threadpool(planned))

    @routes.post("/v1/doctor", response_model=OperationObject, responses=pending)
    async def doctor(wait: float = Wait) -> Response:
        """Check this machine, as `unis doctor --json`; the findings are in `status.result`."""
        operation = await run_in_threadpool(
            lambda: operations.begin(["doctor", "--json"], "", changes=False)
        )
        return await _as_it_is(operation, wait)

    @routes.delete("/v1/operations/{name}", response_model=OperationObject)
    async def cancel(name: str, wait: float = Wait) -> Response:
        """Cancel an operation, as Ctrl-C does: a start is undone. A change that `apply` has begun
        goes on.
        """
        operation = await run_in_threadpool(operations.get, name)
        await run_in_threadpool(operation.cancel)
        return await _as_it_is(operation, wait)

    return routes


async def _body(request: Request) -> bytes:
    """The body, no larger than a chain file may be."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and kind not in _TYPES:
        told = f"`{kind}` is not understood; send {_TYPES[0]} or {_TYPES[1]}"
        raise ApiError(StatusReason.UNSUPPORTED_MEDIA_TYPE, told)
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > LARGEST:
            raise ApiError(StatusReason.TOO_LARGE, "a chain file is no larger than 1 MB")
    return found


async def _as_it_is(operation: Operation, wait: float) -> Response:
    """The operation, ended or not."""
    ended = await operation.ends(wait)
    return _json(operation.as_object(), 200 if ended else 202)


async def _answer(
    operation: Operation, wait: float, found: Callable[[], RestPart], code: int = 200
) -> Response:
    """What came of it; the operation, if it is not ended yet."""
    if not await operation.ends(wait):
        headers = {"Location": f"/v1/operations/{operation.name}"}
        return _json(operation.as_object(), 202, headers)
    _raise_failure(operation)
    return _json(await run_in_threadpool(found), code)


def _raise_failure(operation: Operation) -> None:
    if operation.code is None:
        told = f"`unis {operation.verb}` takes too long; try again"
        raise ApiError(StatusReason.UNAVAILABLE, told)
    if operation.code:
        said = operation.lines() or _refused(operation.result)
        said = said or [f"`unis {operation.verb}` ended with code {operation.code}"]
        if operation.phase is OperationPhase.CANCELLED:
            raise ApiError(StatusReason.CONFLICT, "the operation was cancelled", said)
        raise ApiError(reason_of_exit(operation.code), said[-1], said)


def _refused(result: Any) -> list[str]:
    """Why a change cannot be made, as `unis apply --dry-run --json` prints it."""
    try:
        return [str(sentence) for sentence in result["difference"]["refused"]]
    except (KeyError, TypeError):
        return []


def _planned(run: str, operation: Operation, *, new: bool) -> PlanResult:
    return PlanResult(
        kind="Plan" if new else "Difference",
        metadata={"name": run},
        notes=operation.lines(),
        result=operation.result,
    )


def _done(operation: Operation) -> DoneStatus:
    return DoneStatus(message="\n".join(operation.lines()))


def _json(
    found: RestPart, code: int = 200, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(found.model_dump(mode="json", by_alias=True), code, headers)


def _require_known(value: str, known: Sequence[str], what: str) -> None:
    if value not in known:
        told = f"there is no {what} `{value}`; there are {', '.join(known)}"
        raise ApiError(StatusReason.INVALID, told)


def chain_file_schema() -> dict[str, Any]:
    """Schemas of the chain file and its parts, by name, as OpenAPI has them."""
    schema = ChainFile.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
    parts: dict[str, Any] = schema.pop("$defs", {})
    return {**parts, "ChainFile": schema}
