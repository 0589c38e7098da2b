"""Random chain files, valid ones, as plain data."""

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from unis.chain.values import EGRESS, INGRESS
from unis.engine import names
from unis.engine.limits import limit

NAMES = st.from_regex(r"\A[a-z0-9][a-z0-9_-]{0,10}\Z").filter(
    lambda name: name not in (INGRESS, EGRESS) and not name.startswith("x-")
)
COSTS = st.floats(min_value=0.5, max_value=1e5)

Data = dict[str, Any]


def scaled(examples: int) -> int:
    """As many examples under the profile `thorough`, half by default, a tenth under `check`."""
    return max(3, examples * settings().max_examples // 100)


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
)
_DESCRIPTORS = maybe(descriptors=st.sampled_from([64, 512, 32768]))
_DEVICES = st.sampled_from(["net_tap0", "0000:03:00.0"])
PORTS = merged(st.fixed_dictionaries({"kind": st.just("port"), "device": _DEVICES}), _DESCRIPTORS)
PORT_TRAFFIC = st.fixed_dictionaries({"source": PORTS})
RATES = st.one_of(
    st.just("max"),
    st.builds(
        "{}{}{}".format,
        st.integers(1, 999),
        st.sampled_from(["", "k", "M", "G"]),
        st.sampled_from(["pps", "bps"]),
    ),
)
_SINKS = st.one_of(st.just({"kind": "measure"}), PORTS)
_LIMITED = RATES.filter(lambda rate: rate != "max")
TRAFFIC = st.one_of(
    maybe(source=SOURCES, rate=RATES, sink=_SINKS),
    st.fixed_dictionaries(
        {"rate": _LIMITED, "arrivals": st.sampled_from(names.arrivals())},
        optional={"source": SOURCES, "sink": _SINKS},
    ),
    PORT_TRAFFIC,
)
SCHEDULERS = maybe(
    policy=st.sampled_from(names.policies()),
    controller=st.sampled_from(names.controllers()),
    gamma=st.floats(min_value=0.5, max_value=limit("SchedulerSettings.gamma").max),
    theta_min=st.integers(0, 63),
    theta_max=st.integers(101, 4000),
    interval_us=st.floats(min_value=1, max_value=100),
    occupancy=st.booleans(),
    keep_order=st.booleans(),
    lead_us=st.one_of(st.just("auto"), st.floats(min_value=0, max_value=50)),
    max_wait_us=st.integers(0, 10_000),
    cost=st.sampled_from(["online", "static"]),
    idle_us=st.integers(0, 10_000),
    max_delay_us=st.one_of(st.just("auto"), st.integers(0, 2000)),
    rr_timeslice_ms=st.integers(1, 100),
    fair_slice_ms=st.floats(min_value=0.1, max_value=100),
)
_PROFILES = maybe(
    load=st.floats(min_value=0.01, max_value=1),
    rounds=st.integers(2, 1000),
    window=st.sampled_from(["50ms", "0.5s", "60s"]),
    hot=st.booleans(),
    output=st.just("build/profile"),
)
MODES = maybe(mode=st.sampled_from(["run", "profile"]), profile=_PROFILES)
MATCHES = merged(
    maybe(
        src=st.sampled_from(["10.0.0.0/8", "192.0.2.7/32"]),
        dst_port=st.integers(0, 65535),
        protocol=st.one_of(st.sampled_from(["tcp", "udp", "icmp"]), st.integers(0, 255)),
    ),
    st.builds(lambda port: {"src_port": port}, st.integers(0, 65535)),
)
# Programs of every machine, and on PATH.
_PROGRAMS = merged(
    st.fixed_dictionaries({"program": st.just("sh")}),
    maybe(
        cpu=st.integers(1, 6),
        args=st.lists(st.from_regex(r"\A--?[a-z]{1,8}\Z"), max_size=3),
        yield_every=st.integers(0, 64),
        offloads=st.lists(st.sampled_from(["rx-checksum", "jumbo-frames"]), max_size=1),
        env=st.dictionaries(st.sampled_from(["LANG", "A_1"]), st.just("x"), max_size=2),
        restart=st.sampled_from(["never", "on-failure"]),
        namespace=st.sampled_from(["own", "host"]),
    ),
    maybe(cost_ns=st.one_of(COSTS, st.dictionaries(st.integers(64, 1518), COSTS, min_size=1))),
)
# Neighbours have as many, so that any may stand beside any.
_ONE_QUEUE = st.one_of(st.just(1), maybe(rx=st.just(1), tx=st.just(1)))
_COMMANDS = merged(
    st.builds(
        lambda words: {"command": ["sh", *words]},
        st.one_of(
            st.lists(st.sampled_from(["--", "--own", "-x"]), max_size=4),
            st.permutations(["{eal}", "-c", "{cpu}"]),
        ),
    ),
    maybe(
        cpu=st.integers(1, 6),
        lcores=st.integers(1, 4),
        queues=_ONE_QUEUE,
        stdin=st.just("start\n"),
        cost_ns=COSTS,
    ),
)
FUNCTIONS = st.one_of(_PROGRAMS, _COMMANDS)


@st.composite
def chain_files(draw: st.DrawFn) -> Data:
    """Some functions, chains over them that share some, ways back, links of all kinds."""
    functions = draw(st.dictionaries(NAMES, FUNCTIONS, min_size=1, max_size=6))
    names_left = set(functions)
    chains: Data = {}
    for index in range(draw(st.integers(1, 3))):
        path = draw(st.lists(st.sampled_from(sorted(functions)), min_size=1, unique=True))
        names_left -= set(path)
        chains[f"chain{index}"] = {"path": path}
    if names_left:
        chains["rest"] = {"path": sorted(names_left)}
    forward = draw(st.sampled_from(sorted(chains)))
    if draw(st.booleans()):
        chains["back"] = {"reverse_of": forward}
    for index, chain in enumerate(chains.values()):
        chain["ring"] = draw(st.sampled_from([128, 512, 2048, 4096]))
        if index < len(chains) - 1 or draw(st.booleans()):
            chain["match"] = draw(st.lists(MATCHES, min_size=1, max_size=3))
    order = draw(st.permutations(list(chains)))
    if all("match" in chain for chain in chains.values()):
        chains = {name: chains[name] for name in order}
    data: Data = {
        "apiVersion": "unis/v1",
        "name": draw(NAMES),
        **draw(MODES),
        "defaults": {"cpu": 1, **draw(maybe(yield_every=st.integers(0, 64)))},
        "functions": functions,
        "chains": chains,
    }
    if links := draw(_links(chains)):
        data["links"] = links
    for key, strategy in (("traffic", TRAFFIC), ("scheduler", SCHEDULERS)):
        if draw(st.booleans()):
            data[key] = draw(strategy)
    return copy.deepcopy(data)  # samples are shared, and tests spoil them


@st.composite
def _links(draw: st.DrawFn, chains: Data) -> list[Data]:
    """Memifs before some functions, and rings of another size where there is no memif."""
    paths = [chain["path"] for chain in chains.values() if "path" in chain]
    stretches = sorted({s for path in paths for s in zip(["ingress", *path], path, strict=False)})
    chosen = draw(st.lists(st.sampled_from(stretches), max_size=3, unique=True))
    memifs = {to for _, to in draw(st.lists(st.sampled_from(chosen))) if to} if chosen else set()
    links = []
    for origin, to in chosen:
        link = {"from": origin, "to": to, "slots": draw(st.sampled_from([128, 1024, 8192]))}
        if to in memifs:
            link["kind"] = "memif"
        links.append(link)
    return links


def mappings(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Data]]:
    """Every mapping of a file whose keys the format fixes, with its place."""
    found: list[tuple[tuple[Any, ...], Data]] = []
    if isinstance(data, dict) and path[-1:] not in (("cost_ns",), ("env",)):
        if path not in (("functions",), ("chains",)):
            found.append((path, data))
        for key, value in data.items():
            found += mappings(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            found += mappings(value, (*path, index))
    return found
