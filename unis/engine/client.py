"""A typed client of `unisd`, over gRPC on a Unix socket."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from unis.errors import UnisError
from unis.v1 import engine_pb2 as pb

_LOOK_SECONDS = 0.1  # how often a call looks whether there is use in waiting
_CALL_SECONDS = 10.0  # beyond the time that the call itself is told to take
_SERVICE = pb.DESCRIPTOR.services_by_name["Engine"].full_name

Reply = TypeVar("Reply", bound=Message)


class EngineError(UnisError):
    """The engine refused a call or cannot be reached; the text is a sentence."""

    def __init__(self, sentence: str, *, bad_input: bool = False, gone: bool = False) -> None:
        super().__init__(sentence, bad_input=bad_input)
        self.gone = gone  # nothing answers on the socket


_BAD_INPUT = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ALREADY_EXISTS,
}


class EngineClient:
    """Calls `unisd`; every method raises EngineError. Times are in seconds."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel = grpc.insecure_channel(
            f"unix:{socket}",
            options=[
                ("grpc.max_receive_message_length", 256 << 20),  # a trace is long
                ("grpc.enable_http_proxy", 0),
                ("grpc.max_reconnect_backoff_ms", 200),
                ("grpc.initial_reconnect_backoff_ms", 50),
                ("grpc.default_authority", "unisd"),
            ],
        )

    def __enter__(self) -> "EngineClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def wait_ready(self, seconds: float, alive: Callable[[], None]) -> None:
        """Waits till the engine answers; `alive` raises if there is no use waiting."""
        end = time.monotonic() + seconds
        while True:
            alive()
            try:
                grpc.channel_ready_future(self._channel).result(timeout=0.2)
            except grpc.FutureTimeoutError:
                if time.monotonic() > end:
                    raise EngineError(
                        f"unisd did not answer on {self._socket} within {seconds:.0f} s", gone=True
                    ) from None
            else:
                return

    def deploy(self, request: pb.DeployRequest) -> pb.DeployReply:
        """Makes rings, classifier and traffic, which do not run yet."""
        return self._call("Deploy", request, pb.DeployReply, seconds=30)

    def attach(
        self, nf: str, pid: int, alive: Callable[[], None], seconds: float = 20
    ) -> pb.AttachReply:
        """Waits till the NF's port is started and its polling thread is found.

        `alive` is called now and then, and raises if the NF is dead.
        """
        request = pb.AttachRequest(nf=nf, pid=pid)
        return self._call("Attach", request, pb.AttachReply, seconds, alive)

    def estimate(
        self, nfs: Sequence[str], sizes: Sequence[int], rounds: int
    ) -> Sequence[pb.NfEstimate]:
        """Measures what a packet costs NFs, which take turns (Cycle Estimator)."""
        request = pb.EstimateRequest(nfs=nfs, sizes=sizes, rounds=rounds)
        return self._call("Estimate", request, pb.EstimateReply, seconds=60 * len(nfs)).nfs

    def switch_cost(self, cpu: int, rounds: int) -> pb.SwitchCostReply:
        """Measures what passing a CPU costs."""
        request = pb.SwitchCostRequest(cpu=cpu, rounds=rounds)
        return self._call("MeasureSwitchCost", request, pb.SwitchCostReply, seconds=30)

    def start(self, policy: pb.Policy) -> None:
        """Lets traffic and scheduler run."""
        self._call("Start", pb.StartRequest(policy=policy), pb.Empty, seconds=15)

    def set_policy(self, policy: pb.Policy) -> None:
        """Changes the policy of the running chains."""
        self._call("SetPolicy", pb.SetPolicyRequest(policy=policy), pb.Empty)

    def stats(self, *, reset_latency: bool = False) -> pb.Stats:
        """A snapshot of every counter."""
        return self._call("GetStats", pb.StatsRequest(reset_latency=reset_latency), pb.Stats)

    def measure(self, policy: pb.Policy, settle: float, window: float) -> pb.MeasureReply:
        """Changes to `policy`, lets it settle, and measures over a window."""
        request = pb.MeasureRequest(
            policy=policy, settle_ns=round(settle * 1e9), window_ns=round(window * 1e9)
        )
        return self._call("Measure", request, pb.MeasureReply, _CALL_SECONDS + settle + window)

    def settle(self, seconds: float = 5) -> pb.Account:
        """Pauses the source, drains the chains, takes the exact account and resumes."""
        request = pb.SettleRequest(timeout_ns=round(seconds * 1e9))
        return self._call("Settle", request, pb.Account, _CALL_SECONDS + seconds)

    def trace(self, seconds: float) -> pb.TraceReply:
        """Who ran when, for so long from now on."""
        request = pb.TraceRequest(duration_ns=round(seconds * 1e9))
        return self._call("Trace", request, pb.TraceReply, _CALL_SECONDS + seconds)

    def stop(self, seconds: float = 3) -> pb.Account:
        """Stops and drains the chains, gives NFs their scheduling back; the engine then exits."""
        request = pb.SettleRequest(timeout_ns=round(seconds * 1e9))
        return self._call("Stop", request, pb.Account, seconds + 5)

    def _call(
        self,
        method: str,
        request: Message,
        reply: type[Reply],
        seconds: float = _CALL_SECONDS,
        alive: Callable[[], None] = lambda: None,
    ) -> Reply:
        call: grpc.UnaryUnaryMultiCallable[Message, Reply] = self._channel.unary_unary(
            f"/{_SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        future = call.future(request, timeout=seconds)
        try:
            while True:
                try:
                    return future.result(timeout=_LOOK_SECONDS)
                except grpc.FutureTimeoutError:
                    alive()
                except grpc.RpcError:
                    raise self._explain(method, future, seconds) from None
        finally:
            future.cancel()

    def _explain(self, method: str, call: grpc.Call, seconds: float) -> EngineError:
        code, details = call.code(), (call.details() or "").strip()
        if code == grpc.StatusCode.UNAVAILABLE:
            return EngineError(f"unisd does not answer on {self._socket}", gone=True)
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return EngineError(f"unisd did not answer {method} within {seconds:.0f} s", gone=True)
        sentence = details or f"{method} failed in unisd ({code.name})"
        return EngineError(sentence, bad_input=code in _BAD_INPUT)
