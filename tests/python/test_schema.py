"""docs/chain-file.schema.json is what the model says, and the examples obey it."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from ruamel.yaml import YAML
from strategies import Data, chain_files

from unis import built
from unis.chain.load import load
from unis.chain.machine import Machine
from unis.chain.problem import ChainFileError
from unis.chain.schema import schema_text

FILE = built.clone() / "docs" / "chain-file.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema_text()))
EXAMPLES = sorted((built.clone() / "examples").glob("*.yaml"))


def test_the_schema_is_up_to_date() -> None:
    assert FILE.read_text() == schema_text(), "run `unis schema > docs/chain-file.schema.json`"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_examples_are_valid(file: Path) -> None:
    data = json.loads(json.dumps(YAML(typ="safe").load(file)))
    assert not list(VALIDATOR.iter_errors(data))
    assert load(file).file.name == file.stem


def test_two_cores_says_what_it_lacks() -> None:
    with pytest.raises(ChainFileError) as caught:
        load(built.clone() / "examples" / "two-cores.yaml", Machine(frozenset({0, 1})))
    told = [row for row in str(caught.value).splitlines() if "CPU" in row]
    assert len(told) == 1
    assert "CPU 2 does not exist here" in told[0]
    assert "unis simulate" in told[0]


@settings(max_examples=30)
@given(chain_files())
def test_what_the_model_takes_the_schema_takes(data: Data) -> None:
    plain = json.loads(json.dumps(data))
    assert not list(VALIDATOR.iter_errors(plain))
