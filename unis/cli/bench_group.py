"""`unis bench`: its commands."""

from collections.abc import Callable

import typer

from unis.cli.bench_commands import unmodified
from unis.cli.latency_command import latency
from unis.cli.terminal import moved
from unis.cli.throughput_command import throughput

bench = typer.Typer(no_args_is_help=True, help="Compare policies on this machine.")
COMMANDS = (throughput, latency, unmodified)
for command in COMMANDS:
    bench.command()(command)

# Commands that were here once, and are run from a clone now.
MOVED = ("paper", "goals", "fairness", "agreement", "faults", "resq", "promises")


def _told(name: str) -> Callable[[], None]:
    def said() -> None:
        raise moved(f"unis bench {name}", name)

    return said


for each in MOVED:
    bench.command(
        each,
        hidden=True,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(_told(each))
