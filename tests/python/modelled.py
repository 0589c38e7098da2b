"""Machines and chains for the tests of `unis model`."""

from functools import cache
from pathlib import Path
from typing import Any

from unis import built
from unis.capacity.chain import FunctionCost, ModelChain, ModelFunction
from unis.capacity.files import load_machine
from unis.capacity.machine import LinkCost, MachineFile, Nic, PlatformCosts, PortCost
from unis.capacity.parameter import Parameter

XEON = built.clone() / "examples" / "machines" / "xeon-x520.yaml"
DATA = Path(__file__).parents[1] / "data" / "sriov"


@cache
def xeon() -> MachineFile:
    """That of the paper."""
    return load_machine(XEON)


def parameter(value: float, unit: str) -> Parameter:
    return Parameter(value=value, unit=unit, source="assumed")


def cycles(value: float) -> Parameter:
    return parameter(value, "cycles")


def ns(value: float) -> Parameter:
    return parameter(value, "ns")


def machine(hz: float = 1e9, **more: Any) -> MachineFile:
    """One whose costs are whole numbers, in cycles of 1 ns."""
    return MachineFile.model_validate(
        {
            "apiVersion": "unis/machine/v1",
            "name": "here",
            "cpus": {"count": parameter(8, "CPUs"), "frequency": parameter(hz, "Hz")},
            "platform": PlatformCosts(source=ns(10), sink=ns(20), bridge=ns(7), decision=ns(1000)),
            "links": {
                "ring": LinkCost(receive=ns(0), send=ns(0)),
                "memif": LinkCost(receive=ns(3), send=ns(4), per_byte=ns(0.1)),
                "ovs": LinkCost(receive=ns(5), send=ns(6), carry=ns(100)),
            },
            "switch": ns(2000),
            **more,
        }
    )


def nic(**more: Any) -> Nic:
    """The paper's, with drivers of round numbers."""
    return xeon().nics["x520"].model_copy(update={"driver": "pf", "vf_driver": "vf", **more})


def drivers(pf: tuple[float, float] = (30, 40), vf: tuple[float, float] = (50, 60)) -> Any:
    return {
        "pf": PortCost(receive=cycles(pf[0]), send=cycles(pf[1])),
        "vf": PortCost(receive=cycles(vf[0]), send=cycles(vf[1])),
    }


def path(
    costs: list[float], kind: str = "ring", unit: Any = "cycles", cpu: int = 1, **more: Any
) -> ModelChain:
    """Functions f0, f1 and so on, all on one CPU."""
    functions = tuple(
        ModelFunction(f"f{at}", cpu, FunctionCost(cost, unit, "assumed"))
        for at, cost in enumerate(costs)
    )
    return ModelChain.path("c", functions, kind, **more)
