"""Calls over gRPC on a Unix socket, which no signal handler cuts in two.

A handler that raised in the middle of gRPC's code would leave a lock held, or keep the thread that
reads answers from its start: no later call on the channel would return. So gRPC's code runs with
signals `blocked`, and its threads begin so; handlers run between two looks at the answer.

But gRPC waits for the next message of a stream without a limit, so handlers run there too. After
an exception from `answers` make no more calls on the channel; it can be closed.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from unis.signals import blocked

_LOOK_SECONDS = 0.1  # how often a call looks whether there is use in waiting


def open_channel(socket: Path, authority: str, **options: int) -> grpc.Channel:
    """A channel to who listens on `socket`, now or later.

    A channel has its own connection. gRPC would share that of an earlier channel to this path, with
    the time that it waits after a failure: the next engine would seem to be away.

    `options`: gRPC's, by their names without `grpc.`.
    """
    all_options = {
        "enable_http_proxy": 0,
        "use_local_subchannel_pool": 1,
        "default_authority": authority,
        **options,
    }
    with blocked():
        return grpc.insecure_channel(
            f"unix:{socket}", options=[(f"grpc.{key}", all_options[key]) for key in all_options]
        )


def answer(
    method: Any,
    request: Message,
    seconds: float | None = None,
    alive: Callable[[], None] | None = None,
) -> Any:
    """What the call of a stub's method is answered. `alive` is called now and then, and may raise.

    `seconds`: till the call fails; None: no limit.

    grpc.RpcError, which is a grpc.Call too: no answer, or a refusal.
    """
    if not alive and threading.current_thread() is not threading.main_thread():
        # Handlers of signals run in the main thread only, so this thread may wait for the answer
        # itself. A thread of gRPC for it would take a fifth more of the CPU.
        return method(request, timeout=seconds)
    call: Any = None
    try:
        while True:
            with blocked():
                call = call or method.future(request, timeout=seconds)
                with suppress(grpc.FutureTimeoutError):
                    return call.result(timeout=_LOOK_SECONDS)
            if alive:
                alive()
    finally:
        if call:
            with blocked():
                call.cancel()


def answers(send: Callable[[], Any]) -> Iterator[Any]:
    """What the call that `send` begins is answered, one after the other. grpc.RpcError as above."""
    with blocked():
        call = send()
    try:
        yield from call
    finally:
        with blocked():
            call.cancel()
