"""`unis serve`: metrics of all runs, over HTTP."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from unis.cli.terminal import say
from unis.runtime.directory import all_runs, base_directory
from unis.runtime.errors import InterruptedRunError
from unis.runtime.interrupts import interrupts


def _loopback(text: str | None) -> str | None:
    from unis.serve.listening import loopback

    if text is not None:
        try:
            loopback(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return text


def serve(
    socket: Annotated[
        Path | None, typer.Option(help="Unix socket. Default: /run/unis/serve.sock.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Group that may connect to the socket, beside root.")
    ] = None,
    metrics_listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS:PORT", callback=_loopback,
            help="Serve over TCP too, to all users of this machine: 127.0.0.1:9464.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Serve the metrics of all runs to Prometheus, until Ctrl-C or SIGTERM.

    `/metrics` has all counters as OpenMetrics or as Prometheus' text, `/healthz` says whether the
    server can look at the runs. Nothing can be changed by it. The address of `--metrics-listen` is
    also in a file beside the socket, `serve.json`, in the form of Prometheus' `file_sd_configs`.

    Example: unis serve --metrics-listen 127.0.0.1:9464
    """
    from unis.serve.listening import loopback, name_of, tcp_socket, unix_socket

    with interrupts():
        try:
            all_runs()  # whether we may look
            path = socket or base_directory() / "serve.sock"
            with ExitStack() as stack:
                listening = [stack.enter_context(unix_socket(path, group))]
                where = f"unix:{path}"
                if metrics_listen:
                    address = loopback(metrics_listen)
                    told = path.with_suffix(".json")
                    listening.append(stack.enter_context(tcp_socket(address, told)))
                    where += f" and http://{name_of(listening[1])}/metrics"
                from unis.serve.server import serve as serve_on

                serve_on(listening, lambda: say(f"serving on {where}"))
        except InterruptedRunError:
            pass  # how one ends it
