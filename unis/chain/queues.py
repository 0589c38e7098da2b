"""How many queues a program makes on each of its ports."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from unis.chain.part import Part
from unis.chain.problem import wrong
from unis.engine.limits import bounds, limit

_MOST = int(limit("Memif.queues_to_server").max or 1)
_Count = Annotated[int, Field(**bounds("Memif.queues_to_server"))]


class Queues(Part):
    """Where a program receives by another number of queues than it sends by."""

    rx: _Count = 1
    """By which it receives on each port."""
    tx: _Count = 1
    """By which it sends on each port: some programs make one for each of their lcores."""

    def __str__(self) -> str:
        """As a file states it."""
        return str(self.rx) if self.rx == self.tx else f"{{rx: {self.rx}, tx: {self.tx}}}"

    @property
    def opposite(self) -> "Queues":
        """What the other end of a link has."""
        return Queues(rx=self.tx, tx=self.rx)


def _both_ways(value: object) -> object:
    if isinstance(value, dict | Queues):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST:
        return {"rx": value, "tx": value}
    raise wrong(
        f"invalid number of queues `{value}`; expected 1 to {_MOST}, or {{rx: 1, tx: 2}} where the "
        "program receives by another number than it sends by"
    )


QueuesOrCount = Annotated[
    Queues, BeforeValidator(_both_ways, json_schema_input_type=_Count | Queues)
]
