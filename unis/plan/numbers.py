"""Numbers that no two processes of the engine's DPDK group may share. What stays in a run keeps
its own. A function with a group of its own needs none: EAL counts its lcores from 0.
"""

import itertools
import re
from collections.abc import Mapping

from unis.chain.model import ChainFile
from unis.plan.model import FunctionPlan, Plan

_LAST_NUMBER = re.compile(r"\d+$")


class Numbers:
    """Of lcores, which have caches in the mempool, and of devices on rings."""

    def __init__(self, platform_cpus: int, file: ChainFile, there: Plan | None) -> None:
        before = {function.name: function for function in there.functions} if there else {}
        stays = {
            name: before[name]
            for name in file.functions
            if name in before and before[name].group == "engine"
        }
        self._lcores = {
            name: lcores(function)
            for name, function in stays.items()
            if len(lcores(function)) == file.functions[name].lcores
        }
        # 0 is unisd's main thread, then one for each CPU of the platform.
        self._used_lcores = {
            *range(1 + platform_cpus),
            *itertools.chain.from_iterable(self._lcores.values()),
        }
        self._devices = _devices(stays)
        self._used_devices = {*self._devices.values()}

    def lcore(self, function: str, count: int) -> int:
        """The first of so many in a row for a function."""
        if function in self._lcores:
            return self._lcores[function][0]
        wanted = (range(first, first + count) for first in itertools.count())
        found = next(row for row in wanted if self._used_lcores.isdisjoint(row))
        self._used_lcores.update(found)
        return found[0]

    def device(self, port: str) -> int:
        """The number of a port's device."""
        if port not in self._devices:
            self._devices[port] = next(
                at for at in itertools.count() if at not in self._used_devices
            )
            self._used_devices.add(self._devices[port])
        return self._devices[port]


def lcores(function: FunctionPlan) -> list[int]:
    """The ids of a function's lcores."""
    return [int(part.partition("@")[0]) for part in function.lcores.split(",")]


def _devices(functions: Mapping[str, FunctionPlan]) -> dict[str, int]:
    return {
        port.name: int(found[0])
        for function in functions.values()
        for port in function.ports
        if (found := _LAST_NUMBER.search(port.device_name))
    }
