"""`python -m evaluation`: its commands."""

import typer

from evaluation.commands.agreement import agreement
from evaluation.commands.caches import PROFILE, cache_model, ways
from evaluation.commands.emulated import agent, cache
from evaluation.commands.fairness import fairness
from evaluation.commands.faults import faults
from evaluation.commands.goals import goals
from evaluation.commands.model import model
from evaluation.commands.paper import paper
from evaluation.commands.promises import promises
from evaluation.commands.resq import resq
from evaluation.commands.scc import scc
from evaluation.commands.scrapes import scrapes
from evaluation.commands.soak import soak
from evaluation.commands.vhost import vhost
from unis.cli.app import Commands, QuietOption, VerboseOption, set_voice
from unis.cli.profile_command import nf

COMMANDS = (
    paper,
    scc,
    model,
    vhost,
    resq,
    fairness,
    goals,
    agreement,
    faults,
    promises,
    scrapes,
    soak,
    agent,
    cache,
    ways,
)

app = typer.Typer(
    name="evaluation",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in COMMANDS:
    app.command()(command)
# The command of the product; a model of the cache is its context's object.
app.command("profile", help=PROFILE, context_settings={"obj": cache_model})(nf)


@app.callback()
def evaluation_command(quiet: QuietOption = False, verbose: VerboseOption = False) -> None:
    """Compare UNiS with its papers, and with itself. In a clone, after `make build`.

    Exit codes are those of `unis`.
    """
    set_voice(quiet=quiet, verbose=verbose)


def run() -> None:
    """Entry point."""
    app(prog_name="python -m evaluation")
