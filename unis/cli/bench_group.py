"""`unis bench`: its commands."""

import typer

from unis.cli.bench_commands import agreement, faults, unmodified
from unis.cli.fairness_command import fairness
from unis.cli.goals_command import goals
from unis.cli.latency_command import latency
from unis.cli.paper_command import paper
from unis.cli.promises_command import promises
from unis.cli.resq_command import resq
from unis.cli.throughput_command import throughput

bench = typer.Typer(no_args_is_help=True, help="Comparisons that check UNiS itself.")
COMMANDS = (
    paper, throughput, latency, goals, fairness, unmodified, agreement, faults, resq, promises,
)  # fmt: skip
for command in COMMANDS:
    bench.command()(command)
