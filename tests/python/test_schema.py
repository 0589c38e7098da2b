"""docs/chain-file.schema.json is what the model says, and the examples obey it."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from ruamel.yaml import YAML

from tests.python.fake_nic import FakeNic
from tests.python.planned import path_of
from tests.python.strategies import Data, chain_files, scaled
from unis import built
from unis.chain.load import load
from unis.chain.problem import ChainFileError
from unis.cli.about_commands import schema_text
from unis.plan import programs
from unis.plan.machine import Machine
from unis.plan.model import Places, Plan
from unis.plan.planner import make_plan

FILE = built.clone() / "docs" / "chain-file.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema_text()))
EXAMPLES = sorted((built.clone() / "examples").glob("*.yaml"))


def test_the_schema_is_up_to_date() -> None:
    assert FILE.read_text() == schema_text(), "run `make docs`"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_examples_are_valid(file: Path) -> None:
    data = json.loads(json.dumps(YAML(typ="safe").load(file)))
    assert not list(VALIDATOR.iter_errors(data))
    assert load(file).file.name == file.stem


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_examples_run_on_two_cpus_but_one(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "find_program", lambda name, _: Path("/bin") / Path(name).name)
    monkeypatch.setattr(programs, "program_problem", lambda *_: None)
    places = Places(
        directory=Path("/run/x"), engine_socket=Path("/run/x/engine.sock"),
        port_driver=Path("/run/x/driver.so"), mmsg_driver=Path("/run/x/mmsg.so"),
        port_plugin=Path("/run/x/plugin.so"),
        folders=Path("/f"),
    )  # fmt: skip

    nic = FakeNic(tmp_path)

    def plan() -> Plan:
        return make_plan(load(file), Machine(frozenset({0, 1}), nic.root), (), lambda _: places)

    if file.stem != "two-cores":
        assert (plan().platform_cpus, plan().cpus) == ((0,), (1,))
        return
    with pytest.raises(ChainFileError) as caught:
        plan()
    told = str(caught.value).splitlines()
    assert len(told) == 1
    assert "CPU 2 does not exist here" in told[0]
    assert "unis simulate" in told[0]


@settings(max_examples=scaled(30))
@given(chain_files())
def test_what_the_model_takes_the_schema_takes(data: Data) -> None:
    plain = json.loads(json.dumps(data))
    assert not list(VALIDATOR.iter_errors(plain))


def test_keys_with_x_are_allowed_by_the_schema_and_others_are_not() -> None:
    data = YAML(typ="safe").load(EXAMPLES[0])
    chain = next(iter(data["chains"].values()))
    assert not list(VALIDATOR.iter_errors(data | {"x-mine": [1]}))
    chain["x-mine"] = 1
    assert not list(VALIDATOR.iter_errors(data))
    chain["mine"] = 1
    assert list(VALIDATOR.iter_errors(data))


def test_the_file_of_the_docs_is_valid(tmp_path: Path) -> None:
    text = (built.clone() / "docs" / "chain-file.md").read_text()
    (tmp_path / "docs.yaml").write_text(text.split("```yaml\n")[1].split("```")[0])
    data = json.loads(json.dumps(YAML(typ="safe").load(tmp_path / "docs.yaml")))
    assert not list(VALIDATOR.iter_errors(data))
    assert path_of(load(tmp_path / "docs.yaml").file, "back") == ["pmd", "count", "nat", "fw"]
