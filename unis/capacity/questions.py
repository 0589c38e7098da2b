"""What an operator asks: the case with one thing changed, solved again."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from unis.capacity.case import CapacityCase
from unis.capacity.chain import HARDWARE, ModelChain
from unis.capacity.machine import LANE_RATES
from unis.capacity.resources import CapacityError
from unis.chain.defaults import MAX_SIZE, MIN_SIZE

_LINES = (10e9, 25e9, 40e9, 100e9)  # bit/s of ports that there are
_BATCHES = (8, 32, 128)  # packets
_FASTER = 1.1
_GENERATIONS = 2  # that are asked of


@dataclass(frozen=True)
class WhatIf:
    """What is changed, and the case with that."""

    text: str
    case: CapacityCase
    same_chains: bool = True  # false: with another number of functions


def questions(case: CapacityCase) -> Iterator[WhatIf]:
    """Those that have an answer here."""
    for make in (_cores, _clock, _bus, _line, _engine, _batch, _turn, _lengths, _links):
        yield from make(case)


def _cores(case: CapacityCase) -> Iterator[WhatIf]:
    try:
        yield WhatIf("one more core", case.spread(len(case.cpus) + 1))
    except CapacityError:
        return


def _clock(case: CapacityCase) -> Iterator[WhatIf]:
    yield WhatIf("CPUs 10 % faster", case.with_setting(speed=_FASTER))


def _bus(case: CapacityCase) -> Iterator[WhatIf]:
    if case.nic is None:
        return
    now = int(case.nic[1].pcie.generation.value)
    for generation in range(now + 1, min(now + _GENERATIONS, max(LANE_RATES)) + 1):
        yield WhatIf(f"PCIe {generation}", _of_generation(case, generation))


def _of_generation(case: CapacityCase, generation: float) -> CapacityCase:
    if case.nic is None:
        raise CapacityError("the machine has no NIC")
    return case.with_nic(pcie=case.nic[1].pcie.of_generation(int(generation)))


def _line(case: CapacityCase) -> Iterator[WhatIf]:
    if case.nic is None:
        return
    now = case.nic[1].line_rate.value
    faster = next((rate for rate in _LINES if rate > now), None)
    if faster:
        yield WhatIf(f"ports of {faster / 1e9:g} Gbit/s", _of_line(case, faster))


def _of_line(case: CapacityCase, rate: float) -> CapacityCase:
    if case.nic is None:
        raise CapacityError("the machine has no NIC")
    return case.with_nic(line_rate=case.nic[1].line_rate.with_value(rate, "asked for"))


def _engine(case: CapacityCase) -> Iterator[WhatIf]:
    """A NIC whose packet engine is known."""
    operations = case.nic[1].operations if case.nic else None
    if operations is not None:
        twice = operations.with_value(2 * operations.value, "asked for")
        yield WhatIf("a NIC of twice the operations", case.with_nic(operations=twice))


def _batch(case: CapacityCase) -> Iterator[WhatIf]:
    if not any(name.endswith(".per_burst") for name in case.answered().load.used):
        return
    for packets in _BATCHES:
        if packets != case.setting.batch:
            yield WhatIf(f"batch {packets}", case.with_setting(batch=float(packets)))


def _turn(case: CapacityCase) -> Iterator[WhatIf]:
    if case.machine.switch.value:
        turn = 2 * case.setting.turn
        yield WhatIf(f"turns of {turn:g} packets", case.with_setting(turn=turn))


def _lengths(case: CapacityCase) -> Iterator[WhatIf]:
    if not all(chain.is_path for chain in case.chains):
        return
    fewer = [
        (name, case.changed(partial(_without, name)))
        for name in case.functions
        if all(set(chain.functions) != {name} for chain in case.chains)
    ]
    if fewer:
        name, best = max(fewer, key=lambda pair: pair[1].answered().found.objective(case.objective))
        yield WhatIf(f"one function less ({name})", best, same_chains=False)
    if len(case.chains) == 1:
        chain = case.chains[0]
        longer = case.of_length(len(chain.functions) + 1)
        more = f"one function more (as {chain.order[0].name})"
        try:
            longer.answered()
        except CapacityError:
            return
        yield WhatIf(more, longer, same_chains=False)


def _without(name: str, chain: ModelChain) -> ModelChain:
    """A path without a function; the link into the next one stays of its kind."""
    if name not in chain.functions:
        return chain
    into = next(link for link in chain.links if link.to == name)
    links = tuple(
        replace(link, origin=into.origin) if link.origin == name else link
        for link in chain.links
        if link.to != name
    )
    left = {key: use for key, use in chain.functions.items() if key != name}
    return replace(chain, functions=left, links=links)


def _links(case: CapacityCase) -> Iterator[WhatIf]:
    used = {kind for chain in case.chains for link in chain.links for kind in link.kinds}
    kinds = [*case.machine.links, *([HARDWARE] if case.nic else [])]
    for kind in kinds:
        if used != {kind}:
            other = case.linked_by(kind)
            try:
                other.answered()
            except CapacityError:
                continue
            yield WhatIf(f"all links of kind {kind}", other)


# ------------------------------------------------------------------ asked by KEY=VALUE


def _of_clock(case: CapacityCase, ghz: float) -> CapacityCase:
    return case.with_setting(speed=ghz * 1e9 / case.machine.hz)


@dataclass(frozen=True)
class _AskedFor:
    """What may be asked by KEY=VALUE."""

    told: str  # with the value
    change: Callable[[CapacityCase, float], CapacityCase]
    least: float
    most: float
    whole: bool = False

    @property
    def expected(self) -> str:
        number = "a whole number" if self.whole else "a number"
        return f"{number} from {self.least:,g} to {self.most:,g}"


_ASKED: Mapping[str, _AskedFor] = MappingProxyType({
    "cpus": _AskedFor(
        "functions on {:g} CPUs", lambda case, value: case.spread(int(value)), 1, 4096, whole=True
    ),
    "ghz": _AskedFor("CPUs of {:g} GHz", _of_clock, 0.1, 20),
    "pcie": _AskedFor("PCIe {:g}", _of_generation, min(LANE_RATES), max(LANE_RATES), whole=True),
    "line": _AskedFor(
        "ports of {:g} Gbit/s", lambda case, value: _of_line(case, value * 1e9), 0.1, 10_000
    ),
    "batch": _AskedFor(
        "batch {:g}", lambda case, value: case.with_setting(batch=value), 1, 256, whole=True
    ),
    "turn": _AskedFor(
        "turns of {:g} packets", lambda case, value: case.with_setting(turn=value), 1, 1_000_000
    ),
    "size": _AskedFor(
        "packets of {:g} bytes", lambda case, value: case.of_size(int(value)),
        MIN_SIZE, MAX_SIZE, whole=True,
    ),
    "functions": _AskedFor(
        "chains of {:g} functions", lambda case, value: case.of_length(int(value)), 1, 100,
        whole=True,
    ),
})  # fmt: skip


def known() -> tuple[str, ...]:
    """Keys of what may be asked."""
    return (*_ASKED, "link")


def asked(case: CapacityCase, key: str, value: str) -> WhatIf:
    """What the user asks. CapacityError if it has no answer."""
    if key == "link":
        if value != HARDWARE and value not in case.machine.links:
            kinds = ", ".join([*case.machine.links, HARDWARE])
            raise CapacityError(
                f"the machine file has no costs of links of kind `{value}`; it has {kinds}"
            )
        return WhatIf(f"all links of kind {value}", case.linked_by(value))
    if key not in _ASKED:
        raise CapacityError(f"`{key}` cannot be changed; known: {', '.join(known())}")
    question = _ASKED[key]
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    is_whole = number.is_integer() or not question.whole
    if not (question.least <= number <= question.most and is_whole):
        raise CapacityError(f"{key}={value}: expected {question.expected}")
    if key == "functions" and not all(chain.is_path for chain in case.chains):
        raise CapacityError(f"{key}={value}: only of chains without branches")
    told = question.told.format(number)
    return WhatIf(told, question.change(case, number), same_chains=key != "functions")
