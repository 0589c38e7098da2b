"""How long packets take on a core whose functions pass it on in turn: a polling queue.

Function i has a load ρi of the core, ρ of all n; its packets take Si and come at random (Poisson).
Each runs till it has no packets left and passes the core on, which takes `switch`. Follows exactly:
a round takes n·switch ÷ (1 − ρ) in the mean, and the core is away from i for

    Ai = (1 − ρi) · n·switch ÷ (1 − ρ).

The weighted mean of the waits obeys the pseudo-conservation law of such queues (exhaustive service;
O. J. Boxma, W. P. Groenendijk, *Pseudo-conservation laws in cyclic-service systems*, J. Appl. Prob.
24, 1987). Two things are approximations, both usual: that waits are to one another as 1 − ρi
(exact where functions are alike), and that the time away has a gamma distribution (exact as ρ
goes to 1: E. G. Coffman, A. A. Puhalskii, M. I. Reiman, *Polling systems in heavy traffic: a Bessel
process limit*, Math. Oper. Res. 23, 1998). Together: the time away that a packet falls into
has a mean of Ai (1 + v) and the relative variance v ÷ (1 + v), with

    v = ρ Σ ρj Sj ÷ (n·switch · Σ ρj (1 − ρj)).

The packet comes somewhere in it, and leaves with those that came before and after: what came
meanwhile, ρi of the time away, is taken as a burst, or as several of 64. So it takes (U + ρi) times
the time away, U from 0 to 1 at random; one that comes in the turn of its function ρi of that, and
so on. `p95_of_turns` is a fit to the p95 of that.

`_SAFETY`, `_SMALL`, and the longest packet of the core on top are calibrated (docs/slo.md).
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

SWITCH_US = 1.5  # that a function takes to pass the CPU on (`unis calibrate`)
_SAFETY = 1.08
# More for one with little load where times away vary much: waits are not quite as 1 − ρi there.
_SMALL = 0.4
_ALONE_SAFETY = 1.2
_ALONE_WAITS, _ALONE_PACKETS = 4.5, 2.0  # p95 of one that is alone: so many mean waits and packets
_BURST = 64  # packets that a function takes at a time, and hands on together

Us = TypeVar("Us", float, NDArray[np.float64])  # one core, or many of as many functions


def added_us(
    own: Us, work_us: Us, load: Us, squares: Us, work: Us, longest: Us, count: int,
    switch_us: float = SWITCH_US,
) -> Us:  # fmt: skip
    """What 95 % of a function's packets take no longer than, on top of a core with nothing to do.

    `own` is ρi and `work_us` Si. Of all functions of the core, `count`: `load` is Σ ρj, below 1;
    `squares` Σ ρj²; `work` Σ ρj Sj and `longest` the longest Sj, µs.
    """
    if count == 1:
        return _ALONE_SAFETY * (_ALONE_WAITS * work / (2 * (1 - load)) + _ALONE_PACKETS * longest)
    passing = count * switch_us
    variance = load * work / (passing * (load - squares))
    away = (1 - own) * passing / (1 - load) * (1 + variance)
    burst = away * p95_of_turns(own, variance / (1 + variance))
    several = away * p95_of_turns(0 * own, variance / (1 + variance)) + _BURST * work_us
    small = np.maximum(0.0, 1 - count * own / load)
    safety = _SAFETY + _SMALL * small * variance / (1 + variance)
    added: Us = safety * np.minimum(burst, several) + longest
    return added


def p95_of_turns(own: Us, variance: Us) -> Us:
    """Of what packets wait, by the mean time away that they fall into, of such relative variance.

    A fit within 4 % to what is drawn, up to a load of its own of 0.5; above that it is too high.
    """
    times: Us = (0.96 + 0.87 * own) * (1 + (0.88 - 0.25 * own) * variance**0.6)
    return times
