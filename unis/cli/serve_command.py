"""`unis serve`: metrics of all runs, and the API to look at them and change them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unis.cli.terminal import fail, say
from unis.errors import UnisError
from unis.runtime.directory import all_runs, base_directory
from unis.runtime.errors import InterruptedRunError
from unis.runtime.interrupts import interrupts

if TYPE_CHECKING:
    import ssl


def _loopback(text: str | None) -> str | None:
    from unis.serve.listening import loopback

    if text is not None:
        try:
            loopback(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return text


def _any_address(text: str | None) -> str | None:
    from unis.serve.listening import address_of

    if text is not None:
        try:
            address_of(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return text


def serve(
    socket: Annotated[
        Path | None, typer.Option(help="Unix socket. Default: /run/unis/serve.sock.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Group that may read over the socket. Root always may.")
    ] = None,
    operators: Annotated[
        str | None,
        typer.Option(
            help="Group that may also change runs. Its members can run any program as root, "
            "because a chain file names programs."
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse all changes, also from root.")
    ] = False,
    metrics_listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS:PORT", callback=_loopback,
            help="Also serve `/metrics` and `/healthz` over TCP, on a loopback address, to all "
            "users of this machine. Example: 127.0.0.1:9464.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS:PORT", callback=_any_address,
            help="Also serve everything over TLS, to clients with a token of --tokens.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate for --listen, PEM, with its chain.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key of --tls-cert, PEM.")] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(help="File of the tokens for --listen: lines `NAME look|operate SHA256`."),
    ] = None,
    new_token: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:ROLE",
            help="Print a new token, add its hash to --tokens, and end. ROLE: look or operate.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Serve metrics, a page and a REST API of all runs, until Ctrl-C or SIGTERM.

    `/` is a page that shows the runs, `/metrics` has all counters as OpenMetrics or as Prometheus'
    text, `/v1` is the API (docs/api.md, `/openapi.json`), `/healthz` says whether the server can
    look at the runs. Over the socket root and --operators may change runs, --group may look. The
    address of `--metrics-listen` is also in a file beside the socket, `serve.json`, in the form of
    Prometheus' `file_sd_configs`.

    Example: unis serve --metrics-listen 127.0.0.1:9464
    """
    if new_token is not None:
        _print_token(new_token, tokens)
        return
    stated = {"--tls-cert": tls_cert, "--tls-key": tls_key, "--tokens": tokens}
    missing = [option for option, value in stated.items() if value is None]
    if listen and missing:
        raise fail(f"--listen needs {', '.join(missing)}: clients over TLS must send a token")
    if not listen and len(missing) < len(stated):
        raise fail(f"{', '.join(key for key in stated if key not in missing)}: needs --listen")
    from unis.serve.access import Access, read_tokens
    from unis.serve.listening import (
        address_of,
        group_number,
        loopback,
        name_of,
        tcp_socket,
        tls_socket,
        unix_socket,
    )

    with interrupts():
        try:
            all_runs()  # whether we may look
            path = socket or base_directory() / "serve.sock"
            access = Access(
                operators=group_number(operators), lookers=group_number(group),
                tokens=read_tokens(tokens) if tokens else (), read_only=read_only,
            )  # fmt: skip
            context = _tls(tls_cert, tls_key) if tls_cert and tls_key else None
            with ExitStack() as stack:
                plain = [stack.enter_context(unix_socket(path, group or operators))]
                where = f"unix:{path}"
                if metrics_listen:
                    address = loopback(metrics_listen)
                    told = path.with_suffix(".json")
                    plain.append(stack.enter_context(tcp_socket(address, told)))
                    where += f" and http://{name_of(plain[1])}/metrics"
                secure = None
                if listen:
                    secure = stack.enter_context(tls_socket(address_of(listen)))
                    where += f" and https://{name_of(secure)}"
                from unis.serve.server import Listening
                from unis.serve.server import serve as serve_on

                listening = Listening(plain, secure, context)
                serve_on(listening, access, lambda: say(f"serving on {where}"))
        except InterruptedRunError:
            pass  # how one ends it


def _tls(cert: Path, key: Path) -> ssl.SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        why = error.strerror or str(error)
        raise UnisError(f"cannot use {cert} with {key}: {why}: name a PEM certificate and its key"
                        ) from None  # fmt: skip
    return context


def _no_password() -> str:
    raise UnisError(
        "the private key is encrypted; use one without a password that only root can read"
    )


def _print_token(stated: str, file: Path | None) -> None:
    from unis.serve.access import Role, add_token

    name, colon, role = stated.partition(":")
    if not colon or role not in [*Role]:
        raise typer.BadParameter("write NAME:look or NAME:operate", param_hint="--new-token")
    if file is None:
        raise typer.BadParameter("name the file of tokens: --tokens FILE", param_hint="--new-token")
    typer.echo(add_token(file, name, Role(role)))
    say(f"{file} has its hash; the token is not stored, and is not shown again")
