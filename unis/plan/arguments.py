"""A function's command line, behind the program."""

import re
from collections.abc import Sequence

from unis.chain.model import Function
from unis.workload.kind import Start

_EAL = "{eal}"
_PLACE = re.compile(r"\{(vdev\d+|lcore\d+|file_prefix|cpu|lcores|plugin)\}")


def arguments(function: Function, eal: Sequence[str], start: Start, cpu: int) -> list[str]:
    """EAL's arguments and the function's own, in the places that it leaves for them."""
    if function.command is None:
        yielding = ["--yield-every", str(function.yield_every)] if function.yield_every else []
        return [*eal, "--", *function.args, *yielding]
    words = function.command[1:]
    if not any(_EAL in word or _PLACE.search(word) for word in words):
        if "--" not in words:
            return [*eal, "--", *words]
        at = words.index("--")
        return [*eal, *words[:at], "--", *words[at + 1 :]]
    lcores = [lcore.partition("@")[0] for lcore in start.lcores.split(",")]
    places = {
        **{f"vdev{at}": device for at, device in enumerate(start.devices)},
        **{f"lcore{at}": lcore for at, lcore in enumerate(lcores)},
        "file_prefix": start.file_prefix,
        "cpu": str(cpu),
        "lcores": start.lcores,
        "plugin": str(start.port_plugin),
    }

    def filled(word: str) -> list[str]:
        if word == _EAL:
            return list(eal)
        return [_PLACE.sub(lambda found: places.get(found[1], found[0]), word)]

    return [part for word in words for part in filled(word)]
