"""The commands of `unis`, in the order in which one needs them."""

import typer

from unis.cli import about_commands, bench_commands, measure_commands, run_commands

_EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    name="unis",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run chains of poll-mode network functions on shared CPU cores, unmodified.",
)

_RUN, _MEASURE, _ABOUT = "Run a chain", "Measure and predict", "This machine"

app.command(rich_help_panel=_RUN)(run_commands.up)
app.command(rich_help_panel=_RUN)(run_commands.ps)
app.command(rich_help_panel=_RUN)(run_commands.top)
app.command(rich_help_panel=_RUN)(run_commands.policy)
app.command(rich_help_panel=_RUN)(run_commands.down)
app.command(rich_help_panel=_MEASURE)(bench_commands.demo)
app.command(rich_help_panel=_MEASURE)(measure_commands.trace)
app.command(rich_help_panel=_MEASURE, context_settings=_EXTRA)(measure_commands.estimate)
app.command("simulate", rich_help_panel=_MEASURE)(measure_commands.simulate_command)
app.add_typer(bench_commands.bench, name="bench", rich_help_panel=_MEASURE)
app.command(rich_help_panel=_ABOUT)(about_commands.doctor)
app.command(rich_help_panel=_ABOUT)(about_commands.schema)
app.command(rich_help_panel=_ABOUT)(about_commands.version)


def run() -> None:
    """Entry point."""
    app()
