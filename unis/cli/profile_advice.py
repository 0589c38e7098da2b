"""What `unis profile chain` says beside the parts: advice, and what came of following it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unis.cli.terminal import fail, print_line, say, writable, write_result

if TYPE_CHECKING:
    from unis.chain.load import LoadedChain
    from unis.measure.paired import Ratio
    from unis.parts.advised import Advice, Trial
    from unis.parts.result import ChainParts

_ADVISED = "advised.yaml"
_ROUNDS = 6  # of a trial, at each load: fewer have no interval of 95 %


def followed(found: ChainParts, chain: LoadedChain, window: float) -> ChainParts:
    """The profile with what came of trying its advice, without that which cannot be tried."""
    from unis.advice.trial import TrialSettings, in_turn
    from unis.plan.machine import Machine

    settings = TrialSettings(_ROUNDS, window)
    tried, refused = in_turn(found.advice, chain, Machine.this(), settings, say)
    advice = [each for each in found.advice if each.what not in refused]
    why = [f"{what} It cannot be tried: {error}" for what, error in refused.items()]
    return found.model_copy(
        update={"tried": tried, "advice": advice, "considered": [*found.considered, *why]}
    )


def print_advice(found: ChainParts, chain: LoadedChain | None) -> None:
    """By gain, with the lines to change; then what was tried. `chain`: None where no file is."""
    if found.use is None:
        return
    if not found.advice:
        print_line("")
        print_line(found.use.without_advice, "bold")
        if found.considered:
            print_line("What was considered, and why it is not advised:")
        for each in found.considered:
            print_line(f"  {each}")
        return
    print_line("")
    print_line("Advice, the largest gain first:", "bold")
    for at, advice in enumerate(found.advice, 1):
        print_line(f"{at}. {advice.what} Gain: {advice.gain}.")
        for fact in advice.rests_on:
            print_line(f"   rests on: {fact}")
    for trial in found.tried:
        _print_trial(trial)
    best = advised(found)
    if best is None:
        print_line("Nothing that was tried helped.", "bold")
    elif chain is not None:
        from unis.advice.change import lines_of

        print_line(f"The lines to change in {chain.path}:", "bold")
        print_line(lines_of(chain.file, best.change).rstrip())


def advised(found: ChainParts) -> Advice | None:
    """What was worth it, or else the first if nothing was tried."""
    if not found.tried:
        return found.advice[0] if found.advice else None
    worth = {trial.what for trial in found.tried if trial.worth}
    return next((each for each in found.advice if each.what in worth), None)


def advised_file(folder: Path, chain_file: Path) -> Path:
    """DIR/advised.yaml, which can be written, and is not what is profiled; else exits."""
    file = folder / _ADVISED
    if file.resolve() == chain_file.resolve():
        raise fail(f"{file} would be written over: give another directory, or rename the file")
    return writable(file)


def write_advised(found: ChainParts, chain: LoadedChain, folder: Path) -> None:
    """DIR/advised.yaml, if there is something to change; else none of an earlier profile stays."""
    from unis.advice.change import advised_text

    file = folder / _ADVISED
    if best := advised(found):
        write_result(file, advised_text(chain.path, best))
        say(str(file))
    else:
        file.unlink(missing_ok=True)


def _print_trial(trial: Trial) -> None:
    print_line(f"Tried: {trial.what}", "bold")
    overload, half = trial.overload_kpps, trial.half_load_us
    print_line(
        f"  at overload {overload.before:,.1f} → {overload.after:,.1f} kpps, "
        f"times {_ratio(overload.gain)}"
    )
    print_line(
        f"  at half load {half.before:,.1f} → {half.after:,.1f} µs (median), "
        f"before ÷ after {_ratio(half.gain)}"
    )
    how = (
        "windows of one run in turn"
        if trial.how == "windows"
        else "eight bring-ups: before, after, after, before, twice"
    )
    print_line(f"  {'It was worth it' if trial.worth else 'It did not help'} ({how}).")


def _ratio(ratio: Ratio | None) -> str:
    return f"{ratio.median:.2f} ({ratio.lo:.2f} to {ratio.hi:.2f})" if ratio else "unknown"
