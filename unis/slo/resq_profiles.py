"""Profiles of the nine functions of the ResQ paper, as far as it prints them.

A. Tootoonchian, A. Panda, C. Lan, M. Walls, K. Argyraki, S. Ratnasamy, S. Shenker: *ResQ: Enabling
SLOs in Network Function Virtualization*, NSDI 2018. Mpps alone: its Table 1. Throughput by ways:
read off its Fig. 6 (± 0.3 points; LPM from 5 ways on, MazuNAT from 7, Stats at 1 and 6 ± 1.5), of a
Xeon E5 v4 with 20 ways, of which 18 are for functions. p95 by load: read off its Fig. 7 (± 5 %).

What it does not print is assumed, and `source` says so: throughput of Efficuts, EndRE, IPsec and
Suricata grows in a straight line from what was left at the worst neighbours (its Fig. 2, 64 B) with
one way to all with fifteen; latency of functions without a curve is that of Firewall.

Throughput by the part of the memory's bandwidth that is in use: read off its Fig. 4 (± 0.5 points),
without what falls at 100 %, where one use has two values. It was measured with the whole cache. Of
functions that the figure does not show nothing is assumed, nor of any the bandwidth that it uses.
"""

from collections.abc import Mapping

from unis.slo.profile import Profile

WAYS = 15  # of the curves of Fig. 6
_PRINTED = "ResQ, Table 1, Fig. 6, Fig. 7"
_NO_LATENCY = "ResQ, Table 1, Fig. 6; latency assumed as Firewall's"
_ASSUMED = "ResQ, Table 1; throughput by ways assumed from Fig. 2"

_MPPS = {
    "efficuts": 1.224, "endre": 3.770, "firewall": 0.366, "ipsec": 0.442, "lpm": 5.475,
    "mazunat": 2.698, "snort": 0.683, "stats": 3.685, "suricata": 0.205,
}  # fmt: skip
_PERCENT_BY_WAYS = {
    "firewall": (100.0,),
    "lpm": (70.0, 87.2, 94.2, 97.6, 100.0),
    "mazunat": (54.3, 64.4, 71.8, 79.7, 87.6, 94.4, 100.0),
    "snort": (
        56.8, 86.1, 87.3, 87.8, 89.1, 89.3, 90.8, 91.7, 92.7, 93.6, 94.5, 95.4, 96.4, 97.6, 98.2,
    ),
    "stats": (50.5, 66.1, 79.8, 90.0, 96.5, 99.6, 100.0),
}  # fmt: skip
_WORST_DROP = {"efficuts": 2.3, "endre": 0.7, "ipsec": 2.5, "suricata": 5.9}  # %, unisolated
_LATENCY = {
    "suricata": ((0.1, 23.4), (0.5, 25.0), (0.8, 26.8), (0.85, 29.5), (0.9, 37.0), (0.93, 1000.0)),
    "snort": (
        (0.1, 25.8), (0.5, 27.1), (0.8, 28.7), (0.85, 45.0), (0.9, 163.0), (0.95, 516.0),
        (0.98, 1000.0),
    ),
    "firewall": ((0.1, 15.2), (0.5, 17.1), (0.9, 19.1), (0.98, 25.6), (1.0, 789.0)),
    "stats": ((0.1, 12.6), (0.5, 14.5), (0.9, 17.1), (0.98, 22.6), (1.0, 583.0)),
}  # fmt: skip
# Of throughput alone, %, by the part of the memory's bandwidth in use, %.
PERCENT_BY_MEMORY: Mapping[str, Mapping[float, float]] = {
    "efficuts": {0: 100.0, 33: 100.0, 65: 99.3, 91: 98.0},
    "firewall": {0: 100.0, 100: 100.0},
    "mazunat": {0: 100.0, 33: 91.3, 65: 84.7, 91: 75.0},
    "snort": {0: 100.0, 33: 97.7, 65: 92.5, 91: 83.0},
    "suricata": {0: 100.0, 65: 97.5, 91: 94.4},
}


def _profile(name: str) -> Profile:
    if name in _PERCENT_BY_WAYS:
        by_ways = tuple(percent / 100 for percent in _PERCENT_BY_WAYS[name])
        source = _PRINTED if name in _LATENCY else _NO_LATENCY
    else:
        step = _WORST_DROP[name] / 100 / (WAYS - 1)
        by_ways = tuple(1 - step * (WAYS - ways) for ways in range(1, WAYS + 1))
        source = _ASSUMED if name in _LATENCY else f"{_ASSUMED}; latency as Firewall's"
    by_memory = tuple(
        (used / 100, percent / 100) for used, percent in PERCENT_BY_MEMORY.get(name, {}).items()
    )
    latency = _LATENCY.get(name, _LATENCY["firewall"])
    return Profile(name, _MPPS[name], by_ways, latency, source, share_by_memory=by_memory)


PROFILES: Mapping[str, Profile] = {name: _profile(name) for name in _MPPS}
