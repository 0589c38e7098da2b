"""Messages as plain data: what `--json` prints."""

import json

from unis.cli.look_commands import as_dict
from unis.v1 import common_pb2
from unis.v1 import engine_pb2 as pb


def test_names_of_digits_stay_names_and_numbers_are_numbers() -> None:
    stats = pb.Stats(
        run="7",
        time_ns=1 << 60,
        policy=common_pb2.POLICY_UNIS,
        chains=[pb.ChainStats(name="80", functions=["1", "-2"], offered=5)],
        account=pb.Account(unaccounted=-3),
    )
    plain = as_dict(stats)
    assert json.loads(json.dumps(plain)) == plain
    assert (plain["run"], plain["time_ns"], plain["policy"]) == ("7", 1 << 60, "POLICY_UNIS")
    assert plain["chains"][0]["name"] == "80"
    assert plain["chains"][0]["functions"] == ["1", "-2"]
    assert plain["account"]["unaccounted"] == -3


def test_what_is_absent_is_left_out_and_nothing_else() -> None:
    plain = as_dict(pb.Stats())
    assert "account" not in plain
    assert (plain["run"], plain["decisions"], plain["chains"]) == ("", 0, [])
    assert plain["phase"] == "RUN_PHASE_UNSPECIFIED"
    measured = as_dict(pb.MeasureReply(function_cpu_ns={"1": 2}))
    assert measured["function_cpu_ns"] == {"1": 2}
