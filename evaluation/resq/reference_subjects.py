"""The reference functions with tables as an operator has them, to be recorded."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from evaluation.caches.references import RecordedProgram
from unis import built
from unis.counted.flows import Flows

_RULES = 1000  # the last lets everything pass
_ROUTES = 16_000
_MAC = "02:00:00:00:00:{:02x}"


def _nat(_: Path, flows: Flows) -> RecordedProgram:
    return _subject("nat", "--public", "203.0.113.1", "--max-flows", str(_room(flows)))


def _monitor(_: Path, flows: Flows) -> RecordedProgram:
    return _subject("monitor", "--max-flows", str(_room(flows)), "--top", "0")


def _macswap(_: Path, __: Flows) -> RecordedProgram:
    return _subject("macswap")


def _firewall(folder: Path, _: Flows) -> RecordedProgram:
    """Rules as access lists have them, between networks of the traffic; none denies port 443."""
    dice = random.Random(2)  # noqa: S311
    rules = []
    for _number in range(_RULES - 1):
        source = f"10.{dice.randrange(2)}.{dice.randrange(256)}.0/24"
        destination = f"{_dotted(64 << 24 | dice.getrandbits(30) >> 12 << 12)}/20"
        port = dice.choice(("22", "25", "80", "8080", "1024-65535"))
        rules.append(f"deny {source} {destination} * {port} {dice.choice(('tcp', 'udp'))}")
    rules.append("allow * * * * *")
    return _subject("firewall", "--rules", _file(folder / "rules", rules))


def _router(folder: Path, _: Flows) -> RecordedProgram:
    """Prefixes of /16 to /24 within 64.0.0.0/2, to 64 next hops, and a default route."""
    dice = random.Random(3)  # noqa: S311
    networks: dict[tuple[int, int], int] = {}
    while len(networks) < _ROUTES:
        length = dice.choices((16, 20, 22, 24), weights=(5, 15, 20, 60))[0]
        address = (64 << 24 | dice.getrandbits(30)) >> (32 - length) << (32 - length)
        networks.setdefault((address, length), dice.randrange(64))
    routes = [f"0.0.0.0/0 {_MAC.format(255)} {_MAC.format(254)}"]
    routes += [
        f"{_dotted(address)}/{length} {_MAC.format(hop)} {_MAC.format(254)}"
        for (address, length), hop in networks.items()
    ]
    return _subject("router", "--routes", _file(folder / "routes", routes))


SUBJECTS: Mapping[str, Callable[[Path, Flows], RecordedProgram]] = {
    "firewall": _firewall, "macswap": _macswap, "monitor": _monitor, "nat": _nat, "router": _router,
}  # fmt: skip


def reference_subject(name: str, folder: Path, flows: Flows) -> RecordedProgram:
    """A reference function with its tables, whose files are written into `folder`.

    KeyError for another name.
    """
    return SUBJECTS[name](folder, flows)


def _subject(name: str, *arguments: str) -> RecordedProgram:
    files = tuple(Path(word) for word in arguments if word.startswith("/"))
    return RecordedProgram(name, built.reference_function(name), arguments, files)


def _room(flows: Flows) -> int:
    return max(64, flows.flows * 5 // 4)


def _dotted(address: int) -> str:
    return ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))


def _file(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(lines) + "\n")
    return str(path.resolve())
