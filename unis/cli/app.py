"""The commands of `unis`, in the order in which one needs them. Only the one called is imported."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from unis.errors import UnisError
from unis.runtime.errors import InterruptedRunError

_RUN, _LOOK = "Run a chain", "Look at it"
_MEASURE, _PROMISE = "Measure and predict", "Promise throughput and latency"
_ABOUT = "This machine"

# Name: module below unis.cli, what it is called there, panel of the help.
_COMMANDS = {
    "up": ("run_commands", "up", _RUN),
    "down": ("run_commands", "down", _RUN),
    "restart": ("run_commands", "restart", _RUN),
    "apply": ("apply_command", "apply", _RUN),
    "attach": ("attach_commands", "attach", _RUN),
    "detach": ("attach_commands", "detach", _RUN),
    "policy": ("run_commands", "policy", _RUN),
    "image": ("image_command", "image", _RUN),
    "config": ("config_command", "config", _RUN),
    "etsi": ("etsi_commands", "etsi", _RUN),
    "ps": ("look_commands", "ps", _LOOK),
    "top": ("look_commands", "top", _LOOK),
    "logs": ("logs_command", "logs", _LOOK),
    "inspect": ("look_commands", "inspect", _LOOK),
    "account": ("look_commands", "account", _LOOK),
    "serve": ("serve_command", "serve", _LOOK),
    "demo": ("demo_command", "demo", _MEASURE),
    "trace": ("measure_commands", "trace", _MEASURE),
    "estimate": ("measure_commands", "estimate", _MEASURE),
    "calibrate": ("calibrate_command", "calibrate", _MEASURE),
    "simulate": ("simulate_command", "simulate", _MEASURE),
    "model": ("model_command", "model", _MEASURE),
    "bench": ("bench_commands", "bench", _MEASURE),
    "profile": ("profile_command", "profile", _PROMISE),
    "plan": ("plan_command", "plan", _PROMISE),
    "admit": ("cluster_commands", "admit", _PROMISE),
    "cluster": ("cluster_commands", "cluster", _PROMISE),
    "agent": ("agent_command", "agent", _PROMISE),
    "cache": ("cache_command", "cache", _ABOUT),
    "doctor": ("about_commands", "doctor", _ABOUT),
    "schema": ("about_commands", "schema", _ABOUT),
    "version": ("about_commands", "version", _ABOUT),
}


class _CommandsByName(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        module, called, panel = _COMMANDS[name]
        found = getattr(importlib.import_module(f"unis.cli.{module}"), called)
        single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        if isinstance(found, typer.Typer):
            single.add_typer(found, name=name, rich_help_panel=panel)
            return typer.main.get_group(single).commands[name]
        single.command(name, rich_help_panel=panel)(found)
        return typer.main.get_command(single)

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class Commands(TyperGroup):
    """Commands that end with a sentence and an exit code, whatever goes wrong with a run."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that the user named."""
        try:
            return super().invoke(ctx)
        except (UnisError, InterruptedRunError, KeyboardInterrupt) as error:
            from unis.cli import terminal

            raise terminal.told(error) from None


class _LazyCommands(Commands):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        lazy: Any = _CommandsByName()
        self.commands = lazy


app = typer.Typer(
    name="unis",
    cls=_LazyCommands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        import unis

        typer.echo(unis.version())
        raise typer.Exit


QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only results and errors.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print time stamps, and tracebacks of errors.")
]


@app.callback()
def unis_command(
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run chains of poll-mode network functions on shared CPU cores, unmodified.

    Exit codes: 0, done; 1, failed; 2, an argument, a file or this machine is not suitable: correct
    that first; 128 plus the number of a signal, interrupted (130: Ctrl-C).
    """
    set_voice(quiet=quiet, verbose=verbose)


def set_voice(*, quiet: bool, verbose: bool) -> None:
    """How much all commands say."""
    if quiet or verbose:
        from unis.cli import terminal

        terminal.voice.quiet = quiet
        terminal.voice.verbose = verbose


def run() -> None:
    """Entry point."""
    app()
