"""Capacity masks: a bit for each way of a cache, or for several, the lowest way first."""

from collections.abc import Iterator


def mask_of(first: int, ways: int) -> int:
    """`ways` neighbouring bits from bit `first` on."""
    return ((1 << ways) - 1) << first


def runs(mask: int) -> Iterator[tuple[int, int]]:
    """Neighbouring bits as (first, how many), from the lowest."""
    first = 0
    while mask >> first:
        if mask >> first & 1:
            rest = mask >> first
            length = (~rest & (rest + 1)).bit_length() - 1
            yield first, length
            first += length
        else:
            first += 1


def is_contiguous(mask: int) -> bool:
    """Whether its bits are neighbours; an empty mask has none."""
    return sum(1 for _ in runs(mask)) == 1


def is_valid(mask: int, min_bits: int, *, sparse: bool = False) -> bool:
    """Whether a class may have it, as far as the mask alone says."""
    first = next(runs(mask), None)
    return first is not None and first[1] >= min_bits and (sparse or is_contiguous(mask))


def parse_hex(text: str) -> int:
    """A mask as resctrl writes it, without 0x, in groups with commas or none; ValueError."""
    digits = text.strip().replace(",", "")
    if not digits or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise ValueError(f"`{text.strip()}` is no hexadecimal mask")
    return int(digits, 16)


def format_hex(mask: int) -> str:
    """A mask as resctrl takes it."""
    return f"{mask:x}"


def row(mask: int, ways: int, mark: str = "█", gap: str = "·") -> str:
    """A character for each way, the highest first, as the mask is written."""
    return "".join(mark if mask >> bit & 1 else gap for bit in reversed(range(ways)))
