"""What Suricata tells, and what is made of it."""

import json

import pytest

from unis.bench.alerts import Pass, events_in


def event(kind: str, **more: object) -> str:
    return json.dumps({"event_type": kind, "src_ip": "10.0.0.1", "dest_ip": "10.0.0.2", **more})


def alert(sid: int, action: str = "allowed", **more: object) -> str:
    return event("alert", alert={"signature_id": sid, "action": action}, proto="UDP", **more)


def test_alerts_are_counted_with_their_flow_and_drops_by_the_packet() -> None:
    lines = [alert(1, src_port=5), alert(1, src_port=5), alert(1, src_port=6), event("drop"),
             event("stats"), event("drop"), alert(2, "blocked")]  # fmt: skip
    alerts, drops = events_in("\n".join(lines))
    assert drops == 2
    assert alerts.total() == 4
    assert sorted(alerts.values()) == [1, 1, 2]


@pytest.mark.parametrize(
    "other",
    [
        [alert(1, src_port=5)],
        [alert(1, src_port=5), alert(1, src_port=6)],
        [alert(1, src_port=5), alert(2, src_port=5)],
        [alert(1, src_port=5), alert(1, "blocked", src_port=5)],
    ],
)
def test_alerts_of_another_rule_flow_action_or_number_are_others(other: list[str]) -> None:
    mine = [alert(1, src_port=5), alert(1, src_port=5)]
    assert events_in("\n".join(mine))[0] == events_in("\n".join(reversed(mine)))[0]
    assert events_in("\n".join(mine))[0] != events_in("\n".join(other))[0]


def test_a_pass_is_accounted_where_what_is_missing_is_what_it_says_it_dropped() -> None:
    assert Pass(offered=10, delivered=7, dropped_by_function=3, drops=3, alerts=0).accounted
    assert not Pass(offered=10, delivered=7, dropped_by_function=3, drops=2, alerts=0).accounted
    assert not Pass(offered=10, delivered=6, dropped_by_function=3, drops=3, alerts=0).accounted
