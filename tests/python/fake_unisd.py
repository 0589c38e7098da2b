"""An engine that carries no packets: the calls of the contract, and no DPDK. Run as `unisd`.

FAKE_HANG names a call that is never answered, FAKE_SLOW one that takes a second, FAKE_DIE one on
which it dies, FAKE_REFUSE functions that it does not take in Apply. A file FAKE_REFUSE_ONCE holds
the name of a gRPC code: the next Deploy is refused with it, and the file is removed. With
FAKE_SLOW_SECOND it never attaches a function twice, with FAKE_STUBBORN it ignores SIGTERM. Each
call is noted in the file FAKE_CALLS, and a Stop that hung till its deadline. A program called
`daemon` does not poll itself.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from unis.v1 import costs_pb2, engine_pb2_grpc
from unis.v1 import engine_pb2 as pb

# What a function's process is at first, and one that only starts another.
NOT_POLLING = ("sh", "setpriv", "env", "daemon")


class Fake(engine_pb2_grpc.EngineServicer):
    def __init__(self, end: threading.Event) -> None:
        self.end = end
        self.stats = pb.Stats()
        self.attached: list[str] = []

    def note(self, word: str) -> None:
        if calls := os.environ.get("FAKE_CALLS"):
            with Path(calls).open("a") as stream:
                stream.write(f"{word}\n")

    def called(self, name: str) -> None:
        self.note(name)
        if os.environ.get("FAKE_DIE") == name:
            os._exit(1)
        if os.environ.get("FAKE_HANG") == name:
            time.sleep(1000)
        if os.environ.get("FAKE_SLOW") == name:
            time.sleep(1)

    def Deploy(self, request: Any, context: Any) -> pb.Empty:  # noqa: N802
        self.called("Deploy")
        once = Path(os.environ.get("FAKE_REFUSE_ONCE", "/none"))
        if once.exists():
            code = grpc.StatusCode[once.read_text()]
            once.unlink()
            context.set_trailing_metadata((("unisd", "refused"),))
            context.abort(code, "not now")
        self.stats.run = request.run
        self.stats.chains.extend(pb.ChainStats(name=chain.name) for chain in request.chains)
        self.stats.functions.extend(
            pb.FunctionStats(name=function.name, cpu=function.cpu, cost_ns=function.cost_ns)
            for function in request.functions
        )
        return pb.Empty()

    def Attach(self, request: Any, context: Any) -> pb.AttachReply:  # noqa: N802
        self.called("Attach")
        self.attached.append(request.function)
        again = os.environ.get("FAKE_SLOW_SECOND") and self.attached.count(request.function) > 1
        if request.function == "slow" or again:
            time.sleep(1000)
        comm = Path(f"/proc/{request.pid}/comm")
        while comm.exists() and comm.read_text().strip() in NOT_POLLING:
            time.sleep(0.01)
        if not comm.exists():
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "it ended before it polled")
        if request.function == "mute":
            context.set_trailing_metadata((("unisd", "refused"),))
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "mute does not poll")
        return pb.AttachReply(tid=request.pid)

    def Detach(self, request: Any, _context: Any) -> pb.Empty:  # noqa: N802
        self.called("Detach")
        self.note(f"Detach-{request.function}")
        return pb.Empty()

    def Apply(self, request: Any, context: Any) -> pb.Empty:  # noqa: N802
        self.called("Apply")
        for refused in os.environ.get("FAKE_REFUSE", "").split():
            if refused in {function.name for function in request.functions}:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"no room for {refused}")
        del self.stats.chains[:]
        del self.stats.functions[:]
        return self.Deploy(request, context)

    def Estimate(self, request: Any, _context: Any) -> costs_pb2.EstimateReply:  # noqa: N802
        self.called("Estimate")
        functions = [costs_pb2.FunctionEstimate(function=name, ns=42) for name in request.functions]
        return costs_pb2.EstimateReply(functions=functions)

    def Start(self, request: Any, _context: Any) -> pb.Empty:  # noqa: N802
        self.called("Start")
        self.stats.policy, self.stats.controller = request.policy, request.controller
        return pb.Empty()

    def SetPolicy(self, request: Any, _context: Any) -> pb.Empty:  # noqa: N802
        return self.Start(request, _context)

    def GetStats(self, request: Any, _context: Any) -> pb.Stats:  # noqa: N802
        self.called("GetStats")
        for chain in self.stats.chains:
            chain.delivered += 0 if os.environ.get("FAKE_DRY") else 1
            chain.ClearField("latency")
            if request.latency:
                chain.latency.value_ns.append(1000)
                chain.latency.count.append(3)
        return self.stats

    def Watch(self, _request: Any, _context: Any) -> Iterator[pb.Stats]:  # noqa: N802
        while not self.end.wait(0.01):
            yield self.stats

    def Settle(self, _request: Any, _context: Any) -> pb.Account:  # noqa: N802
        self.called("Settle")
        return pb.Account(offered=7, delivered=7, exact=True)

    def Stop(self, _request: Any, context: Any) -> pb.Account:  # noqa: N802
        if os.environ.get("FAKE_HANG") == "Stop":
            self.note("Stop")
            time.sleep(context.time_remaining())
            self.note("StopWaitedFor")
            time.sleep(1000)
        self.called("Stop")
        self.end.set()
        return pb.Account(offered=7, delivered=7, exact=True)


def main() -> None:
    end = threading.Event()
    stubborn = bool(os.environ.get("FAKE_STUBBORN"))
    signal.signal(signal.SIGTERM, (lambda *_: None) if stubborn else (lambda *_: end.set()))
    server = grpc.server(ThreadPoolExecutor(4))
    engine_pb2_grpc.add_EngineServicer_to_server(Fake(end), server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix:{sys.argv[sys.argv.index('--socket') + 1]}")
    server.start()
    end.wait()
    server.stop(0.2).wait(1)
    os._exit(0)


main()
