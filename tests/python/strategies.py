"""Random chain files, valid ones, as plain data."""

import copy
from typing import Any

from hypothesis import strategies as st

from unis.chain.order import INGRESS
from unis.engine import names

NAMES = st.from_regex(r"\A[a-z0-9][a-z0-9_-]{0,10}\Z").filter(lambda name: name != INGRESS)
COSTS = st.floats(min_value=0.5, max_value=1e5)

Data = dict[str, Any]


def maybe(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Data]:
    return st.fixed_dictionaries({}, optional=optional)


def merged(*parts: st.SearchStrategy[Data]) -> st.SearchStrategy[Data]:
    return st.tuples(*parts).map(lambda dicts: {k: v for part in dicts for k, v in part.items()})


SOURCES = st.one_of(
    merged(
        st.just({"kind": "synthetic"}),
        maybe(
            size=st.one_of(st.integers(64, 1518), st.sampled_from(["imix", "datacenter"])),
            flows=st.integers(1, 100_000),
        ),
    ),
    st.just({"kind": "pcap", "file": "capture.pcap"}),
    st.just({"kind": "port", "device": "net_tap0"}),
)
RATES = st.one_of(
    st.just("max"),
    st.builds(
        "{}{}{}".format,
        st.integers(1, 999),
        st.sampled_from(["", "k", "M", "G"]),
        st.sampled_from(["pps", "bps"]),
    ),
)
TRAFFIC = maybe(
    source=SOURCES,
    rate=RATES,
    sink=st.sampled_from([{"kind": "measure"}, {"kind": "port", "device": "net_tap1"}]),
)
SCHEDULERS = maybe(
    policy=st.sampled_from(names.policies()),
    controller=st.sampled_from(names.controllers()),
    gamma=st.floats(min_value=0.05, max_value=1.5),
    batch=st.integers(16, 128),
    theta_min=st.integers(0, 100),
    theta_max=st.integers(101, 4000),
    interval_us=st.floats(min_value=1, max_value=100),
    occupancy=st.booleans(),
    lead_us=st.one_of(st.just("auto"), st.floats(min_value=0, max_value=50)),
    max_wait_us=st.integers(0, 10_000),
    rr_timeslice_ms=st.integers(1, 100),
)
MATCHES = merged(
    maybe(
        src=st.sampled_from(["10.0.0.0/8", "192.0.2.7/32"]),
        dst_port=st.integers(0, 65535),
        protocol=st.one_of(st.sampled_from(["tcp", "udp", "icmp"]), st.integers(0, 255)),
    ),
    st.builds(lambda port: {"src_port": port}, st.integers(0, 65535)),
)
FUNCTION_PARTS = merged(
    st.fixed_dictionaries({"program": st.just("macswap"), "cpu": st.integers(0, 63)}),
    maybe(
        args=st.lists(st.from_regex(r"\A--?[a-z]{1,8}\Z"), max_size=3),
        cost_ns=st.one_of(COSTS, st.dictionaries(st.integers(64, 1518), COSTS, min_size=1)),
        yield_every=st.integers(0, 64),
        link=st.sampled_from(names.links()),
    ),
)


@st.composite
def chain_files(draw: st.DrawFn) -> Data:
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    unique = draw(st.lists(NAMES, min_size=sum(counts), max_size=sum(counts), unique=True))
    left = iter(unique)
    chains = []
    for index, count in enumerate(counts):
        functions = [{"name": next(left), **draw(FUNCTION_PARTS)} for _ in range(count)]
        chain: Data = {"name": f"chain{index}", "functions": functions}
        chain["ring"] = draw(st.sampled_from([128, 512, 2048, 4096]))
        if index < len(counts) - 1 or draw(st.booleans()):
            chain["match"] = draw(st.lists(MATCHES, min_size=1, max_size=3))
        chains.append(chain)
    data: Data = {"apiVersion": "unis/v1", "name": draw(NAMES), "chains": chains}
    for key, strategy in (("traffic", TRAFFIC), ("scheduler", SCHEDULERS)):
        if draw(st.booleans()):
            data[key] = draw(strategy)
    return copy.deepcopy(data)  # samples are shared, and tests spoil them


def mappings(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Data]]:
    """Every mapping of a file whose keys the format fixes, with its place."""
    found: list[tuple[tuple[Any, ...], Data]] = []
    if isinstance(data, dict) and path[-1:] != ("cost_ns",):
        found.append((path, data))
        for key, value in data.items():
            found += mappings(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            found += mappings(value, (*path, index))
    return found
