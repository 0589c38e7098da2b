"""Numbers on the command line are within bounds, before anything is done."""

import pytest
from typer.testing import CliRunner

from evaluation.app import app as evaluation
from unis import built
from unis.cli import simulate_command
from unis.cli.app import app

EXAMPLE = str(built.clone() / "examples" / "two-cores.yaml")
OPTIONS = [
    ["simulate", EXAMPLE, "--seconds"],
    ["simulate", EXAMPLE, "--switch-us"],
    ["simulate", EXAMPLE, "--yield-us"],
    ["simulate", EXAMPLE, "--source-ns"],
    ["top", "--interval"],
    ["trace", "-o", "x.json", "--seconds"],
    ["up", EXAMPLE, "--timeout"],
    ["demo", "--window"],
    ["agreement", "--window"],
]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e10"])
@pytest.mark.parametrize("words", OPTIONS, ids=" ".join)
def test_what_is_no_sensible_number_is_refused(words: list[str], value: str) -> None:
    result = CliRunner().invoke(evaluation if words[0] == "agreement" else app, [*words, value])
    assert result.exit_code == 2
    assert f"'{words[-1]}'" in result.output


@pytest.mark.parametrize("cost", ["nan", "inf", "0", "-1", "1e10", "x"])
def test_a_cost_is_a_number_too(cost: str) -> None:
    result = CliRunner().invoke(app, ["simulate", EXAMPLE, "--cost", f"a={cost}"])
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)


def test_a_seed_is_what_the_contract_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate_command, "keep_off_functions", lambda: pytest.fail("it began"))
    for seed in (-1, 2**64):
        result = CliRunner().invoke(app, ["simulate", EXAMPLE, "--seed", str(seed)])
        assert result.exit_code == 2
