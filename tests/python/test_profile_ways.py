"""Cache ways of one CPU, for a profile: on the emulated tree."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluation.emulation.state import Fault
from evaluation.emulation.tree import EmulatedTree
from tests.python.isolating import CDP, PAPER, RICH, picture, tree_of
from unis.isolate.hardware import IoWays
from unis.isolate.schemata import parse
from unis.isolate.tree import TreeError
from unis.profile.cpu_ways import ways_of_cpu
from unis.runtime.errors import LaunchError

DDIO = IoWays("ddio", "the two highest ways", {0: 0xC0000})
NONE = IoWays("none", "")


def masks(tree: EmulatedTree, domain: int = 0) -> tuple[int, int]:
    """The profile's and everybody else's."""
    name = "L3DATA" if "L3DATA" in parse(tree.read("schemata")) else "L3"
    of = parse(tree.read("unis-profile/schemata"))[name][domain]
    return of, parse(tree.read("schemata"))[name][domain]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.integers(1, 18), min_size=1, max_size=6))
def test_only_the_cpu_fills_what_is_measured(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int]
) -> None:
    tree = tree_of(tmp_path_factory.mktemp("tree"))
    before = picture(tree)
    with ways_of_cpu(tree, DDIO, 0, 0) as ways:
        assert ways.most == 18
        for count in counts:
            ways.set(count)
            mine, others = masks(tree)
            assert mine.bit_count() == count
            assert not mine & (others | DDIO.masks[0])
            assert tree.read("unis-profile/cpus_list").strip() == "0"
    assert picture(tree) == before


def test_without_ways_for_io_everybody_else_shares_one(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, CDP)
    with ways_of_cpu(tree, NONE, 0, 0) as ways:
        ways.set(ways.most)
        mine, others = masks(tree)
        assert (mine.bit_count(), others.bit_count()) == (16, 1)
        ways.set(3)
        mine, others = masks(tree)
        assert not mine & others


def test_the_other_socket_is_left_alone(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, RICH)
    whole = parse(tree.read("schemata"))["L3"][0]
    with ways_of_cpu(tree, NONE, 2, 1) as ways:
        ways.set(4)
        assert masks(tree, 1)[0].bit_count() == 4
        assert masks(tree, 0) == (whole, whole)


def test_a_number_of_ways_that_cannot_be(tmp_path: Path) -> None:
    with ways_of_cpu(tree_of(tmp_path), DDIO, 0, 0) as ways, pytest.raises(LaunchError, match="19"):
        ways.set(19)


def test_one_profile_at_a_time(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    with (
        ways_of_cpu(tree, DDIO, 0, 0),
        pytest.raises(LaunchError, match="another profile"),
        ways_of_cpu(tree, DDIO, 0, 0),
    ):
        pass


def test_what_is_refused_leaves_all_as_it_was(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, PAPER)
    before = picture(tree)
    tree.inject(Fault("write", "unis-profile/schemata", errno=5))
    with pytest.raises(TreeError), ways_of_cpu(tree, DDIO, 0, 0) as ways:
        ways.set(3)
    assert picture(tree) == before
