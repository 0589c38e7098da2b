"""The bounds of the contract, as the Python half reads them."""

import pytest

from unis.engine.limits import bounds, broken, is_power_of_two, limit
from unis.v1 import common_pb2, costs_pb2, engine_pb2


def test_bounds_are_those_beside_the_fields() -> None:
    assert limit("SchedulerSettings.gamma").max == 1
    assert bounds("SchedulerSettings.gamma") == {"gt": 0, "le": 1}
    assert bounds("SchedulerSettings.interval_ns", unit=1000) == {"ge": 1, "le": 1_000_000}
    assert limit("SimChain.path").max_items == 256
    assert not limit("Memif.id").HasField("max")
    with pytest.raises(KeyError):
        limit("SchedulerSettings.gama")
    with pytest.raises(KeyError):
        limit("Nothing.gamma")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"run": ""}, "run is empty"),
        ({"run": "a b"}, "run is `a b`, which does not match [a-zA-Z0-9][a-zA-Z0-9_-]*"),
        ({"run": "a" * 65}, "run has 65 bytes, 64 at most"),
        ({"rr_timeslice_ms": 1001}, "rr_timeslice_ms is 1001; must be at most 1000"),
        ({"fair_slice_ns": 0}, "fair_slice_ns is 0; must be at least 100000"),
        ({"scheduler": {"gamma": 0, "interval_ns": 1000}}, "scheduler.gamma is 0; must be above 0"),
        ({"scheduler": {"gamma": 2, "interval_ns": 1000}},
         "scheduler.gamma is 2; must be at most 1"),
        ({"scheduler": {"gamma": float("nan"), "interval_ns": 1000}},
         "scheduler.gamma is nan; must be above 0"),
        ({"scheduler": {"gamma": 1, "interval_ns": 999}},
         "scheduler.interval_ns is 999; must be at least 1000"),
        ({"links": [{"name": "a", "kind": 1, "slots": 100}]},
         "links[0].slots is 100; must be a power of two"),
        ({"links": [{"name": "a", "kind": 0, "slots": 64}]}, "links[0].kind is missing"),
        ({"functions": [{"name": "f", "group": 1}]}, "functions[0].ports is empty"),
        ({"traffic": {"replay": {"file": ""}}}, "traffic.replay.file is empty"),
    ],
)  # fmt: skip
def test_what_breaks_a_bound_is_told(changes: dict[str, object], sentence: str) -> None:
    assert broken(engine_pb2.DeployRequest(run="x")) == []
    request = engine_pb2.DeployRequest(**{"run": "x", **changes})  # type: ignore[arg-type]
    assert sentence in broken(request)


def test_an_absent_optional_field_is_within_its_bounds() -> None:
    settings = common_pb2.SchedulerSettings(gamma=1, interval_ns=1000)
    assert broken(settings) == []
    settings.theta_max = 0
    assert broken(settings) == ["theta_max is 0; must be at least 1"]


def test_too_many_items() -> None:
    sizes = costs_pb2.EstimateRequest(functions=["a"], sizes=[64] * 17)
    assert broken(sizes) == ["sizes has 17 parts, 16 at most"]


def test_powers_of_two() -> None:
    assert [number for number in range(20) if is_power_of_two(number)] == [1, 2, 4, 8, 16]
