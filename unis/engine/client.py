"""A typed client of `unisd`, over gRPC on a Unix socket."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import grpc
from google.protobuf.message import Message

from unis import rpc
from unis.engine import names
from unis.errors import UnisError
from unis.signals import blocked
from unis.v1 import costs_pb2, engine_pb2_grpc
from unis.v1 import engine_pb2 as pb
from unis.v1.common_pb2 import Policy
from unis.v1.engine_pb2 import ControllerKind

_ASK_AGAIN_SECONDS = 0.1
# Beyond the time that the call itself is told to take: the engine's own sentence comes first.
_CALL_SECONDS = 10.0
_REFUSED = "unisd"  # metadata of every refusal by the engine; gRPC's own errors have none
PATIENCE = 20.0  # seconds, for the operation that the engine is busy with

Reply = TypeVar("Reply", bound=Message)


class EngineError(UnisError):
    """The engine refused a call or cannot be reached; the text is a sentence.

    INVALID_ARGUMENT is the only code that blames the request. The same request may succeed later
    after any other code, for the state of the engine or of the machine is to blame.
    """

    def __init__(
        self, sentence: str, code: grpc.StatusCode | None = None, *, gone: bool = False
    ) -> None:
        super().__init__(sentence, bad_input=code == grpc.StatusCode.INVALID_ARGUMENT)
        self.gone = gone  # nothing answers on the socket
        self.busy = code == grpc.StatusCode.ABORTED  # another operation runs: ask again


class EngineClient:
    """Calls `unisd`; every method raises EngineError. Times are in seconds."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel = rpc.open_channel(
            socket,
            "unisd",
            max_receive_message_length=256 << 20,  # a trace is long
            max_reconnect_backoff_ms=200,
            initial_reconnect_backoff_ms=50,
        )
        self._stub: Any = cast("Any", engine_pb2_grpc.EngineStub)(self._channel)

    def __enter__(self) -> "EngineClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        with blocked():
            self._channel.close()

    def wait_ready(self, seconds: float, alive: Callable[[], None]) -> None:
        """Waits till the engine answers; `alive` raises if there is no use waiting."""
        end = time.monotonic() + seconds
        while True:
            alive()
            # gRPC would look every 200 ms.
            if not self._socket.exists() and time.monotonic() < end:
                time.sleep(0.005)
                continue
            with blocked():
                try:
                    grpc.channel_ready_future(self._channel).result(timeout=0.2)
                    return
                except grpc.FutureTimeoutError:
                    pass
            if time.monotonic() > end:
                raise EngineError(
                    f"unisd did not answer on {self._socket} within {seconds:.0f} s", gone=True
                )

    def deploy(self, request: pb.DeployRequest) -> None:
        """Makes links, classifier and traffic, which do not run yet."""
        self._call("Deploy", request, pb.Empty, seconds=30)

    def attach(
        self,
        function: str,
        pid: int,
        alive: Callable[[], None],
        seconds: float = 20,
        xdp_sockets: Mapping[int, int] | None = None,
    ) -> pb.AttachReply:
        """Waits till the function polls, and takes hold of its polling thread.

        `alive` is called now and then, and raises if the function is dead. `xdp_sockets`: the inode
        of each, by its port.
        """
        request = pb.AttachRequest(
            function=function,
            pid=pid,
            timeout_ns=round(seconds * 1e9),
            xdp_sockets=[
                pb.PortSocket(port=at, inode=it) for at, it in (xdp_sockets or {}).items()
            ],
        )
        longest = _CALL_SECONDS + seconds
        return self._call("Attach", request, pb.AttachReply, longest, alive, PATIENCE)

    def detach(
        self, function: str, patience: float = PATIENCE, *, pid: int = 0, start_time: int = 0
    ) -> None:
        """Lets go of the function's threads; its chains are down till another is attached.

        The process `pid`, which started at `start_time` (clock ticks since boot), makes room for
        the next if it ended before it was attached; 0: none was started.
        """
        request = pb.DetachRequest(function=function, pid=pid, start_time=start_time)
        self._call("Detach", request, pb.Empty, patience=patience)

    def apply(self, request: pb.DeployRequest, patience: float = PATIENCE) -> None:
        """Brings the run, which may be running, to what `request` says: all of it or none."""
        self._call("Apply", request, pb.Empty, seconds=30, patience=patience)

    def estimate(
        self, functions: Sequence[str], shares: Mapping[int, int], rounds: int
    ) -> Sequence[costs_pb2.FunctionEstimate]:
        """Measures what a packet costs functions, which take turns (Cycle Estimator).

        `shares`: number of packets by size in bytes; empty: all have the smallest size.
        """
        request = costs_pb2.EstimateRequest(
            functions=functions, sizes=shares.keys(), shares=shares.values(), rounds=rounds
        )
        seconds = 60.0 * len(functions)
        return self._call("Estimate", request, costs_pb2.EstimateReply, seconds).functions

    def switch_cost(self, cpu: int, rounds: int) -> costs_pb2.SwitchCostReply:
        """Measures what passing a CPU costs."""
        request = costs_pb2.SwitchCostRequest(cpu=cpu, rounds=rounds)
        return self._call("MeasureSwitchCost", request, costs_pb2.SwitchCostReply, seconds=30)

    def start(self, policy: Policy, controller: ControllerKind | None = None) -> None:
        """Lets traffic and scheduler run."""
        self._call(
            "Start", pb.PolicyRequest(policy=policy, controller=controller), pb.Empty, seconds=15
        )

    def set_policy(self, policy: Policy, controller: ControllerKind | None = None) -> None:
        """Changes policy and controller of the running chains: both or neither."""
        self._call("SetPolicy", pb.PolicyRequest(policy=policy, controller=controller), pb.Empty)

    def stats(self, *, latency: bool = False, seconds: float = _CALL_SECONDS) -> pb.Stats:
        """A snapshot of every counter."""
        return self._call("GetStats", pb.StatsRequest(latency=latency), pb.Stats, seconds)

    def watch(self, interval: float, *, latency: bool = False) -> Iterator[pb.Stats]:
        """A snapshot now and after every interval, until the run ends."""
        request = pb.WatchRequest(interval_ns=round(interval * 1e9), latency=latency)
        try:
            yield from rpc.answers(lambda: self._stub.Watch(request))
        except grpc.RpcError as error:
            raise self._explain("Watch", error, interval) from None

    def measure(self, request: pb.MeasureRequest) -> pb.MeasureReply:
        """Changes policy and controller, lets them settle, and measures over a window.

        EngineError if the source is a port, or if something else was measured than was asked for.
        """
        seconds = _CALL_SECONDS + (request.settle_ns + request.window_ns) / 1e9
        reply = self._call("Measure", request, pb.MeasureReply, seconds)
        for what, told in (
            ("policy", lambda said: names.policy_name(said.policy)),
            ("controller", lambda said: names.controller_name(said.controller)),
            ("yield_every", lambda said: said.yield_every),
            ("scheduler", lambda said: said.scheduler if said.HasField("scheduler") else None),
        ):
            if (wanted := told(request)) != (measured := told(reply)):
                raise EngineError(
                    f"{what} {wanted} was to be measured, and the engine measured {measured}: "
                    "somebody changed it meanwhile"
                )
        return reply

    def settle(self, seconds: float = 5) -> pb.Account:
        """Pauses the source, drains the chains, takes the exact account and resumes."""
        request = pb.SettleRequest(timeout_ns=round(seconds * 1e9))
        return self._call("Settle", request, pb.Account, _CALL_SECONDS + seconds)

    def trace(self, seconds: float) -> pb.TraceReply:
        """Who ran when, for so long from now on."""
        request = pb.TraceRequest(duration_ns=round(seconds * 1e9))
        return self._call("Trace", request, pb.TraceReply, _CALL_SECONDS + seconds)

    def stop(self, seconds: float = 3, alive: Callable[[], None] | None = None) -> pb.Account:
        """Stops and drains the chains, lets go of every thread; the engine then exits."""
        request = pb.SettleRequest(timeout_ns=round(seconds * 1e9))
        return self._call("Stop", request, pb.Account, seconds + 5, alive)

    def _call(
        self,
        method: str,
        request: Message,
        _reply: type[Reply],
        seconds: float = _CALL_SECONDS,
        alive: Callable[[], None] | None = None,
        patience: float = 0.0,
    ) -> Reply:
        """Asks again for so long as `patience` where the engine is busy."""
        end = time.monotonic() + patience
        while True:
            try:
                call = getattr(self._stub, method)
                return cast("Reply", rpc.answer(call, request, seconds, alive))
            except grpc.RpcError as error:
                why = self._explain(method, error, seconds)
                if not why.busy or time.monotonic() > end:
                    raise why from None
            if alive:
                alive()
            time.sleep(_ASK_AGAIN_SECONDS)

    def _explain(self, method: str, error: grpc.RpcError, seconds: float) -> EngineError:
        call = cast("grpc.Call", error)
        code, details = call.code(), (call.details() or "").strip()
        if all(key != _REFUSED for key, _ in call.trailing_metadata() or ()):
            if code == grpc.StatusCode.UNAVAILABLE:
                return EngineError(f"unisd does not answer on {self._socket}", gone=True)
            if code == grpc.StatusCode.DEADLINE_EXCEEDED:
                return EngineError(f"unisd did not answer {method} within {seconds:g} s", gone=True)
        return EngineError(details or f"{method} failed in unisd ({code.name})", code)
