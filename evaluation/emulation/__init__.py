"""A server without cache allocation, emulated: the rules of resctrl, and modelled counters."""
