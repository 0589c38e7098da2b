"""What is advised on a chain, and that the advised file comes up."""

import shutil
from pathlib import Path

import pytest

from tests.e2e.machine import Machine, macswap
from tests.e2e.test_veth import on_veths
from unis.parts.result import ChainParts

_SHORT = ("--rounds", "2", "--window", "0.2")
_TOLD = (0, 1)  # 1: the parts do not explain the latency, as where other programs disturb it
_COST = 2000  # ns, about what a packet costs on such links


def chain_file(machine: Machine, policy: str) -> Path:
    functions = {name: macswap(cost_ns=_COST) for name in ("one", "other")}
    return machine.chain_file(
        functions,
        links=on_veths(*functions, driver="mmsg"),
        scheduler={"policy": policy, "max_delay_us": 0, "cost": "static"},
    )


def profiled(machine: Machine, file: Path, folder: Path, *more: str) -> tuple[ChainParts, str]:
    said = machine.unis(
        "profile", "chain", str(file), "-o", str(folder), *_SHORT, *more, codes=_TOLD
    )
    return ChainParts.model_validate_json((folder / "profile.json").read_text()), said


@pytest.mark.long
def test_polling_under_the_kernel_shall_hand_over_and_does(
    machine: Machine, tmp_path: Path
) -> None:
    file = chain_file(machine, "other")
    text = file.read_text()
    found, said = profiled(machine, file, tmp_path / "out", "--apply")
    first = found.advice[0]
    assert first.change == {"scheduler.policy": "unis"}
    assert first.kind == "throughput"
    assert "1. Let the functions hand the CPU over" in said
    assert found.tried[0].what == first.what
    assert found.tried[0].how == "windows"
    assert file.read_text() == text  # it is the user's
    # If the first did not help, as where other programs disturb it, the file has another change.
    advised = file.with_name("advised.yaml")
    shutil.copy(tmp_path / "out" / "advised.yaml", advised)
    machine.up(advised)
    if found.tried[0].worth:
        assert machine.ps()["policy"] == "unis"


@pytest.mark.long
def test_a_chain_that_hands_over_is_not_told_to(machine: Machine, tmp_path: Path) -> None:
    found, said = profiled(machine, chain_file(machine, "unis"), tmp_path / "out")
    assert found.use is not None
    assert [each.name for each in found.use.functions] == ["one", "other"]
    assert found.tried == []
    assert any("hand the CPU over" in each for each in found.considered)
    if not found.advice:  # as where no CPU is free
        assert "UNiS knows no change" in said
        assert not (tmp_path / "out" / "advised.yaml").exists()
    machine.assert_clean()


def test_a_run_is_not_tried_with(machine: Machine) -> None:
    assert "name the chain file" in machine.unis("profile", "chain", "x", "--apply", code=2)
