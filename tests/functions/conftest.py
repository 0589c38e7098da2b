"""What the tests of the functions share."""

from pathlib import Path

import pytest

from tests.functions.function_run import DATA, Runner, read_pcap


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    """Runs a function on frames."""
    return Runner(tmp_path)


@pytest.fixture(params=["instagram", "quic", "teams"])
def capture(request: pytest.FixtureRequest) -> list[bytes]:
    """The frames of a real capture, one after the other."""
    frames = read_pcap(DATA / f"{request.param}.pcap")
    assert len(frames) >= 300
    return frames
