"""Profiles of network functions: what one passes by the cache and the load that it is given."""
