"""A function's command line, behind the program."""

import re
from collections.abc import Iterator, Sequence

from unis.chain.model import ChainFile, Function
from unis.chain.problem import Problem
from unis.plan.wiring import Wiring
from unis.workload.kind import Start

_EAL = "{eal}"
_PLUGIN = "{plugin}"
_NUMBERED = re.compile(r"\{(vdev|lcore)(\d+)\}")
_PLACE = re.compile(r"\{(vdev\d+|lcore\d+|file_prefix|cpu|lcores|plugin)\}")


def arguments(function: Function, eal: Sequence[str], start: Start, cpu: int) -> list[str]:
    """EAL's arguments and the function's own, in the places that it leaves for them."""
    if function.command is None:
        yielding = ["--yield-every", str(function.yield_every)] if function.yield_every else []
        return [*eal, "--", *function.args, *yielding]
    words = function.command[1:]
    if not _has_places(words):
        if "--" not in words:
            return [*eal, "--", *words]
        at = words.index("--")
        return [*eal, *words[:at], "--", *words[at + 1 :]]
    lcores = [lcore.partition("@")[0] for lcore in start.lcores.split(",")]
    places = {
        **{f"vdev{at}": device.name for at, device in enumerate(start.devices)},
        **{f"lcore{at}": lcore for at, lcore in enumerate(lcores)},
        "file_prefix": start.file_prefix,
        "cpu": str(cpu),
        "lcores": start.lcores,
        "plugin": str(start.port_plugin),  # named only where it is there
    }

    def filled(word: str) -> list[str]:
        if word == _EAL:
            return list(eal)
        return [_PLACE.sub(lambda found: places.get(found[1], found[0]), word)]

    return [part for word in words for part in filled(word)]


def loads_plugin(function: Function) -> bool:
    """Whether our plug-in is among EAL's arguments in its command line."""
    words = (function.command or [])[1:]
    placed = not _has_places(words) or _EAL in words or any(_PLUGIN in word for word in words)
    return function.plugin and placed


def place_problems(file: ChainFile, wiring: Wiring) -> list[Problem]:
    """Commands that name what they do not have, or leave out what their offloads need."""
    return [
        problem
        for name in file.functions
        for problem in _place_problems(name, file.function(name), len(wiring.ports[name]))
    ]


def _has_places(words: Sequence[str]) -> bool:
    return any(_EAL in word or _PLACE.search(word) for word in words)


def _place_problems(name: str, function: Function, ports: int) -> Iterator[Problem]:
    words = (function.command or [])[1:]
    where = ("functions", name)
    for word in words:
        for kind, number in _NUMBERED.findall(word):
            there = function.lcores if kind == "lcore" else ports
            if int(number) < there:
                continue
            has = f"{{{kind}{number}}}: it has {there} {'lcore' if kind == 'lcore' else 'port'}"
            mend = f"add lcores: {int(number) + 1}" if kind == "lcore" else "they count from 0"
            yield Problem((*where, "command"), f"{has}{'s' if there > 1 else ''}; {mend}")
    named = any(_PLUGIN in word for word in words)
    if not function.plugin and named:
        yield Problem((*where, "plugin"), "the command names {plugin}; leave one of them out")
    if function.offloads and not function.plugin:
        yield Problem(
            (*where, "offloads"), "are offered by the plug-in; leave out them or plugin: false"
        )
    elif function.offloads and _has_places(words) and not named and _EAL not in words:
        yield Problem(
            (*where, "offloads"),
            "are offered by the plug-in, which the command does not load; write {eal} or "
            "`-d {plugin}` among EAL's arguments in it",
        )
