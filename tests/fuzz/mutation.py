"""Wild data for fuzzing, from a seed that a failure tells: UNIS_FUZZ_SEED brings the same again."""

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

SECONDS = float(os.environ.get("UNIS_FUZZ_SECONDS", "8"))  # of each test
_HANGS = 60  # seconds; what takes as long takes for ever


def rounds() -> Iterator[random.Random]:
    """Dice for one try after the other, each with a seed of its own, until the time is over."""
    if stated := os.environ.get("UNIS_FUZZ_SEED"):
        yield random.Random(int(stated))
        return
    seed = random.SystemRandom().getrandbits(40)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        print(f"UNIS_FUZZ_SEED={seed}")  # noqa: T201  # of a failure, the last is the one
        yield random.Random(seed)
        seed += 1


@contextmanager
def no_hang() -> Iterator[None]:
    """What is within ends, or is interrupted and fails."""

    def give_up(*_: object) -> None:
        raise AssertionError(f"still busy after {_HANGS} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_HANGS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def spoiled(dice: random.Random, data: bytes, words: Sequence[bytes]) -> bytes:
    """`data` after a few changes: pieces gone, doubled, moved, replaced by `words` or by noise."""
    result = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 3, 8))):
        begin = dice.randint(0, len(result))
        end = min(len(result), begin + dice.choice((0, 1, 4, dice.randint(0, 200))))
        piece = bytes(result[begin:end])
        result[begin:end] = dice.choice(
            (
                b"",
                piece * dice.randint(2, 5),
                dice.choice(words) if words else b"",
                dice.randbytes(dice.randint(1, 8)),
                bytes(result[(at := dice.randint(0, len(result))) : at + dice.randint(0, 80)]),
            )
        )
    return bytes(result)
