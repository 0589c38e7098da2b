"""The chain file with advice followed: it is the user's but for the change."""

from pathlib import Path

import pytest
import typer

from tests.python.test_profile_chain import chain_parts
from unis.advice.change import advised_text, changed_chain, lines_of
from unis.chain.load import load
from unis.cli.profile_advice import advised_file, write_advised
from unis.parts.advised import Advice, Change

_TEXT = """\
# mine
apiVersion: unis/v1
name: x
x-cpu: &cpu 1
defaults: {cpu: *cpu}
functions:
  fw: {program: sh}  # the first
chains: {c: {path: [fw]}}
links:
  - {from: ingress, to: fw, kind: veth, slots: 256}
  - {from: fw, to: egress, kind: veth, slots: 256}
"""


def test_the_advised_file_is_the_users_with_one_change(tmp_path: Path) -> None:
    file = tmp_path / "chain.yaml"
    file.write_text(_TEXT)
    advice = Advice(
        what="Do so.", change={"scheduler.policy": "other", "links.1.slots": None},
        expected_gain=2, kind="throughput", rests_on=["a fact"],
    )  # fmt: skip
    text = advised_text(file, advice)
    assert "# the first" in text
    assert "Do so." in text.partition("\n")[0]
    (tmp_path / "advised.yaml").write_text(text)
    found = load(tmp_path / "advised.yaml").file
    before = load(file).file
    assert found.scheduler.policy == "other"
    assert [link.slots for link in found.links] == [256, None]
    assert found.functions == before.functions
    assert lines_of(before, advice.change) == (
        "# without links.1.slots\nscheduler: {policy: other}\nlinks:\n- {from: fw, to: egress}\n"
    )


_SHARED = """\
apiVersion: unis/v1
name: x
x-link: &veth
  kind: veth
  driver: mmsg  # ours
  batch: 8
functions:
  fw: &fw {program: sh, cpu: 1}
  nat: *fw
chains: {c: {path: [fw, nat]}}
links:
  # the first
  - {from: ingress, to: fw, <<: *veth}
  - <<: *veth
    from: fw
    to: nat
  - {from: nat, to: egress, <<: *veth}
"""


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"functions.fw.cpu": 2}, "  nat: {program: sh, cpu: 1}"),
        ({"links.0.batch": 32}, "  - {from: ingress, to: fw, <<: *veth, batch: 32}"),
        ({"links.0.driver": None, "links.0.batch": None}, "  nat: *fw"),
    ],
)
def test_what_aliases_share_is_changed_in_one_place(
    change: Change, line: str, tmp_path: Path
) -> None:
    file = tmp_path / "chain.yaml"
    file.write_text(_SHARED)
    advice = Advice(
        what="Do so.", change=change, expected_gain=2, kind="throughput", rests_on=["a fact"]
    )
    text = advised_text(file, advice)
    assert line in text.splitlines()
    assert "  - <<: *veth\n    from: fw\n    to: nat\n" in text
    assert "  # the first\n  - " in text
    (tmp_path / "advised.yaml").write_text(text)
    assert load(tmp_path / "advised.yaml").file == changed_chain(load(file), change).file


def test_no_file_of_the_user_is_written_over(tmp_path: Path) -> None:
    mine = tmp_path / "advised.yaml"
    mine.write_text(_TEXT)
    with pytest.raises(typer.Exit):
        advised_file(tmp_path, mine)
    assert advised_file(tmp_path, tmp_path / "chain.yaml") == mine
    assert mine.read_text() == _TEXT


def test_advice_of_an_earlier_profile_does_not_stay(tmp_path: Path) -> None:
    (tmp_path / "advised.yaml").write_text("# of an earlier one")
    chain = tmp_path / "chain.yaml"
    chain.write_text(_TEXT)
    write_advised(chain_parts(0), load(chain), tmp_path)
    assert [*tmp_path.iterdir()] == [chain]
