"""Plans of the examples as text, to compare: `python -m tests.python.plan_table` prints it."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from tests.python.fake_nic import FakeNic
from tests.python.planned import EIGHT_CPUS, places
from unis import built
from unis.chain.load import load
from unis.links import veth
from unis.plan import programs
from unis.plan.machine import Machine
from unis.plan.model import Plan
from unis.plan.planner import make_plan
from unis.plan.rings import Known

_KNOWN = Known(costs={"monitor": 40.0, "nat": 90.0, "firewall": 120.0}, switch_ns=3000.0)


def table() -> str:
    """What each example becomes on a machine with eight CPUs, whatever is built or known here."""
    with (
        TemporaryDirectory() as folder,
        mock.patch.object(programs, "find_program", lambda name, _: Path("/bin") / Path(name).name),
        mock.patch.object(programs, "program_problem", return_value=None),
        mock.patch.object(veth, "_buffer", return_value=212_992),
    ):
        examples = sorted(built.examples_directory().glob("*.yaml"))
        # With a NIC, for links of kind sriov.
        machine = Machine(EIGHT_CPUS.cpus, FakeNic(Path(folder)).root)
        lines = [line for example in examples for line in _example(example, machine)]
    return "\n".join(lines).replace(str(built.clone()), "CLONE") + "\n"


def _example(file: Path, machine: Machine) -> Iterator[str]:
    plan = make_plan(load(file), machine, [], places, known=_KNOWN)
    yield f"{file.name}: {plan.controller}, γ {plan.gamma.value:g}, {plan.hugepages_mb} MB"
    yield f"  unisd {shlex.join(plan.engine.argv)}"
    yield from (f"  {link.name} {link.kind} {link.slots}" for link in plan.links)
    yield from _functions(plan)
    for chain in plan.chains:
        hops = [f"{hop.function}[{hop.in_port},{hop.out_port}]" for hop in chain.hops]
        yield f"  {chain.name}: {' '.join([chain.ingress, *hops, chain.egress])}"
        for edge in chain.edges:
            ends = f"{edge.origin}[{edge.out_port}] > {edge.to}[{edge.in_port}]"
            yield f"    {ends}: {' '.join(edge.links)}"
        for split in chain.splits:
            yield f"    {split.link}: {' '.join(branch.to for branch in split.branches)}"


def _functions(plan: Plan) -> Iterator[str]:
    for function in plan.functions:
        ports = " ".join(f"{port.rx or '-'}>{port.tx or '-'}" for port in function.ports)
        yield f"  {function.name} on {function.lcores}, ports {ports}"
        environment = [f"{key}={value}" for key, value in function.env.items()]
        yield "    " + shlex.join([*environment, str(function.program), *function.argv])


if __name__ == "__main__":
    sys.stdout.write(table())
