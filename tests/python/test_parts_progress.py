"""How far a profile is, and how long it takes yet."""

from unis.parts.progress import told_rounds


def said(count: int, seconds: float) -> list[str]:
    """Of rounds that take so long each."""
    now = [100.0]
    lines: list[str] = []
    for at, number in enumerate(told_rounds(count, lines.append, lambda: now[0])):
        assert at == number
        now[0] += seconds
    return lines


def test_each_round_that_takes_long_is_told_with_what_is_left() -> None:
    assert said(3, 3.0) == [
        "round 1 of 3", "round 2 of 3, 6 s left", "round 3 of 3, 3 s left",
    ]  # fmt: skip
    assert said(100, 10.0)[1] == "round 2 of 100, 16 min left"


def test_short_rounds_are_not_all_told() -> None:
    lines = said(40, 0.5)
    assert lines[:2] == ["round 1 of 40", "round 5 of 40, 18 s left"]
    assert lines[-1].startswith("round 40 of 40")
    assert len(lines) == 11
