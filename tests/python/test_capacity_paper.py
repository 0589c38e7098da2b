"""`unis model` beside the SR-IOV paper: its table, and its formulas by hand."""

import csv
from typing import Any

import pytest

from tests.python.modelled import DATA, cycles, drivers, machine, nic, path, xeon
from unis.capacity import pcie
from unis.capacity.case import CapacityCase
from unis.capacity.chain import HARDWARE
from unis.capacity.demands import Setting
from unis.capacity.machine import LANE_RATES
from unis.capacity.pcie import PcieMode
from unis.capacity.resources import CapacityError

PAPER = Setting(ends="functions", turn=1e12)


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open() as file:
        return list(csv.DictReader(file))


PREDICTIONS = rows("rc_model_pcie_linerate_predictions.csv")
TABLE = rows("table1_max_throughput.csv")


def free(kind: str, n: int, size: int, mode: PcieMode = "paper") -> CapacityCase:
    """A chain whose functions cost nothing: what line and PCIe let pass."""
    chain = path([0.0] * n, kind, nic="x520", sizes={size: 1})
    none = {name: driver.model_copy(update={"receive": cycles(0), "send": cycles(0)})
            for name, driver in xeon().drivers.items()}  # fmt: skip
    of = xeon().model_copy(
        update={"drivers": none, "memory": None, "switch": cycles(0), "platform": None}
    )
    return CapacityCase((chain,), of, Setting(ends="functions", turn=1e12, pcie=mode))


def mpps_of(case: CapacityCase, word: str) -> float:
    """What the resources named so let pass alone."""
    load = case.answered().load
    capacities = {each.name: each.capacity for each in load.resources}
    return min(
        capacities[demand.resource] / demand.amount / 1e6
        for demand in load.demands
        if word in demand.resource
    )


def test_there_are_thirty_rows() -> None:
    assert (len(PREDICTIONS), len(TABLE)) == (30, 18)


@pytest.mark.parametrize("row", PREDICTIONS, ids=lambda row: f"{row['frame_bytes']}-{row['n']}")
def test_line_and_pcie_by_the_papers_formulas(row: dict[str, str]) -> None:
    size, n = int(row["frame_bytes"]), int(row["n"])
    software, hardware = free("ring", n, size), free(HARDWARE, n, size)
    padded = free(HARDWARE, n, size, "padded")
    for key, value in (
        ("line_rate_mpps", mpps_of(hardware, "port")),
        ("tp_pcie_sw_mpps", mpps_of(software, "PCIe")),
        ("tp_pcie_sriov_mpps", mpps_of(hardware, "PCIe")),
        ("tp_pcie_sriov_padded_mpps", mpps_of(padded, "PCIe")),
        ("min_line_pcie_mpps", padded.answered().found.total / 1e6),
    ):
        assert round(value, 3) == pytest.approx(float(row[key]), abs=1e-9), key
    limits = padded.answered().found.bottlenecks
    word = {"pcie": "PCIe", "line rate": "port"}[row["bottleneck"]]
    assert all(word in limit for limit in limits)
    assert limits


@pytest.mark.parametrize(
    "row", TABLE, ids=lambda row: f"{row['sf']}-{row['pcie_function']}-{row['cpu_ghz']}"
)
def test_cycles_of_the_table_give_its_throughput_back(row: dict[str, str]) -> None:
    """Cycles a packet are the clock by the throughput; at line rate they are a bound from above."""
    hz, mpps = float(row["cpu_ghz"]) * 1e9, float(row["max_mpps"])
    key = next(name for name in row if name.startswith("derived_cycles"))
    spent = hz / (mpps * 1e6)
    assert round(spent, 1) == float(row[key])
    costs = path([spent], nic="x520", sizes={64: 1})
    of = machine(
        hz=hz, drivers=drivers((0, 0), (0, 0)), nics={"x520": nic(driver="pf", vf_driver="vf")}
    )
    case = CapacityCase((costs,), of, PAPER)
    assert case.answered().found.total / 1e6 == pytest.approx(mpps, abs=5e-4)
    assert (mpps == 14.88) == (row["line_rate_limited"] == "1")


@pytest.mark.parametrize(
    ("n", "mpps"), [(1, 0.980), (2, 0.490), (3, 0.327), (4, 0.245), (5, 0.196)]
)
def test_ovs_on_virtual_functions_as_by_hand(n: int, mpps: float) -> None:
    """2e9 / (n · 2040.8) packets/s; the CPU is the limit, and neither PCIe nor the line."""
    cost = xeon().functions["ovs-bridge"].value
    chain = path([cost] * n, HARDWARE, nic="x520", sizes={64: 1})
    kernel = nic(driver="ixgbe", vf_driver="ixgbevf")
    of = xeon().model_copy(update={"nics": {"x520": kernel}, "switch": cycles(0)})
    case = CapacityCase((chain,), of, PAPER)
    found = case.answered().found
    assert round(found.total / 1e6, 3) == mpps
    assert found.bottlenecks == ("CPU 1",)
    assert round(mpps_of(case, "port"), 3) == 14.881
    assert round(mpps_of(case, "PCIe"), 3) == round(50 / n, 3)


def test_costs_of_software_links_are_rx_and_n_functions_and_the_links_between_and_tx() -> None:
    of = machine(drivers=drivers(), nics={"x520": nic()}, switch=cycles(0))
    for n in range(1, 6):
        case = CapacityCase((path([100.0] * n, "memif", nic="x520", sizes={64: 1}),), of, PAPER)
        link = 3 + 4 + 2 * 6.4
        spent = 30 + n * 100 + (n - 1) * link + 40
        assert amount(case, "CPU 1") == pytest.approx(spent)


def test_costs_of_virtual_functions_are_n_times_all() -> None:
    of = machine(drivers=drivers(), nics={"x520": nic()}, switch=cycles(0))
    for n in range(1, 6):
        case = CapacityCase((path([100.0] * n, HARDWARE, nic="x520", sizes={64: 1}),), of, PAPER)
        assert amount(case, "CPU 1") == pytest.approx(n * (50 + 100 + 60))


def amount(case: CapacityCase, resource: str) -> float:
    return sum(d.amount for d in case.answered().load.demands if d.resource == resource)


@pytest.mark.parametrize(("switchings", "times"), [("n", 4), ("n+1", 5)])
def test_both_counts_of_switchings(switchings: Any, times: int) -> None:
    """14.88 Mpps of a chain of four: 59.52 or 74.40 million decisions a second."""
    decisions = cycles(59.52e6).model_copy(update={"unit": "operations/s"})
    of = machine(drivers=drivers(), nics={"x520": nic(operations=decisions)})
    case = CapacityCase(
        (path([0.0] * 4, HARDWARE, nic="x520"),), of, Setting(switchings=switchings)
    )
    assert amount(case, "x520 operations") == times
    software = CapacityCase((path([0.0] * 4, nic="x520"),), of, PAPER)
    assert amount(software, "x520 operations") == 0


def test_the_readings_that_docs_model_md_has_numbers_of() -> None:
    """19.53 Mpps without preamble and gap; at n = 4 half the bandwidth, and TLPs."""
    line = free(HARDWARE, 1, 64)
    assert round(mpps_of(line, "port"), 2) == 14.88
    gap = xeon().nics["x520"].gap
    assert round(mpps_of(line.with_nic(gap=gap.with_value(0, "")), "port"), 2) == 19.53
    four = free(HARDWARE, 4, 64)
    bus = xeon().nics["x520"].pcie
    half = bus.model_copy(update={"bandwidth": bus.bit_rate.with_value(16e9, "")})
    assert round(mpps_of(four, "PCIe"), 3) == 12.5
    assert round(mpps_of(four.with_nic(pcie=half), "PCIe"), 3) == 6.25
    assert round(mpps_of(free(HARDWARE, 4, 64, "tlp"), "PCIe"), 3) == 6.41


def test_at_four_functions_the_papers_own_formula_has_pcie_as_the_limit_at_each_size() -> None:
    """The text says that PCIe is not the cause."""
    for size in range(64, 1519):
        case = free(HARDWARE, 4, size)
        bus, line = mpps_of(case, "PCIe"), mpps_of(case, "port")
        assert bus < line
    assert (round(bus, 3), round(line, 3)) == (0.652, 0.813)


def test_a_frame_takes_more_of_the_bus_with_every_further_reading() -> None:
    bus = xeon().nics["x520"].pcie
    for size in range(64, 1519):
        plain = pcie.received(bus, size, "paper"), pcie.sent(bus, size, "paper")
        padded = pcie.received(bus, size, "padded"), pcie.sent(bus, size, "padded")
        packets = pcie.received(bus, size, "tlp"), pcie.sent(bus, size, "tlp")
        assert plain[0].to_host == plain[1].from_host == (size + 16) * 8
        assert padded[0].to_host == padded[1].from_host == (-(-size // 64) * 64 + 16) * 8
        assert packets[0].to_host > padded[0].to_host
        assert packets[1].from_host > padded[1].from_host
        assert plain[0].from_host == padded[0].from_host == 0 < packets[0].from_host


def test_headers_of_a_small_and_a_large_frame_by_hand() -> None:
    """64 B: one TLP. 1518 B: 1536 B in six, asked for by three. Four descriptors a TLP."""
    bus = xeon().nics["x520"].pcie
    small, large = pcie.received(bus, 64, "tlp"), pcie.sent(bus, 1518, "tlp")
    assert small.to_host == (64 + 20 + 16 + 5 + 5) * 8
    assert small.from_host == (16 + 5 + 6) * 8
    assert large.from_host == (1536 + 6 * 20 + 16 + 5 + 6) * 8
    assert large.to_host == (3 * 20 + 5 + 16 + 5) * 8


def test_the_saw_tooth_has_a_tooth_at_each_cache_line() -> None:
    bus = xeon().nics["x520"].pcie
    bits = [pcie.received(bus, size, "padded").to_host for size in range(64, 1519)]
    teeth = [64 + at + 1 for at in range(len(bits) - 1) if bits[at + 1] > bits[at]]
    assert teeth == list(range(65, 1519, 64))


@pytest.mark.parametrize(
    ("generation", "gbits"), [(1, 16), (2, 32), (3, 63.0), (4, 126.0), (5, 252.1)]
)
def test_the_bandwidth_of_eight_lanes(generation: int, gbits: float) -> None:
    faster = xeon().nics["x520"].pcie.of_generation(generation)
    assert faster.bit_rate.value / 1e9 == pytest.approx(gbits, abs=0.05)
    assert generation in LANE_RATES


def test_too_few_virtual_functions_are_told() -> None:
    few = cycles(4).model_copy(update={"unit": "VFs"})
    of = machine(drivers=drivers(), nics={"x520": nic(virtual_functions=few)})
    case = CapacityCase((path([1.0] * 4, HARDWARE, nic="x520"),), of)
    assert case.answered().found.total > 0
    longer = case.of_length(5)
    told = "the chains need 10 virtual functions, and x520 has 8"
    with pytest.raises(CapacityError, match=told):
        longer.answered()
