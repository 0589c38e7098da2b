"""Defaults of the chain file, with the paper's symbols (sections 4.4 and 4.5)."""

GAMMA = 0.75  # γ: share of the egress that a time slice fills
BATCH = 64  # packets a burst
THETA_MIN_BELOW_BATCH = 8  # θmin = batch − 8 packets; θmax = γ · capacity unless the file states it
INTERVAL_US = 1.0  # T
RING = 2048  # slots of the ring between two NFs
MAX_WAIT_US = 1000.0  # not in the paper: a rest of ≤ θmin packets waits no longer than this
POLICY = "unis"
CONTROLLER = "priority"
LINK = "ring"

MIN_SIZE, MAX_SIZE = 64, 1518  # bytes of an Ethernet frame with FCS
DEFAULT_SIZE = MIN_SIZE
DEFAULT_FLOWS = 256  # distinct 5-tuples of synthetic traffic
# Debian builds DPDK for 32 ports in a group of processes; one is for the platform's own traffic.
MAX_FUNCTIONS = 31
