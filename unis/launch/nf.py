"""How a network function is started: an ordinary DPDK program with our port loaded by EAL's -d."""

import os
import subprocess
from pathlib import Path

from unis.chain.load import LoadedChain
from unis.chain.machine import find_program
from unis.chain.model import Function
from unis.launch.errors import LaunchError
from unis.launch.state import RUN_MARK
from unis.v1 import engine_pb2 as pb


def program_of(function: Function, chain: LoadedChain) -> Path:
    """The function's program; LaunchError if it has gone since the file was checked."""
    program = find_program(function.program, chain.directory)
    if program is None:
        raise LaunchError(f"{chain.path}: there is no program `{function.program}`")
    return program


def command(
    program: Path, function: Function, port: pb.NfPort, driver: Path, prefix: str
) -> list[str]:
    """The command line: EAL's arguments, then the function's own."""
    yielding = ["--yield-every", str(function.yield_every)] if function.yield_every else []
    return [
        str(program),
        *("-d", str(driver)),
        # A distinct lcore for each process, or they would share the caches of the mempool.
        *("--lcores", f"{port.lcore}@{function.cpu}"),
        "--proc-type=secondary",
        f"--file-prefix={prefix}",
        "--no-pci",
        # The default pool is not preemptible: real-time functions would wait for ever.
        "--mbuf-pool-ops-name=lf_stack",
        "--iova-mode=va",  # as unisd: packets never leave for a device of the function's
        "--no-telemetry",
        f"--vdev={port.vdev}",
        "--",
        *function.args,
        *yielding,
    ]


def start(
    argv: list[str], log: Path, run_id: str, directory: Path | None
) -> subprocess.Popen[bytes]:
    """Starts a process of a run: own session, so that the terminal's Ctrl-C does not reach it."""
    with log.open("ab") as stream:
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={**os.environ, RUN_MARK: run_id},
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchError(f"cannot start {argv[0]}: {error.strerror}") from None
