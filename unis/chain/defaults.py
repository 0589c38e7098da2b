"""Defaults of the chain file, with the paper's symbols (sections 4.4 and 4.5)."""

from typing import Literal

from unis.engine.limits import limit
from unis.links.kind import BATCH

GAMMA: Literal["auto"] = "auto"  # γ: share of the egress that a time slice fills
PAPER_GAMMA = 0.75  # the paper's; `auto` is no less
THETA_MIN = BATCH - 8  # θmin, packets; θmax = γ · capacity unless the file states it
INTERVAL_US = 1.0  # T
RING: Literal["auto"] = "auto"  # slots of a ring
MAX_WAIT_US = 1000.0  # not in the paper: a rest of ≤ θmin packets waits no longer than this
QUOTA: Literal["auto"] = "auto"  # packets of a turn, where functions hand the CPU over
AUTO_QUOTA = 2048  # which the engine then takes (kMostBudget in engine/scheduler/handover.cc)
IDLE_US = 500.0  # nor this: a CPU without a packet for so long sleeps
MAX_DELAY: Literal["auto"] = "auto"  # nor this: the wait of a packet for functions that sleep
MAX_DELAY_US = 100.0  # the longest of `auto`
LEAST_DELAY_US = 20.0  # functions whose packets may wait no longer than that poll
POLICY = "unis"
CONTROLLER = "handover"
ARRIVALS = "constant"
COST = "online"
LINK = "ring"

_SIZES = limit("EstimateRequest.sizes")
MIN_SIZE, MAX_SIZE = int(_SIZES.min or 0), int(_SIZES.max or 0)  # bytes of a frame with FCS
MIXES = {"imix": {64: 7, 594: 4, 1518: 1}, "datacenter": {200: 1, 1400: 1}}  # bytes: share
DEFAULT_SIZE = MIN_SIZE
DEFAULT_FLOWS = 256  # distinct 5-tuples of synthetic traffic
CHAINS_OF_A_FUNCTION = 8  # one port each, in pairs
